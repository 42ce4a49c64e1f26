//! A stack of the library for real-time programs, through its C functions.

use millpond_machine::Absent;
use millpond_session::Library;
use millpond_workloads::stacks::{Count, on_stack};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// Size of the stack in bytes: one of the library's sizes.
const BYTES: usize = 64 << 10;

type Alloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

/// How much of a stack of `stack_alloc` is in memory when a thread begins on it.
///
/// # Errors
/// The library lacks the functions, or refuses; or the thread cannot be created.
pub(super) fn look(library: &Library) -> Result<Count, Absent> {
    let (alloc, free) = (library.call(c"stack_alloc")?, library.call(c"stack_free")?);
    // SAFETY: the types are those of millpond/rt.h; the interface's number is in the library's name.
    let (alloc, free) = unsafe {
        (
            std::mem::transmute::<NonNull<c_void>, Alloc>(alloc),
            std::mem::transmute::<NonNull<c_void>, Free>(free),
        )
    };
    // SAFETY: the function only takes a number.
    let stack = NonNull::new(unsafe { alloc(BYTES) });
    let stack = stack.ok_or_else(|| Absent::because("stack_alloc gives no stack of 64 KB"))?;
    // SAFETY: the memory has this size, and is ours until it is freed.
    let count = unsafe { on_stack(stack.cast(), BYTES) };
    // SAFETY: its thread was joined.
    unsafe { free(stack.as_ptr(), BYTES) };
    count.map_err(|error| Absent::because(error.to_string()))
}
