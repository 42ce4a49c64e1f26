//! Detects that this process is the child of a fork whose locks were not repaired yet.
//!
//! Fork handlers (`pthread_atfork`) run in the order of their registration, so a handler of the program may need a lock before the handler of this
//! library has run. `_Fork` and `clone` call no handlers. So a page shows it: the kernel clears it in a child (`MADV_WIPEONFORK`), but not in a
//! child that shares the memory (`vfork`), where other threads run on. It is read when a lock is contended, or must be handed over.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// A page with value 1 if this process was repaired or is the first one. Null: the kernel does not support such pages.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// A `fn()` that repairs the locks of this process.
static MEND: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that repairs a child when it meets a lock of its parent.
///
/// # Safety
/// `page` is zeroed, never unmapped, and not used for anything else.
pub(crate) unsafe fn expect_children(page: *mut u8, bytes: usize, mend: fn()) {
    // SAFETY: by the caller's promise.
    unsafe {
        if cfg!(miri) || libc::madvise(page.cast(), bytes, libc::MADV_WIPEONFORK) != 0 {
            return;
        }
        (*page.cast::<AtomicU32>()).store(1, Ordering::Relaxed);
    }
    MEND.store(mend as usize, Ordering::Relaxed);
    PAGE.store(page.cast(), Ordering::Release);
}

/// Whether this process needs repair: true for its first caller. If that cannot be detected, true for all.
pub(crate) fn is_to_be_mended() -> bool {
    // SAFETY: null, or a page that is never unmapped.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    page.is_none_or(|page| page.swap(1, Ordering::Relaxed) == 0)
}

/// Repairs this process if it is a new child. False: it is not.
pub(super) fn mend() -> bool {
    // SAFETY: as above.
    let page = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    if page.is_none_or(|page| page.load(Ordering::Relaxed) != 0 || page.swap(1, Ordering::Relaxed) != 0) {
        return false;
    }
    // SAFETY: it was stored before the page was, from a value of that type.
    let mend = unsafe {
        std::mem::transmute::<*const (), fn()>(ptr::with_exposed_provenance(MEND.load(Ordering::Relaxed)))
    };
    mend();
    true
}
