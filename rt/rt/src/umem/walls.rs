//! Walls: inaccessible pages after buffers (`UMEM_DEBUG=firewall`).
//!
//! Each wall costs two mappings. The kernel limits the mappings of a process, and a process at the limit gets no more memory. So when most mappings
//! are used, further buffers get no wall, and this is reported.

use super::{messages, settings};
use crate::stacks::page_size;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of walls.
static WALLS: AtomicUsize = AtomicUsize::new(0);

/// Makes the last page of a run a wall. Returns the accessible bytes before it. `None`: too many walls, or the kernel refused.
///
/// # Safety
/// The caller owns the pages, and does not use the last one.
pub(super) unsafe fn raise(base: *mut u8, bytes: usize) -> Option<usize> {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    let rest = bytes - page_size();
    let has_place = WALLS.fetch_add(1, Ordering::Relaxed) < settings::get().walls;
    // SAFETY: by the caller's promise.
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

/// Makes a wall accessible again. False: the kernel refused.
///
/// # Safety
/// [`raise`] returned `rest`, and the caller owns the pages.
#[must_use]
pub(super) unsafe fn tear_down(base: *mut u8, bytes: usize, rest: usize) -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: by the caller's promise.
    if unsafe { libc::mprotect(base.add(rest).cast(), bytes - rest, rights) } != 0 {
        return false;
    }
    forget();
    true
}

/// Counts a wall that is gone with its mapping.
pub(super) fn forget() {
    WALLS.fetch_sub(1, Ordering::Relaxed);
}
