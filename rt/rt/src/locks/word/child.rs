//! Whether this process is a child of a fork that was not mended yet.
//!
//! Handlers of forks (`pthread_atfork`) run in the order of their registration: one of the program's may need a lock before ours has run. `_Fork` and
//! `clone` call none at all. So a page shows it: the kernel clears it in a child (`MADV_WIPEONFORK`), and not in a child that shares the memory
//! (`vfork`), where other threads go on. It is read where a lock cannot be had at once, or has to be handed over.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// 1 in the page: this process was mended, or is the first one. Null: the kernel has no such pages.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// A `fn()` that mends this process.
static MEND: AtomicUsize = AtomicUsize::new(0);

/// From now on children are mended by this function when they meet a lock of their parent's.
///
/// # Safety
/// `page` is a page of zeros that is never unmapped, and used by nothing else.
pub(crate) unsafe fn expect_children(page: *mut u8, bytes: usize, mend: fn()) {
    // SAFETY: our caller's promise.
    unsafe {
        if cfg!(miri) || libc::madvise(page.cast(), bytes, libc::MADV_WIPEONFORK) != 0 {
            return;
        }
        (*page.cast::<AtomicU32>()).store(1, Ordering::Relaxed);
    }
    MEND.store(mend as usize, Ordering::Relaxed);
    PAGE.store(page.cast(), Ordering::Release);
}

/// Whether this process is to be mended: true for its first caller. Where that cannot be known, for all.
pub(crate) fn is_to_be_mended() -> bool {
    // SAFETY: null, or a page that stays.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    page.is_none_or(|page| page.swap(1, Ordering::Relaxed) == 0)
}

/// Mends this process if it is a new child. False: it is none.
pub(super) fn mend() -> bool {
    // SAFETY: as above.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    if page.is_none_or(|page| page.load(Ordering::Relaxed) != 0 || page.swap(1, Ordering::Relaxed) != 0) {
        return false;
    }
    // SAFETY: it was stored before the page was, as a function of that kind.
    let mend = unsafe {
        std::mem::transmute::<*const (), fn()>(ptr::with_exposed_provenance(MEND.load(Ordering::Relaxed)))
    };
    mend();
    true
}
