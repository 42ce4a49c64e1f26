//! Preserves errno of the calling thread over system calls of the allocator.

use libc::c_int;

/// Restores errno when dropped.
pub(super) struct Kept(c_int);

pub(super) fn keep() -> Kept {
    // SAFETY: errno is thread-local.
    Kept(unsafe { *libc::__errno_location() })
}

pub(super) fn set(errno: c_int) {
    // SAFETY: errno is thread-local.
    unsafe { *libc::__errno_location() = errno };
}

impl Drop for Kept {
    fn drop(&mut self) {
        set(self.0);
    }
}
