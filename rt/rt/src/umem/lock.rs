//! The locks of caches: priority-inheritance locks in words of the shared layout. The head of `umem/mod.rs` gives their order.

use crate::locks::word::Word;

/// The lock at an address of the shared layout.
pub(super) fn word(place: *mut u32) -> &'static Word {
    // SAFETY: locks are in statics or in memory that is never returned to the kernel, and are accessed as locks only. A `Word` is one integer.
    unsafe { &*place.cast::<Word>() }
}

/// Calls `work` while the lock is held.
pub(super) fn with<T>(place: *mut u32, work: impl FnOnce() -> T) -> T {
    let word = word(place);
    word.lock();
    let done = work();
    word.unlock();
    done
}
