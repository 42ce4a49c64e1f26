//! The locks of caches: priority-inheritance locks in words of the shared layout. Their order stands in the head of `umem/mod.rs`.

use crate::locks::word::Word;

/// A lock that lies in the shared layout.
pub(super) fn word(place: *mut u32) -> &'static Word {
    // SAFETY: locks lie in statics or in memory that is never given back to the kernel, are used as locks only, and a word is one integer.
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
