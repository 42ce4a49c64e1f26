//! The system call under all locks.

use libc::{c_int, c_long, timespec};
use std::ptr;
use std::sync::atomic::AtomicU32;

/// The processes that a futex is known to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The threads of this process.
    Private,
    /// All that have the memory that it is in.
    Shared,
}

/// One `operation` on a word, which may wait until `deadline`; the error is the kernel's. errno stays as it was: an allocator that waited for a lock
/// has nothing to say.
pub(crate) fn futex(
    word: &AtomicU32,
    operation: c_int,
    scope: Scope,
    value: u32,
    deadline: Option<&timespec>,
) -> Result<(), c_int> {
    let operation = if scope == Scope::Private { operation | libc::FUTEX_PRIVATE_FLAG } else { operation };
    let deadline = deadline.map_or(ptr::null(), ptr::from_ref);
    let (none, any) = (ptr::null::<u32>(), libc::FUTEX_BITSET_MATCH_ANY);
    // SAFETY: the kernel uses the word as a futex is meant to be; it and the deadline live while this thread waits, being borrowed. errno is this
    // thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let answer: c_long =
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, deadline, none, any);
        let said = *errno;
        *errno = before;
        if answer < 0 { Err(said) } else { Ok(()) }
    }
}
