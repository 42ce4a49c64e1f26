//! Walls: pages without access behind buffers (`UMEM_DEBUG=firewall`).
//!
//! Each costs two of the mappings of which the kernel gives a process only so many, and without which it gives no more memory: when most of them are used,
//! buffers have no wall, and that is said.

use super::{messages, settings};
use crate::stacks::page_size;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many walls there are.
static WALLS: AtomicUsize = AtomicUsize::new(0);

/// The last page of a run of pages becomes a wall; how many bytes before it can be touched. None: there are too many walls, or the kernel refused.
///
/// # Safety
/// The pages are the caller's, and nothing is in the last one.
pub(super) unsafe fn raise(base: *mut u8, bytes: usize) -> Option<usize> {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    let rest = bytes - page_size();
    let has_place = WALLS.fetch_add(1, Ordering::Relaxed) < settings::get().walls;
    // SAFETY: our caller's promise.
    if has_place && unsafe { libc::mprotect(base.add(rest).cast(), page_size(), libc::PROT_NONE) } == 0 {
        return Some(rest);
    }
    forget();
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        messages::say(format_args!(
            "umem: firewall: too many buffers for vm.max_map_count: some have no page without access behind them; \
             raise it, or firewall=min\n"
        ));
    }
    None
}

/// A wall becomes a page again. False: the kernel refused.
///
/// # Safety
/// [`raise`] gave `rest`, and the pages are the caller's.
#[must_use]
pub(super) unsafe fn tear_down(base: *mut u8, bytes: usize, rest: usize) -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: our caller's promise.
    if unsafe { libc::mprotect(base.add(rest).cast(), bytes - rest, rights) } != 0 {
        return false;
    }
    forget();
    true
}

/// A wall is gone, with its mapping.
pub(super) fn forget() {
    WALLS.fetch_sub(1, Ordering::Relaxed);
}
