//! errno of the calling thread, kept over system calls that the program did not make.

use libc::c_int;

/// Puts errno back when it goes.
pub(super) struct Kept(c_int);

pub(super) fn keep() -> Kept {
    // SAFETY: the calling thread's own number.
    Kept(unsafe { *libc::__errno_location() })
}

pub(super) fn set(errno: c_int) {
    // SAFETY: the calling thread's own number.
    unsafe { *libc::__errno_location() = errno };
}

impl Drop for Kept {
    fn drop(&mut self) {
        set(self.0);
    }
}
