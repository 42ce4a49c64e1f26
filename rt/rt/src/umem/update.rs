//! The periodic update: magazines that are not needed go, and those of contended depots become larger.
//!
//! No thread exists for it: one of the library's would keep a program alive whose threads have all ended, and would count for programs that must have one
//! thread only (`unshare`, `setns`). The threads of the program do it. When it is time, each visit to a depot updates one cache, so that no visit takes long. A
//! program that allocates nothing keeps what it has.

use super::{depot, kept, map, pages, root, settings, slab, thread, visit};
use millpond_rt_layout::{Cache, NO_PAIR};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Seconds of the coarse clock at which the latest update was begun; 0: none yet.
static LATEST: AtomicI64 = AtomicI64::new(0);
/// Behind all places of caches.
const END: usize = NO_PAIR as usize;
/// The place of the cache that is updated next; from [`END`] on: no update is under way.
static NEXT: AtomicUsize = AtomicUsize::new(END);
/// Whether there ever was a cache with a reclaim function.
static RECLAIMS: AtomicBool = AtomicBool::new(false);
/// Whether a thread gives back what it can, for there was no memory.
static REAPING: AtomicBool = AtomicBool::new(false);

/// Seconds between two updates; 0: there are none.
fn interval() -> i64 {
    i64::try_from(settings::get().asked.options.reap_interval).unwrap_or(i64::MAX)
}

/// Seconds of a clock that costs next to nothing to read.
fn seconds() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec
}

/// After a visit to a depot, or a large buffer: a part of the update, when it is time. The caller holds no lock and is at no exchange.
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

/// The next cache's working set, and larger magazines where they are contended. Behind the last one: large buffers and pages.
fn update_next() {
    let most = settings::get().asked.options.max_contention as u64;
    visit::visiting(|visitor| {
        let cache = visitor.go_on(|_| {
            let places = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
            let caches = places.take_while(|place| *place < END).map(thread::cache_at);
            // SAFETY: caches of the list are alive while it is held, which `go_on` does.
            let mut used = caches.filter(|cache| !cache.is_null() && unsafe { slab::is_used(*cache) });
            used.next().unwrap_or(std::ptr::null_mut())
        });
        // SAFETY: the cache is alive while it is visited; blocks are always.
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

/// Gives back what was not needed lately; see `umem_reap`.
pub(super) fn reap() {
    // SAFETY: caches are alive while they are visited; a reclaim function is its creator's promise.
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

/// Whether it helps a large request that others give back what they have. That is at most what is mapped, and is not unmapped, unless a cache has a
/// function that may give back anything.
pub(super) fn can_help(bytes: usize) -> bool {
    // SAFETY: a counter that is changed under a lock; which of two values is read does not matter.
    let mapped =
        unsafe { AtomicUsize::from_ptr(&raw mut (*root::root()).heap.mapped) }.load(Ordering::Relaxed);
    bytes <= map::REACH && (bytes <= mapped || RECLAIMS.load(Ordering::Relaxed))
}

/// A cache has a function that gives back memory.
pub(super) fn expect_reclaim() {
    RECLAIMS.store(true, Ordering::Relaxed);
}

/// There was no memory: what can be given back is, unless another thread does that now.
pub(super) fn ask_for_memory() {
    if !REAPING.swap(true, Ordering::Acquire) {
        reap();
        REAPING.store(false, Ordering::Release);
    }
}

/// Does something for every cache. What is done may call functions of the program, which must not destroy that very cache.
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

/// In a child after a fork there are no other threads.
pub(super) fn forget_others() {
    REAPING.store(false, Ordering::Relaxed);
}
