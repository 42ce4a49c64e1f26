//! The calls for programs in C: a file for each part. What each call promises stands in `include/millpond/`, whose headers belong to these files.
//!
//! Nothing is decided here: pointers are checked, and errors become errno.

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
