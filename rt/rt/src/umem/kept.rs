//! Large buffers that a thread freed last, for its next requests: without a lock, and without returning pages and faulting them in again.
//!
//! A thread keeps a few of them in its block. All threads together keep at most [`MOST`] pages: each thread reserves a quota when it needs more than
//! it has. Each update returns all kept buffers to the heap and resets the quotas, so that threads which need none have none. Any thread may take a
//! buffer out of a block; only the owner puts one in.

use super::pages;
use crate::stacks::page_size;
use millpond_rt_layout::{KEPT, PAGE, Span, Thread, kind};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum pages that all threads keep together: a 16 MB buffer each for two threads, and 8 MB for all others.
const MOST: u32 = (40 << 20) / PAGE as u32;
/// A buffer may exceed the request by one part in this many.
const SLACK: u64 = 8;

const POINTER: u64 = (1 << 48) - 1;

/// Pages that threads have reserved since the update with number `UPDATE`.
static RESERVED: AtomicU32 = AtomicU32::new(0);
static UPDATE: AtomicU32 = AtomicU32::new(1);

unsafe fn places(block: *mut Thread) -> [&'static AtomicU64; KEPT] {
    // SAFETY: blocks are never freed, and the places are accessed as atomics only.
    unsafe { std::array::from_fn(|at| AtomicU64::from_ptr(&raw mut (*block).kept[at])) }
}

fn pages_of(word: u64) -> u64 {
    word >> 48
}

/// The span of a non-empty place.
unsafe fn taken_out(word: u64) -> *mut Span {
    let span: *mut Span = ptr::with_exposed_provenance_mut((word & POINTER) as usize);
    // SAFETY: it is in no place any more, so the caller owns it.
    unsafe { pages::set_kind(span, kind::LARGE) };
    span
}

/// Takes a buffer of at least `bytes` bytes, and not many more. Null: no kept buffer fits.
///
/// # Safety
/// The block is the calling thread's.
pub(super) unsafe fn take(block: *mut Thread, bytes: usize) -> *mut Span {
    let wanted = (bytes.max(1).div_ceil(page_size()) * (page_size() / PAGE)) as u64;
    // SAFETY: by the caller's promise.
    unsafe {
        for place in places(block) {
            let word = place.load(Ordering::Relaxed);
            let fits = (wanted..=wanted + wanted / SLACK).contains(&pages_of(word));
            if fits && place.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                (*block).reused += 1;
                return taken_out(word);
            }
        }
    }
    ptr::null_mut()
}

/// Keeps a freed large buffer. False: it is too large, or the threads keep enough.
///
/// # Safety
/// The block is the calling thread's. The caller owns the span, and no thread uses its pages.
pub(super) unsafe fn put(block: *mut Thread, span: *mut Span) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let more = ((*span).bytes / PAGE) as u64;
        if more > u64::from(MOST) || span.expose_provenance() as u64 & !POINTER != 0 {
            return false;
        }
        let places = places(block);
        let has: u64 = places.iter().map(|place| pages_of(place.load(Ordering::Relaxed))).sum();
        if !reserve(block, (has + more) as u32) {
            return false;
        }
        // If all places are full, the oldest buffer is freed.
        let place = places.iter().find(|place| place.load(Ordering::Relaxed) == 0).unwrap_or_else(|| {
            free(places[0]);
            for (to, from) in places.iter().zip(&places[1..]) {
                to.store(from.swap(0, Ordering::Relaxed), Ordering::Release);
            }
            &places[KEPT - 1]
        });
        (*span).dirty = (*span).bytes;
        pages::set_kind(span, kind::KEPT);
        place.store(span.expose_provenance() as u64 | more << 48, Ordering::Release);
        true
    }
}

/// Reserves a quota. Whether the thread may keep `wanted` pages.
unsafe fn reserve(block: *mut Thread, wanted: u32) -> bool {
    let update = UPDATE.load(Ordering::Relaxed);
    // SAFETY: the caller owns the block.
    unsafe {
        if (*block).update != update {
            ((*block).update, (*block).quota) = (update, 0);
        }
        let Some(more) = wanted.checked_sub((*block).quota).filter(|more| *more > 0) else { return true };
        if RESERVED.fetch_add(more, Ordering::Relaxed) + more > MOST {
            RESERVED.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        (*block).quota = wanted;
    }
    true
}

/// Whether a block has a kept buffer.
///
/// # Safety
/// It is a valid block.
pub(super) unsafe fn is_any(block: *mut Thread) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { places(block) }.iter().any(|place| place.load(Ordering::Relaxed) != 0)
}

fn free(place: &AtomicU64) -> bool {
    let word = place.swap(0, Ordering::Acquire);
    if word != 0 {
        // SAFETY: the swap made it this function's, and it is unused.
        unsafe { pages::free(taken_out(word)) };
    }
    word != 0
}

/// Returns all kept buffers of a block to the heap. False: there were none.
///
/// # Safety
/// It is a valid block.
pub(super) unsafe fn give_back(block: *mut Thread) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { places(block) }.into_iter().filter(|place| free(place)).count() > 0
}

/// The thread of a block ends: its buffers return to the heap, and its quota becomes available.
///
/// # Safety
/// No other thread has the block.
pub(super) unsafe fn end(block: *mut Thread) {
    // SAFETY: by the caller's promise.
    unsafe {
        give_back(block);
        if (*block).update == UPDATE.load(Ordering::Relaxed) {
            let quota = (*block).quota;
            let less = |reserved: u32| Some(reserved.saturating_sub(quota));
            let _ = RESERVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        (*block).quota = 0;
    }
}

/// Returns all kept buffers of a list of blocks to the heap.
///
/// # Safety
/// They are valid blocks.
pub(super) unsafe fn give_back_all(mut block: *mut Thread) {
    UPDATE.fetch_add(1, Ordering::Relaxed);
    RESERVED.store(0, Ordering::Relaxed);
    while !block.is_null() {
        // SAFETY: blocks are never returned to the kernel.
        unsafe {
            give_back(block);
            block = (*block).next;
        }
    }
}

/// For the child of a fork: resets the quotas.
pub(super) fn forget_others() {
    UPDATE.fetch_add(1, Ordering::Relaxed);
    RESERVED.store(0, Ordering::Relaxed);
}
