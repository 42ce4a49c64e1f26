//! errno of the calling thread, kept over system calls that the program did not make.

use libc::c_int;

/// Puts errno back when it goes.
pub(super) struct Kept(c_int);

pub(super) fn keep() -> Kept {
    // SAFETY: the calling thread's own number.
    Kept(unsafe { *libc::__errno_location() })
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}
