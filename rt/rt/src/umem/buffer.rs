//! One buffer on its way between a slab and its user: checked and constructed, destroyed and checked.

use super::settings::words;
use super::{debug, report, slab};
use millpond_rt_layout::Cache;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why there is no buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    Memory,
    Object,
}

/// A buffer from a slab, checked and constructed.
///
/// # Safety
/// The cache is alive.
///
/// # Errors
/// [`Lack`].
#[inline(always)]
pub(super) unsafe fn alloc(cache: *mut Cache) -> Result<*mut u8, Lack> {
    // SAFETY: our caller's promise.
    unsafe {
        let mut buffer = ptr::null_mut();
        if slab::take(cache, &raw mut buffer, 1) == 0 {
            return Err(Lack::Memory);
        }
        if (*cache).tag > 0 {
            debug::allocated(cache, buffer);
        }
        if let Some(constructor) = (*cache).constructor
            && constructor(buffer.cast(), (*cache).private, words::DEFAULT) != 0
        {
            if (*cache).tag > 0
                && let Ok(place) = slab::find(cache, buffer.addr())
            {
                debug::freed(cache, buffer, place);
            }
            let _ = slab::give(cache, &raw const buffer, 1);
            return Err(Lack::Object);
        }
        count(cache, 1);
        Ok(buffer)
    }
}

/// Counts allocations that no pair counts.
pub(super) unsafe fn count(cache: *mut Cache, how_many: u64) {
    // SAFETY: the place is a live cache's, and only used so where threads could meet.
    let allocs = unsafe { AtomicU64::from_ptr(&raw mut (*cache).allocs) };
    allocs.fetch_add(how_many, Ordering::Relaxed);
}

/// Gives a buffer of a cache that checks back.
///
/// # Safety
/// The cache is alive and checks. The address need not be a buffer.
#[inline(always)]
pub(super) unsafe fn free_checked(cache: *mut Cache, buffer: *mut u8) {
    // SAFETY: nothing is touched before the buffer is found to be one.
    unsafe {
        match slab::find(cache, buffer.addr()) {
            Err(stray) => report::stray(cache, buffer.addr(), stray),
            Ok(place) => {
                if !debug::can_be_freed(cache, buffer, place) {
                    return;
                }
                if let Some(destructor) = (*cache).destructor {
                    destructor(buffer.cast(), (*cache).private);
                }
                debug::freed(cache, buffer, place);
                if let Err((address, stray)) = slab::give(cache, &raw const buffer, 1) {
                    report::stray(cache, address, stray);
                }
            }
        }
    }
}

/// Ends objects and gives their buffers back to the slabs.
///
/// # Safety
/// The cache is alive, and the buffers are unused; addresses that are none are reported.
pub(super) unsafe fn free(cache: *mut Cache, from: *const *mut u8, count: usize) {
    // SAFETY: our caller's promise.
    unsafe {
        if let Some(destructor) = (*cache).destructor {
            for at in 0..count {
                destructor((*from.add(at)).cast(), (*cache).private);
            }
        }
        if let Err((address, stray)) = slab::give(cache, from, count) {
            report::stray(cache, address, stray);
        }
    }
}
