//! What a thread has: a block with a pair of magazines for each cache, found by one load from the thread's own memory.
//!
//! A thread gets it at its first request, and returns it when the destructors of its thread-specific data run. What it allocates or frees after that comes
//! from slabs and goes to slabs: the C library frees a few buffers of its own behind all destructors, and a block that is claimed then has no end.

use super::{depot, kept, meta, root, visit};
use crate::locks::word::thread_number;
use crate::own::word_of_thread;
use millpond_rt_layout::{Cache, NO_PAIR, Pair, Thread};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};

/// Caches by their place in [`Thread::pairs`].
static CACHES: [AtomicPtr<Cache>; NO_PAIR as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NO_PAIR as usize];

/// Called with a thread's block when it ends. 0: not made yet; else one more than the key.
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

/// The calling thread's block, which is made when it has none. Null: there is no memory, the thread has returned its block, or it is just making the
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

/// A block that is free, or a new one, or null.
fn claim() -> *mut Thread {
    let _held = root::LISTS.hold();
    let list = root::threads();
    let mut block = list.load(Ordering::Acquire);
    // SAFETY: blocks of the list are never given back; their numbers change under the lock.
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

/// From now on the ends of threads are noticed. The allocator is ready.
pub(super) fn register() {
    let mut key = 0;
    // SAFETY: a function of ours that takes what is set below.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
        // The one that began it has its block already, if it asked for one.
        watch_end(current());
    }
}

fn watch_end(block: *mut Thread) {
    let key = KEY.load(Ordering::Acquire);
    if key > 0 && !block.is_null() {
        // SAFETY: the key is ours. If it fails, the block of a thread that ended leaks, and nothing else happens.
        unsafe { libc::pthread_setspecific(key - 1, block.cast()) };
    }
}

/// A thread ends.
extern "C" fn end(block: *mut libc::c_void) {
    set(ptr::null_mut());
    ended::begin();
    // SAFETY: it was set by `watch_end`, and its thread is here.
    unsafe { release(block.cast()) };
}

/// What is in a block goes to the depots. The next thread gets the block.
unsafe fn release(block: *mut Thread) {
    // SAFETY: our caller has the block.
    unsafe { kept::end(block) };
    visit::visiting(|visitor| {
        let mut indices = 0..CACHES.len();
        loop {
            let mut pair: *mut Pair = ptr::null_mut();
            let cache = visitor.go_on(|_| {
                let used = indices.find_map(|index| {
                    let cache = cache_at(index);
                    // SAFETY: our caller has the block; of caches that go, pairs belong to the thread that destroys them.
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
            // SAFETY: the cache is alive while it is visited, and our caller has the block.
            unsafe { depot::unload(cache, pair, depot::own(block)) };
        }
    });
    let _held = root::LISTS.hold();
    // SAFETY: our caller has the block.
    unsafe { (*block).tid = 0 };
}

/// In a child after a fork: the other threads are not there. What they had goes to the depots if that is wanted, but for those that were at an
/// exchange.
pub(super) fn forget_others(keep: bool) {
    kept::forget_others();
    let mut block = root::threads().load(Ordering::Acquire);
    let mine = current();
    // SAFETY: blocks are never given back, and their owners are not in this process.
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

/// Enters a cache; its place, or [`NO_PAIR`].
pub(super) fn enter(cache: *mut Cache) -> u32 {
    let free = CACHES.iter().enumerate().find(|(_, place)| {
        place.compare_exchange(ptr::null_mut(), cache, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    free.map_or(NO_PAIR, |(index, _)| index as u32)
}

/// The cache of a place; null: there is none, or it is leaving.
pub(super) fn cache_at(place: usize) -> *mut Cache {
    let cache = CACHES.get(place).map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire));
    if cache == LEAVING { ptr::null_mut() } else { cache }
}

/// In the place of a cache that goes: it has no more than that of its threads, and no other thread gets it.
const LEAVING: *mut Cache = ptr::without_provenance_mut(align_of::<Cache>());

/// From now on threads that end leave what they have of a cache to [`leave`]. For holders of the list of caches.
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

/// Takes a cache out: what threads have of it goes to its depot. The list of caches is not held, for objects may be ended.
///
/// # Safety
/// [`begin_leaving`] was called, and no thread uses the cache any more.
pub(super) unsafe fn leave(cache: *mut Cache) {
    // SAFETY: our caller promises that no thread is at the pairs of that cache.
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

/// Does something to a pair of the calling thread's that takes more than one word: a fork may come in between.
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
