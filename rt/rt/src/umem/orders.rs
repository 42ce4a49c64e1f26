//! How magazines change hands, in every order that the threads could run in: `RUSTFLAGS="--cfg loom" cargo test -p millpond-rt --test loom umem_orders`.
//!
//! The depot is the real one. What lies below it, slabs and memory of the allocator's own, is the standard library's; the depot's lock is of loom's
//! words, and a cell of loom's finds each access to a pile without it.

#[path = "depot.rs"]
mod depot;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use millpond_rt_layout::{Cache, Pair};

/// Stands in for the locks of caches: there is one depot.
mod lock {
    use crate::locks::word::Word;
    use loom::cell::UnsafeCell;

    loom::lazy_static! {
        static ref WORD: Word = Word::new();
        static ref PILES: Piles = Piles(UnsafeCell::new(()));
    }

    struct Piles(UnsafeCell<()>);

    // SAFETY: loom finds each access that is not exclusive.
    unsafe impl Sync for Piles {}

    pub(super) fn word(_: *mut u32) -> &'static Word {
        &WORD
    }

    pub(super) fn touch() {
        PILES.0.with_mut(|_| ());
    }
}

/// Stands in for the allocator's own memory.
mod meta {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 16).unwrap()
    }

    pub(super) fn alloc(bytes: usize) -> *mut u8 {
        // SAFETY: it is not empty.
        unsafe { alloc_zeroed(layout(bytes)) }
    }

    pub(super) unsafe fn free(piece: *mut u8, bytes: usize) {
        // SAFETY: it was allocated by the same layout.
        unsafe { dealloc(piece, layout(bytes)) };
    }
}

/// Stands in for slabs: what comes back to them is counted.
mod buffer {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use millpond_rt_layout::Cache;

    loom::lazy_static! {
        static ref RETURNED: AtomicUsize = AtomicUsize::new(0);
    }

    pub(super) unsafe fn count(_: *mut Cache, _: u64) {}

    pub(super) unsafe fn free(_: *mut Cache, _: *const *mut u8, count: usize) {
        RETURNED.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn returned() -> usize {
        RETURNED.load(Ordering::Relaxed)
    }
}

/// A cache, and what lies in each of its buffers. Loom fails where two threads are in one at a time.
struct Shared {
    cache: *mut Cache,
    made: AtomicUsize,
    memory: [UnsafeCell<usize>; 4],
}

// SAFETY: the cache is used as the depot wants it, which is what is tried.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(rounds: u32) -> Arc<Shared> {
        let cache: *mut Cache =
            meta::alloc(size_of::<Cache>() + 64).map_addr(|at| at.next_multiple_of(64)).cast();
        // SAFETY: zeros are a cache, which is ours.
        unsafe {
            depot::shares(cache, 0).for_each(|share| (*share).rounds = rounds);
            (*cache).chunk = 64;
        }
        let memory = [(); 4].map(|()| UnsafeCell::new(0));
        Arc::new(Shared { cache, made: AtomicUsize::new(0), memory })
    }

    /// As `cache::alloc`: out of the magazine, or the depot, or new. Buffers are numbers from 1 on.
    fn alloc(&self, pair: *mut Pair, share: usize) -> *mut u8 {
        // SAFETY: the pair is the calling thread's.
        unsafe {
            if (*pair).top == (*pair).base && !depot::load_full(self.cache, pair, share) {
                let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
                return std::ptr::without_provenance_mut(number);
            }
            (*pair).top = (*pair).top.sub(1);
            (*pair).top.read()
        }
    }

    /// As `cache::free`.
    fn free(&self, pair: *mut Pair, share: usize, buffer: *mut u8) {
        // SAFETY: the pair is the calling thread's.
        unsafe {
            if (*pair).top == (*pair).limit {
                assert!(depot::load_empty(self.cache, pair, share));
            }
            (*pair).top.write(buffer);
            (*pair).top = (*pair).top.add(1);
        }
    }

    /// So many buffers at once, written to and freed, by a thread of that share that ends then.
    fn work(&self, share: usize, buffers: usize) {
        // SAFETY: zeros are a pair without magazines.
        let mut pair: Pair = unsafe { std::mem::zeroed() };
        let have: Vec<*mut u8> = (0..buffers).map(|_| self.alloc(&raw mut pair, share)).collect();
        for buffer in &have {
            // SAFETY: it is this thread's until it is freed; loom checks it.
            self.memory[buffer.addr() - 1].with_mut(|memory| unsafe { *memory += 1 });
        }
        for buffer in have {
            self.free(&raw mut pair, share, buffer);
        }
        // SAFETY: no other thread has the pair.
        unsafe { depot::unload(self.cache, &raw mut pair, share) };
    }

    /// Nothing was lost: every buffer that was made comes back.
    fn is_whole(&self) {
        // SAFETY: the other threads have ended.
        unsafe { depot::clear(self.cache) };
        assert_eq!(buffer::returned(), self.made.load(Ordering::Relaxed));
    }
}

fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn nobody_has_a_buffer_of_another_and_none_is_lost() {
    for (rounds, buffers, share) in [(1, 2, 1), (3, 1, 1), (1, 2, 0), (3, 1, 0)] {
        every_order(move || {
            let shared = Shared::new(rounds);
            let other = Arc::clone(&shared);
            let thread = thread::spawn(move || other.work(share, buffers));
            shared.work(0, buffers);
            thread.join().unwrap();
            shared.is_whole();
        });
    }
}

#[test]
fn what_is_given_back_meanwhile_is_nobodys() {
    every_order(|| {
        let shared = Shared::new(1);
        shared.work(0, 2);
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || other.work(1, 2));
        // SAFETY: the cache is alive.
        unsafe { depot::clear(shared.cache) };
        thread.join().unwrap();
        shared.is_whole();
    });
}

#[test]
fn magazines_that_grow_meanwhile_lose_nothing() {
    every_order(|| {
        let shared = Shared::new(1);
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || other.work(1, 2));
        // SAFETY: the cache is alive.
        unsafe {
            (*depot::share(shared.cache, 1)).contention = 1;
            depot::update(shared.cache, 0);
        }
        thread.join().unwrap();
        shared.work(0, 2);
        shared.is_whole();
    });
}
