//! The locks of caches: words of the shared layout, which inherit priorities.
//!
//! Their order: the list of caches, a cache's slabs or depot, spans, own memory. Nobody who has one asks for one before it. Messages have one of
//! their own that is the last.

use crate::locks::word::Word;

/// A lock that lies in the shared layout.
pub(super) fn word(place: *mut u32) -> &'static Word {
    // SAFETY: locks lie in statics or in memory that is never given back to the kernel, are used as locks only, and a word is one integer.
    unsafe { &*place.cast::<Word>() }
}

/// Does something while nobody else has the lock.
pub(super) fn with<T>(place: *mut u32, work: impl FnOnce() -> T) -> T {
    let word = word(place);
    word.lock();
    let done = work();
    word.unlock();
    done
}
