//! The periodic update: unneeded magazines are freed, and magazines of contended depots become larger.
//!
//! It has no thread of its own. Such a thread would keep a program alive whose threads have all ended, and would disturb programs that must be
//! single-threaded (`unshare`, `setns`). Instead the threads of the program do it: when an update is due, each visit to a depot updates one cache, so
//! that no visit takes long. A program that allocates nothing keeps its memory.

use super::{depot, kept, map, pages, root, settings, slab, thread, visit};
use millpond_rt_layout::{Cache, NO_PAIR};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Begin of the latest update in seconds of the coarse clock; 0: none yet.
static LATEST: AtomicI64 = AtomicI64::new(0);
/// After the index of the last cache.
const END: usize = NO_PAIR as usize;
/// Index of the next cache to update; from [`END`] on: no update is in progress.
static NEXT: AtomicUsize = AtomicUsize::new(END);
/// Whether a cache with a reclaim function was ever created.
static RECLAIMS: AtomicBool = AtomicBool::new(false);
/// Whether a thread is reaping because memory ran out.
static REAPING: AtomicBool = AtomicBool::new(false);

/// Seconds between two updates; 0: no updates.
fn interval() -> i64 {
    i64::try_from(settings::get().asked.options.reap_interval).unwrap_or(i64::MAX)
}

/// Seconds of a clock that is cheap to read.
fn seconds() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec
}

/// Called after each visit to a depot, and for large buffers: does a part of the update, if it is due. The caller holds no lock and is at no
/// exchange.
pub(super) fn look() {
    let interval = interval();
    if interval == 0 {
        return;
    }
    if NEXT.load(Ordering::Relaxed) < END {
        return update_next();
    }
    let (now, latest) = (seconds().max(1), LATEST.load(Ordering::Relaxed));
    let is_time = latest == 0 || now - latest >= interval;
    if is_time
        && LATEST.compare_exchange(latest, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        && latest != 0
    {
        NEXT.store(0, Ordering::Relaxed);
    }
}

/// Updates the next cache: its working set, and the size of its magazines. After the last one: large buffers and pages.
fn update_next() {
    let most = settings::get().asked.options.max_contention as u64;
    visit::visiting(|visitor| {
        let cache = visitor.go_on(|_| {
            let places = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
            let caches = places.take_while(|place| *place < END).map(thread::cache_at);
            // SAFETY: caches of the list are alive while its lock is held, as it is in `go_on`.
            let mut used = caches.filter(|cache| !cache.is_null() && unsafe { slab::is_used(*cache) });
            used.next().unwrap_or(std::ptr::null_mut())
        });
        // SAFETY: a cache is alive while it is visited; blocks always are.
        unsafe {
            if cache.is_null() {
                kept::give_back_all(root::threads().load(Ordering::Acquire));
                pages::update();
            } else {
                depot::reap(cache);
                depot::update(cache, most);
            }
        }
    });
}

/// Returns free memory to the kernel; see `umem_reap`.
pub(super) fn reap() {
    // SAFETY: caches are alive while they are visited; the creator of a cache promises that its reclaim function may be called.
    each(|cache| unsafe {
        if let Some(reclaim) = (*cache).reclaim {
            reclaim((*cache).private);
        }
        depot::clear(cache);
        slab::reap(cache);
    });
    // SAFETY: the list of blocks.
    unsafe { kept::give_back_all(root::threads().load(Ordering::Acquire)) };
    pages::reap();
}

/// Whether reaping can help a large request. It frees at most the mapped memory, which stays mapped, unless a cache has a reclaim function, which may
/// free anything.
pub(super) fn can_help(bytes: usize) -> bool {
    // SAFETY: a counter that changes under a lock; an old or new value will do.
    let mapped =
        unsafe { AtomicUsize::from_ptr(&raw mut (*root::root()).heap.mapped) }.load(Ordering::Relaxed);
    bytes <= map::REACH && (bytes <= mapped || RECLAIMS.load(Ordering::Relaxed))
}

/// Records that a cache has a reclaim function.
pub(super) fn expect_reclaim() {
    RECLAIMS.store(true, Ordering::Relaxed);
}

/// Out of memory: reaps, unless another thread is doing so.
pub(super) fn ask_for_memory() {
    if !REAPING.swap(true, Ordering::Acquire) {
        reap();
        REAPING.store(false, Ordering::Release);
    }
}

/// Calls `work` for every cache. It may call functions of the program, which must not destroy that cache.
fn each(work: impl Fn(*mut Cache)) {
    visit::visiting(|visitor| {
        let mut cache = visitor.go_on(|_| root::caches().load(Ordering::Acquire));
        while !cache.is_null() {
            work(cache);
            // SAFETY: it is in the list as long as a visitor is there.
            cache = visitor.go_on(|cache| unsafe { (*cache).next });
        }
    });
}

/// For the child of a fork: there are no other threads.
pub(super) fn forget_others() {
    REAPING.store(false, Ordering::Relaxed);
}
