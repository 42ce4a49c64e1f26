//! Thread blocks: a pair of magazines for each cache, found by one load from thread-local memory.
//!
//! A thread gets its block at its first request, and returns it when the destructors of its thread-specific data run. Later allocations and frees of
//! the thread use slabs: the C library frees a few of its own buffers after all destructors, and a block that is claimed then would never be
//! returned.

use super::{depot, kept, meta, root, visit};
use crate::locks::word::thread_number;
use crate::own::word_of_thread;
use millpond_rt_layout::{Cache, NO_PAIR, Pair, Thread};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};

/// Caches by their index in [`Thread::pairs`].
static CACHES: [AtomicPtr<Cache>; NO_PAIR as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NO_PAIR as usize];

/// One more than the key of the thread-specific data, whose destructor returns the block. 0: not created yet.
static KEY: AtomicU32 = AtomicU32::new(0);

word_of_thread!("millpond_rt_umem_thread");

/// Not null: the calling thread has returned its block.
mod ended {
    use crate::own::word_of_thread;

    word_of_thread!("millpond_rt_umem_ended");

    pub(super) fn is_so() -> bool {
        !get().is_null()
    }

    pub(super) fn begin() {
        set(std::ptr::without_provenance_mut(1));
    }
}

/// The calling thread's block, or null.
#[inline(always)]
pub(super) fn current() -> *mut Thread {
    get().cast()
}

/// The calling thread's block, created if it has none. Null: out of memory, the thread has returned its block, or it is just initialising the
/// allocator.
#[inline(always)]
pub(super) fn current_or_new() -> *mut Thread {
    let block = current();
    if block.is_null() { attach() } else { block }
}

#[cold]
fn attach() -> *mut Thread {
    if ended::is_so() || !root::wait_until_ready() {
        return ptr::null_mut();
    }
    let block = current();
    if !block.is_null() {
        return block;
    }
    let block = claim();
    if !block.is_null() {
        set(block.cast());
        watch_end(block);
    }
    block
}

/// A free block, or a new one. Null: out of memory.
fn claim() -> *mut Thread {
    let _held = root::LISTS.hold();
    let list = root::threads();
    let mut block = list.load(Ordering::Acquire);
    // SAFETY: blocks are never freed; their thread IDs change under the lock.
    unsafe {
        while !block.is_null() && (*block).tid != 0 {
            block = (*block).next;
        }
        if block.is_null() {
            block = meta::alloc(size_of::<Thread>()).cast();
            if block.is_null() {
                return block;
            }
            (*block).next = list.load(Ordering::Relaxed);
            list.store(block, Ordering::Release);
        }
        (*block).tid = thread_number();
    }
    block
}

/// Registers the destructor for ending threads. The allocator must be ready.
pub(super) fn register() {
    let mut key = 0;
    // SAFETY: a function of this file whose argument is the value that is set below.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
        // The initialising thread may have its block already.
        watch_end(current());
    }
}

fn watch_end(block: *mut Thread) {
    let key = KEY.load(Ordering::Acquire);
    if key > 0 && !block.is_null() {
        // SAFETY: the key is this file's. If the call fails, the block leaks when its thread ends.
        unsafe { libc::pthread_setspecific(key - 1, block.cast()) };
    }
}

/// Called when a thread ends.
extern "C" fn end(block: *mut libc::c_void) {
    set(ptr::null_mut());
    ended::begin();
    // SAFETY: it was set by `watch_end` in this thread.
    unsafe { release(block.cast()) };
}

/// Returns the magazines of a block to the depots. Then another thread may claim the block.
unsafe fn release(block: *mut Thread) {
    // SAFETY: the caller owns the block.
    unsafe { kept::end(block) };
    visit::visiting(|visitor| {
        let mut indices = 0..CACHES.len();
        loop {
            let mut pair: *mut Pair = ptr::null_mut();
            let cache = visitor.go_on(|_| {
                let used = indices.find_map(|index| {
                    let cache = cache_at(index);
                    // SAFETY: the caller owns the block. Pairs of a cache that is being destroyed belong to the destroying thread.
                    unsafe {
                        pair = &raw mut (*block).pairs[index];
                        let is_used = !cache.is_null() && (!(*pair).base.is_null() || (*pair).allocs > 0);
                        is_used.then_some(cache)
                    }
                });
                used.unwrap_or(ptr::null_mut())
            });
            if cache.is_null() {
                break;
            }
            // SAFETY: the cache is alive while it is visited, and the caller owns the block.
            unsafe { depot::unload(cache, pair, depot::own(block)) };
        }
    });
    let _held = root::LISTS.hold();
    // SAFETY: the caller owns the block.
    unsafe { (*block).tid = 0 };
}

/// For the child of a fork: releases the blocks of all other threads. With `keep` their magazines return to the depots, except for threads that were
/// at an exchange.
pub(super) fn forget_others(keep: bool) {
    kept::forget_others();
    let mut block = root::threads().load(Ordering::Acquire);
    let mine = current();
    // SAFETY: blocks are never freed, and their owners are not in this process.
    unsafe {
        while !block.is_null() {
            if block == mine {
                (*block).tid = thread_number();
            } else if keep && (*block).tid != 0 && (*block).busy == 0 {
                release(block);
            }
            block = (*block).next;
        }
    }
}

/// Enters a cache. Returns its index, or [`NO_PAIR`].
pub(super) fn enter(cache: *mut Cache) -> u32 {
    let free = CACHES.iter().enumerate().find(|(_, place)| {
        place.compare_exchange(ptr::null_mut(), cache, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    free.map_or(NO_PAIR, |(index, _)| index as u32)
}

/// The cache of an index; null if it has none, or is being destroyed.
pub(super) fn cache_at(place: usize) -> *mut Cache {
    let cache = CACHES.get(place).map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
    if cache == LEAVING { ptr::null_mut() } else { cache }
}

/// The entry of a cache that is being destroyed: no thread uses the index, and no other cache gets it.
const LEAVING: *mut Cache = ptr::without_provenance_mut(align_of::<Cache>());

/// From now on, ending threads leave their magazines of a cache to [`leave`]. The caller holds the list of caches.
///
/// # Safety
/// No thread uses the cache any more.
pub(super) unsafe fn begin_leaving(cache: *mut Cache) {
    // SAFETY: the cache is alive.
    let index = unsafe { (*cache).index };
    if index != NO_PAIR {
        CACHES[index as usize].store(LEAVING, Ordering::Release);
    }
}

/// Removes a cache: the magazines of all threads return to its depot. The list of caches is not locked, because destructors may run.
///
/// # Safety
/// [`begin_leaving`] was called, and no thread uses the cache any more.
pub(super) unsafe fn leave(cache: *mut Cache) {
    // SAFETY: by the caller's promise no thread uses the pairs of that cache.
    unsafe {
        let index = (*cache).index;
        if index == NO_PAIR {
            return;
        }
        let mut block = root::threads().load(Ordering::Acquire);
        while !block.is_null() {
            depot::unload(cache, &raw mut (*block).pairs[index as usize], depot::own(block));
            block = (*block).next;
        }
        (*cache).index = NO_PAIR;
        CACHES[index as usize].store(ptr::null_mut(), Ordering::Release);
    }
}

/// Changes more than one word of a pair of the calling thread. It marks the block busy, because a fork may come in between.
pub(super) unsafe fn exchange<T>(block: *mut Thread, work: impl FnOnce() -> T) -> T {
    // SAFETY: the block is the calling thread's.
    let busy = unsafe { AtomicU32::from_ptr(&raw mut (*block).busy) };
    busy.store(1, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let done = work();
    busy.store(0, Ordering::Release);
    done
}

/// The pair of a thread for a cache.
#[inline(always)]
pub(super) unsafe fn pair(block: *mut Thread, cache: *mut Cache) -> *mut Pair {
    // SAFETY: a cache's index is within the pairs.
    unsafe { (&raw mut (*block).pairs).cast::<Pair>().add((*cache).index as usize) }
}
