//! Any sequence of calls against a model: the contents of a buffer change only by its owner, and buffers have the right alignment.
//!
//! A sequence is a list of bytes, three for each call. Each search runs once without checks, and again in a child for each kind of checks.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use libc::{c_int, c_void};
use millpond_rt::{
    RawCache, RawCachePlan, malloc, umem_alloc, umem_cache_alloc, umem_cache_create, umem_cache_destroy,
    umem_cache_free, umem_free, umem_reap, umem_zalloc,
};
use std::process::Command;
use std::ptr;
use std::slice;

/// Maximum number of buffers of each kind in a sequence.
const MOST: usize = 200;

/// A buffer of a sequence, and the seed of its contents.
struct Owned {
    at: *mut u8,
    size: usize,
    seed: u8,
}

impl Owned {
    /// Fills a new buffer. `None`: out of memory, which is no error.
    fn new(at: *mut u8, size: usize, align: usize, seed: u8) -> Option<Owned> {
        if at.is_null() {
            return None;
        }
        assert!(at.addr().is_multiple_of(align), "{at:?} is not aligned to {align}");
        let owned = Owned { at, size, seed };
        owned.write();
        Some(owned)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer is the sequence's, and has that size.
        unsafe { slice::from_raw_parts(self.at, self.size) }
    }

    fn byte(&self, at: usize) -> u8 {
        let [low, high, ..] = at.to_le_bytes();
        self.seed.wrapping_mul(31) ^ low.wrapping_add(high)
    }

    fn write(&self) {
        for at in 0..self.size {
            // SAFETY: the buffer is the sequence's, and has that size.
            unsafe { self.at.add(at).write(self.byte(at)) };
        }
    }

    /// Asserts that the first `bytes` bytes are unchanged.
    fn check(&self, bytes: usize) {
        for (at, byte) in self.bytes()[..bytes].iter().enumerate() {
            assert_eq!(*byte, self.byte(at), "byte {at} of {} at {:?}", self.size, self.at);
        }
    }
}

/// The value of free objects.
const MADE: u64 = 0x0b1e_c7ed_0b1e_c7ed;

unsafe extern "C" fn make(object: *mut c_void, _: *mut c_void, _: c_int) -> c_int {
    // SAFETY: a buffer of the cache below.
    unsafe { object.cast::<u64>().write(MADE) };
    0
}

unsafe extern "C" fn unmake(object: *mut c_void, _: *mut c_void) {
    // SAFETY: as above.
    assert_eq!(unsafe { object.cast::<u64>().read() }, MADE);
}

/// All buffers of a sequence.
#[derive(Default)]
struct Sequence {
    of_malloc: Vec<Owned>,
    of_umem: Vec<Owned>,
    caches: Vec<(*mut RawCache, Vec<*mut u8>)>,
}

impl Sequence {
    fn call(&mut self, [what, first, second]: [u8; 3]) {
        let size = size_of_bytes(first, second);
        let seed = second ^ first;
        match what % 16 {
            0..=2 if self.of_malloc.len() < MOST => {
                self.of_malloc.extend(Owned::new(malloc::malloc(size), size, 16, seed));
            }
            3 if self.of_malloc.len() < MOST => {
                let zeros = malloc::calloc(3, size);
                if !zeros.is_null() {
                    // SAFETY: the buffer is the sequence's, and has that size.
                    let bytes = unsafe { slice::from_raw_parts(zeros, 3 * size) };
                    assert!(bytes.iter().all(|byte| *byte == 0));
                }
                self.of_malloc.extend(Owned::new(zeros, 3 * size, 16, seed));
            }
            4 if self.of_malloc.len() < MOST => {
                let align = 1 << (what / 16);
                self.of_malloc.extend(Owned::new(malloc::memalign(align, size), size, align, seed));
            }
            5..=7 if !self.of_malloc.is_empty() => {
                let owned = self.of_malloc.swap_remove(first as usize % self.of_malloc.len());
                owned.check(owned.size);
                // SAFETY: no other thread has it.
                unsafe {
                    // An aligned buffer can be larger than requested.
                    assert!(malloc::usable_size(owned.at) >= owned.size);
                    malloc::free(owned.at);
                }
            }
            8 if !self.of_malloc.is_empty() => {
                let place = second as usize % self.of_malloc.len();
                let owned = &mut self.of_malloc[place];
                let size = size.max(1);
                // SAFETY: no other thread has it.
                let moved = unsafe { malloc::realloc(owned.at, size) };
                if !moved.is_null() {
                    let kept = owned.size.min(size);
                    (owned.at, owned.size) = (moved, size);
                    owned.check(kept);
                    owned.write();
                }
            }
            9..=10 if self.of_umem.len() < MOST => {
                let size = size.max(1);
                let align = if size.next_multiple_of(8) >= 16 { 16 } else { 8 };
                let new = if what % 16 == 9 { umem_alloc(size, 0) } else { umem_zalloc(size, 0) };
                self.of_umem.extend(Owned::new(new, size, align, seed));
            }
            11 if !self.of_umem.is_empty() => {
                let owned = self.of_umem.swap_remove(first as usize % self.of_umem.len());
                owned.check(owned.size);
                // SAFETY: no other thread has it.
                unsafe { umem_free(owned.at, owned.size) };
            }
            12 if self.caches.len() < 8 => {
                let made = umem_cache_create(&RawCachePlan {
                    name: c"model",
                    size: 8 + first as usize * 8,
                    align: [0, 8, 64, 256][second as usize % 4],
                    constructor: Some(make),
                    destructor: Some(unmake),
                    reclaim: None,
                    private: ptr::null_mut(),
                    cflags: [0, 0x2_0000, 0x4_0000, 0x8_0000][first as usize % 4],
                });
                self.caches.push((made.unwrap(), Vec::new()));
            }
            13 if !self.caches.is_empty() => {
                let place = second as usize % self.caches.len();
                let (cache, objects) = &mut self.caches[place];
                // SAFETY: the cache is alive.
                let object = unsafe { umem_cache_alloc(*cache, 0) };
                if !object.is_null() {
                    // SAFETY: an object has at least a word.
                    unsafe {
                        assert_eq!(object.cast::<u64>().read(), MADE);
                        object.cast::<u64>().write(u64::from(first));
                    }
                    objects.push(object);
                }
            }
            14 if !self.caches.is_empty() => {
                let place = second as usize % self.caches.len();
                let (cache, objects) = &mut self.caches[place];
                if let Some(object) = objects.pop() {
                    hand_back(*cache, object);
                } else {
                    // SAFETY: no thread has an object of it.
                    unsafe { umem_cache_destroy(*cache) };
                    self.caches.swap_remove(place);
                }
            }
            15 if first < 8 => umem_reap(),
            _ => {}
        }
    }
}

fn hand_back(cache: *mut RawCache, object: *mut u8) {
    // SAFETY: it is of that cache, and no other thread has it.
    unsafe {
        object.cast::<u64>().write(MADE);
        umem_cache_free(cache, object);
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for owned in &self.of_malloc {
            owned.check(owned.size);
            // SAFETY: no other thread has it.
            unsafe { malloc::free(owned.at) };
        }
        for owned in &self.of_umem {
            owned.check(owned.size);
            // SAFETY: no other thread has it.
            unsafe { umem_free(owned.at, owned.size) };
        }
        for (cache, objects) in self.caches.drain(..) {
            objects.into_iter().for_each(|object| hand_back(cache, object));
            // SAFETY: no thread has an object of it.
            unsafe { umem_cache_destroy(cache) };
        }
    }
}

/// Mostly small sizes, some above the largest size class.
fn size_of_bytes(first: u8, second: u8) -> usize {
    let fine = first as usize;
    match second % 8 {
        0..=3 => fine,
        4..=5 => fine * 17,
        6 => fine * 601,
        _ => fine * 2003,
    }
}

fn follow(bytes: &[u8]) {
    let mut sequence = Sequence::default();
    for call in bytes.as_chunks::<3>().0 {
        sequence.call(*call);
    }
}

const SEEDS: [&[u8]; 3] = [
    &[0, 24, 0, 0, 24, 0, 1, 200, 7, 5, 0, 0, 5, 0, 0, 5, 0, 0],
    &[9, 100, 1, 10, 200, 7, 11, 0, 0, 8, 9, 9, 0, 1, 1, 8, 255, 7, 8, 3, 0, 4, 3, 7, 100, 5, 1],
    &[12, 9, 0, 13, 1, 0, 13, 2, 0, 14, 0, 0, 15, 0, 0, 13, 1, 0, 14, 0, 0, 14, 0, 0, 14, 0, 0],
];

#[test]
fn fuzz_any_sequence_of_calls_keeps_what_is_in_buffers() {
    millpond_fuzz::check("umem-operations", &SEEDS, follow);
}

/// Four threads allocate buffers, and pass each one to the next thread, which checks and frees it.
#[test]
fn threads_keep_what_is_in_their_buffers_and_free_what_others_made() {
    std::thread::scope(|scope| {
        let (mut senders, receivers): (Vec<_>, Vec<_>) =
            (0..4).map(|_| std::sync::mpsc::channel::<(usize, usize, u8)>()).unzip();
        senders.rotate_left(1);
        for (number, (sender, receiver)) in senders.into_iter().zip(receivers).enumerate() {
            scope.spawn(move || {
                let mut state = number as u64 + 1;
                for _ in 0..4_000 {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let [_, _, _, _, first, second, seed, _] = state.to_le_bytes();
                    let size = size_of_bytes(first, second & 5);
                    if let Some(owned) = Owned::new(malloc::malloc(size), size, 16, seed) {
                        let _ = sender.send((owned.at.expose_provenance(), size, seed));
                    }
                    while let Ok((at, size, seed)) = receiver.try_recv() {
                        take(at, size, seed);
                    }
                }
                drop(sender);
                receiver.iter().for_each(|(at, size, seed)| take(at, size, seed));
            });
        }
    });
}

fn take(at: usize, size: usize, seed: u8) {
    let owned = Owned { at: ptr::with_exposed_provenance_mut(at), size, seed };
    owned.check(size);
    // SAFETY: it was handed to this thread.
    unsafe { malloc::free(owned.at) };
}

/// Runs the tests above in a child with `UMEM_DEBUG` and `UMEM_OPTIONS`.
fn in_child(debug: &str, options: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["fuzz_any", "threads_keep"]);
    child.env("UMEM_DEBUG", debug).env("UMEM_OPTIONS", options).env_remove("MILLPOND_FUZZ_SECONDS");
    let out = child.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{debug} {options}: {said}{errors}");
    assert!(said.contains("2 passed"), "{said}");
}

#[test]
fn so_it_is_when_everything_is_checked() {
    in_child("default,verbose", "");
    in_child("default,firewall=4000,verbose", "reap_interval=1");
}

#[test]
fn so_it_is_when_a_little_is_checked() {
    in_child("guards,verbose", "");
    in_child("lite,verbose", "");
    in_child("audit=4,random,verbose", "");
}

#[test]
fn so_it_is_without_magazines_and_when_every_seventh_request_fails() {
    in_child("", "nomagazines");
    in_child("mtbf=7", "");
    in_child("default,mtbf=97,verbose", "size_clear,size_add=64,size_add=4096");
}
