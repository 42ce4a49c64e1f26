//! The futex system call.

use libc::{c_int, c_long, timespec};
use std::ptr;
use std::sync::atomic::AtomicU32;

/// The processes that share a futex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The threads of this process.
    Private,
    /// All processes that map its memory.
    Shared,
}

/// Performs a futex `operation`, which may wait until `deadline`. The error is the kernel's. errno is preserved, so that an allocator that waited
/// for a lock does not change it.
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
    // SAFETY: the word is used as a futex only. It and the deadline are borrowed, so they live while this thread waits. errno is thread-local.
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
