//! Exchanges of magazines in every interleaving of threads: `RUSTFLAGS="--cfg loom" cargo test -p millpond-rt --test loom umem_orders`.
//!
//! The depot is the real one. Slabs and the allocator's own memory are replaced by the standard library. The lock of the depot is a word of loom, and
//! a loom cell detects each access to a pile without the lock.

#[path = "depot.rs"]
mod depot;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use millpond_rt_layout::{Cache, Pair};

/// Replaces the locks of caches: there is one depot.
mod lock {
    use crate::locks::word::Word;
    use loom::cell::UnsafeCell;

    loom::lazy_static! {
        static ref WORD: Word = Word::new();
        static ref PILES: Piles = Piles(UnsafeCell::new(()));
    }

    struct Piles(UnsafeCell<()>);

    // SAFETY: loom detects each access that is not exclusive.
    unsafe impl Sync for Piles {}

    pub(super) fn word(_: *mut u32) -> &'static Word {
        &WORD
    }

    pub(super) fn touch() {
        PILES.0.with_mut(|_| ());
    }
}

/// Replaces the allocator's own memory.
mod meta {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 16).unwrap()
    }

    pub(super) fn alloc(bytes: usize) -> *mut u8 {
        // SAFETY: the layout is not empty.
        unsafe { alloc_zeroed(layout(bytes)) }
    }

    pub(super) unsafe fn free(piece: *mut u8, bytes: usize) {
        // SAFETY: it was allocated with the same layout.
        unsafe { dealloc(piece, layout(bytes)) };
    }
}

/// Replaces slabs: counts returned buffers.
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

/// A cache, and a value in each buffer. Loom fails if two threads access a value at a time.
struct Shared {
    cache: *mut Cache,
    made: AtomicUsize,
    memory: [UnsafeCell<usize>; 4],
}

// SAFETY: the cache is used as the depot requires, which loom verifies.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(rounds: u32) -> Arc<Shared> {
        let cache: *mut Cache =
            meta::alloc(size_of::<Cache>() + 64).map_addr(|at| at.next_multiple_of(64)).cast();
        // SAFETY: an all-zero cache is valid, and is this function's.
        unsafe {
            depot::shares(cache, 0).for_each(|share| (*share).rounds = rounds);
            (*cache).chunk = 64;
        }
        let memory = [(); 4].map(|()| UnsafeCell::new(0));
        Arc::new(Shared { cache, made: AtomicUsize::new(0), memory })
    }

    /// As `cache::alloc`: from the magazine, or the depot, or new. Buffers are numbers from 1.
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

    /// Takes, writes and frees this many buffers, in a thread of that share which then ends.
    fn work(&self, share: usize, buffers: usize) {
        // SAFETY: an all-zero pair is valid and has no magazines.
        let mut pair: Pair = unsafe { std::mem::zeroed() };
        let have: Vec<*mut u8> = (0..buffers).map(|_| self.alloc(&raw mut pair, share)).collect();
        for buffer in &have {
            // SAFETY: the buffer is this thread's until it is freed; loom checks it.
            self.memory[buffer.addr() - 1].with_mut(|memory| unsafe { *memory += 1 });
        }
        for buffer in have {
            self.free(&raw mut pair, share, buffer);
        }
        // SAFETY: no other thread has the pair.
        unsafe { depot::unload(self.cache, &raw mut pair, share) };
    }

    /// Asserts that every buffer was returned.
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
