//! A stack of the library for real-time programs, by its calls for C.

use millpond_machine::Absent;
use millpond_session::Library;
use millpond_workloads::stacks::{Count, on_stack};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// Of the stack, in bytes: one of the sizes that it has.
const BYTES: usize = 64 << 10;

type Alloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// How much of a stack of `stack_alloc` is in memory when a thread begins on it.
///
/// # Errors
/// The library lacks the calls, or refuses; or the thread cannot be had.
pub(super) fn look(library: &Library) -> Result<Count, Absent> {
    let (alloc, free) = (library.call(c"stack_alloc")?, library.call(c"stack_free")?);
    // SAFETY: this is how millpond/rt.h declares them; its number is in the library's name.
    let (alloc, free) = unsafe {
        (
            std::mem::transmute::<NonNull<c_void>, Alloc>(alloc),
            std::mem::transmute::<NonNull<c_void>, Free>(free),
        )
    };
    // SAFETY: a number is given.
    let stack = NonNull::new(unsafe { alloc(BYTES) });
    let stack = stack.ok_or_else(|| Absent::because("stack_alloc gives no stack of 64 KB"))?;
    // SAFETY: there is so much memory, and it is ours until it is freed.
    let count = unsafe { on_stack(stack.cast(), BYTES) };
    // SAFETY: its thread was joined.
    unsafe { free(stack.as_ptr(), BYTES) };
    count.map_err(|error| Absent::because(error.to_string()))
}
