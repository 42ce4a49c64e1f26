//! The calls for programs in C: a file for each part. Headers in `include/millpond/` and manual pages say what each call promises.
//!
//! Nothing is decided here: pointers are checked, and errors become errno.
//!
//! # Safety
//!
//! "Our caller" in a SAFETY comment is the program in C. It promises what the headers demand:
//!
//! * A pointer is null, or of a value of its type that may be read, and written to where the header does not say `const`. A text ends with a zero.
//! * An array has as many elements as its count says.
//! * A mutex, condition, cache or handle is what the call that makes it made, and was not destroyed. One thread at a time uses a handle.

mod locks;
mod realtime;
mod stacks;
mod umem;

use libc::c_int;

/// For calls that give -1: sets errno.
#[cold]
fn fail(errno: c_int) -> c_int {
    // SAFETY: the calling thread's own number.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Writes elements to an array, at most as many as it has room for; how many. Null and 0: how many there are.
///
/// # Safety
/// `to` is null, or `count` elements may be written there.
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
        // SAFETY: `at` is less than `count`, and our caller promises so much room.
        unsafe { to.add(at).write(one) };
    }
    c_int::try_from(told).unwrap_or(c_int::MAX)
}
