//! Calls for programs in C: a file for each part. The headers in `include/millpond/` and the manual pages document each call.
//!
//! This layer makes no decisions. It checks pointers and converts errors to errno.
//!
//! # Safety
//!
//! "Our caller" in a SAFETY comment is the program in C. It must fulfil the headers' demands:
//!
//! * A pointer is null, or points to a readable value of its type, which is writable where the header does not say `const`. Strings are
//!   zero-terminated.
//! * An array has as many elements as its count says.
//! * A mutex, condition, cache or handle was made by its constructor, and was not destroyed. One thread at a time uses a handle.

mod locks;
mod realtime;
mod stacks;
mod umem;

use libc::c_int;

/// Sets errno and returns -1.
#[cold]
fn fail(errno: c_int) -> c_int {
    // SAFETY: errno is thread-local.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Writes elements to an array, as many as fit, and returns their number. With null and 0: returns how many there are.
///
/// # Safety
/// `to` is null, or has room for `count` elements.
unsafe fn fill<T, I: ExactSizeIterator<Item = T>>(
    to: *mut T,
    count: c_int,
    all: impl FnOnce() -> Result<I, c_int>,
) -> c_int {
    let room = match usize::try_from(count) {
        Ok(room) if to.is_null() == (room == 0) => room,
        _ => return fail(libc::EINVAL),
    };
    let all = match all() {
        Ok(all) => all,
        Err(errno) => return fail(errno),
    };
    let told = if to.is_null() { all.len() } else { all.len().min(room) };
    for (at, one) in all.enumerate().take(room) {
        // SAFETY: `at` is less than `count`, and our caller promises room for `count`.
        unsafe { to.add(at).write(one) };
    }
    c_int::try_from(told).unwrap_or(c_int::MAX)
}
