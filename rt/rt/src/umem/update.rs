//! The periodic update: magazines that are not needed go, and those of contended depots become larger.
//!
//! A process with one thread does it when it meets a depot and it is time. One that has had several gets a thread for it then, so that none of them is
//! held up; it waits most of the time, and takes no signals.

use super::{depot, map, pages, root, settings, slab, thread, visit};
use crate::bounds::with_signals_blocked;
use millpond_rt_layout::Cache;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Seconds of the coarse clock at which the latest update was begun; 0: none yet.
static LATEST: AtomicI64 = AtomicI64::new(0);
/// Whether there is a thread for it.
static HAS_THREAD: AtomicBool = AtomicBool::new(false);
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

/// After a visit to a depot: whether it is time for an update, which is then begun. The caller holds no lock and is at no exchange.
pub(super) fn look() {
    let interval = interval();
    if interval == 0 || HAS_THREAD.load(Ordering::Relaxed) {
        return;
    }
    let (now, latest) = (seconds(), LATEST.load(Ordering::Relaxed));
    if latest != 0 && now - latest < interval {
        return;
    }
    if LATEST.compare_exchange(latest, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_err()
        || latest == 0
    {
        return;
    }
    if thread::is_many() { begin_thread() } else { update() }
}

/// Every cache's working set, and larger magazines where they are contended.
fn update() {
    let most = settings::get().asked.options.max_contention as u64;
    // SAFETY: caches are alive while they are visited.
    each(|cache| unsafe {
        depot::reap(cache);
        depot::update(cache, most);
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

/// In a child after a fork there are no such threads.
pub(super) fn forget_others() {
    HAS_THREAD.store(false, Ordering::Relaxed);
    REAPING.store(false, Ordering::Relaxed);
}

fn begin_thread() {
    if HAS_THREAD.swap(true, Ordering::AcqRel) {
        return;
    }
    // All signals are blocked while the thread is made, so that it never takes one of the program's.
    // SAFETY: attributes are made before they are used.
    let failed = with_signals_blocked(|| unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut made: libc::pthread_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, 256 << 10);
        let failed = libc::pthread_create(&raw mut made, &raw const attributes, run, ptr::null_mut()) != 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        failed
    });
    if failed {
        HAS_THREAD.store(false, Ordering::Release);
    }
}

extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        update();
        let time = libc::timespec { tv_sec: interval(), tv_nsec: 0 };
        // SAFETY: the time outlives the call.
        unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
    }
}
