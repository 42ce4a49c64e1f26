//! A program with object caches of its own: it leaks boats, keeps others, and has some in magazines. The constructor allocates a sail for each.

use libc::{c_int, c_void};
use millpond_rt::{
    RawCache, RawCachePlan, umem_alloc, umem_cache_alloc, umem_cache_create, umem_cache_free, umem_free,
};
use std::hint::black_box;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

const SAIL: usize = 300;

/// Boats that are kept.
static KEPT: [AtomicPtr<u8>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

unsafe extern "C" fn rig(boat: *mut c_void, _: *mut c_void, _: c_int) -> c_int {
    // SAFETY: a boat has room for a pointer.
    unsafe { boat.cast::<*mut u8>().write(umem_alloc(SAIL, 0)) };
    0
}

unsafe extern "C" fn unrig(boat: *mut c_void, _: *mut c_void) {
    // SAFETY: the constructor wrote it.
    unsafe { umem_free(boat.cast::<*mut u8>().read(), SAIL) };
}

fn say(word: &str, address: *mut u8) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{word} {address:p}");
}

#[inline(never)]
fn lose(cache: *mut RawCache, count: usize) {
    for _ in 0..count {
        // SAFETY: the cache is alive.
        say("lost", black_box(unsafe { umem_cache_alloc(cache, 0) }));
    }
    // SAFETY: as above. Afterwards registers and the stack have the address of a freed buffer.
    unsafe { umem_cache_free(cache, black_box(umem_cache_alloc(cache, 0))) };
}

#[inline(never)]
fn keep(cache: *mut RawCache) {
    for place in &KEPT {
        // SAFETY: the cache is alive.
        place.store(unsafe { umem_cache_alloc(cache, 0) }, Ordering::Relaxed);
        say("kept", place.load(Ordering::Relaxed));
    }
}

/// Leaves boats in the magazines of this thread.
#[inline(never)]
fn moor(cache: *mut RawCache, word: &str) {
    // SAFETY: the cache is alive, and the buffers return to it.
    unsafe {
        let boats: [*mut u8; 6] = std::array::from_fn(|_| umem_cache_alloc(cache, 0));
        boats.iter().for_each(|boat| say(word, *boat));
        boats.iter().for_each(|boat| umem_cache_free(cache, *boat));
    }
}

#[inline(never)]
fn wipe() {
    let mut stack = [0_u8; 65536];
    black_box(&mut stack);
}

fn main() {
    let plan = RawCachePlan {
        name: c"boat",
        size: 80,
        align: 0,
        constructor: Some(rig),
        destructor: Some(unrig),
        reclaim: None,
        private: ptr::null_mut(),
        cflags: 0,
    };
    let Ok(cache) = umem_cache_create(&plan) else { std::process::abort() };
    let Ok(other) = umem_cache_create(&RawCachePlan { name: c"dinghy", ..plan }) else {
        std::process::abort()
    };
    keep(cache);
    moor(cache, "moored");
    lose(cache, 4);
    // Overwrites the addresses in registers, vector registers too.
    moor(other, "dinghy");
    wipe();
    let _ = writeln!(std::io::stdout().lock(), "ready");
    loop {
        std::thread::park();
    }
}
