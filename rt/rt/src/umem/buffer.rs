//! One buffer between a slab and its user: check and construction, destruction and check.

use super::settings::words;
use super::{debug, report, slab};
use millpond_rt_layout::Cache;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why an allocation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    Memory,
    Object,
}

/// Takes a buffer from a slab, checks and constructs it.
///
/// # Safety
/// The cache is alive.
///
/// # Errors
/// [`Lack`].
#[inline(always)]
pub(super) unsafe fn alloc(cache: *mut Cache) -> Result<*mut u8, Lack> {
    // SAFETY: by the caller's promise.
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

/// Adds allocations to the cache's count. Those from magazines are counted in pairs first.
pub(super) unsafe fn count(cache: *mut Cache, how_many: u64) {
    // SAFETY: the counter belongs to a live cache, and all concurrent accesses are atomic.
    let allocs = unsafe { AtomicU64::from_ptr(&raw mut (*cache).allocs) };
    allocs.fetch_add(how_many, Ordering::Relaxed);
}

/// Returns a buffer of a cache with checks.
///
/// # Safety
/// The cache is alive and has checks. The address need not be a buffer.
#[inline(always)]
pub(super) unsafe fn free_checked(cache: *mut Cache, buffer: *mut u8) {
    // SAFETY: nothing is accessed before the buffer is found valid.
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

/// Destroys objects and returns their buffers to the slabs.
///
/// # Safety
/// The cache is alive, and the buffers are unused. Invalid addresses are reported.
pub(super) unsafe fn free(cache: *mut Cache, from: *const *mut u8, count: usize) {
    // SAFETY: by the caller's promise.
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
