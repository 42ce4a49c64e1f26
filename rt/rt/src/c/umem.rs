//! Object caches for programs in C.

use super::fail;
use crate::umem::{self, RawCache, RawCachePlan};
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::ptr;

/// Converts a buffer. Null: out of memory.
#[inline(always)]
fn answer(buffer: *mut u8) -> *mut c_void {
    if buffer.is_null() {
        fail(libc::ENOMEM);
    }
    buffer.cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn umem_cache_create(
    name: *const c_char,
    size: size_t,
    align: size_t,
    constructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int>,
    destructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    reclaim: Option<unsafe extern "C" fn(*mut c_void)>,
    private: *mut c_void,
    source: *mut c_void,
    cflags: c_int,
) -> *mut RawCache {
    if name.is_null() || !source.is_null() {
        fail(libc::EINVAL);
        return ptr::null_mut();
    }
    // SAFETY: our caller promises a string.
    let name = unsafe { CStr::from_ptr(name) };
    let cflags = cflags.cast_unsigned();
    let plan = RawCachePlan { name, size, align, constructor, destructor, reclaim, private, cflags };
    match umem::umem_cache_create(&plan) {
        Ok(cache) => cache,
        Err(errno) => {
            fail(errno);
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn umem_cache_destroy(cache: *mut RawCache) {
    if !cache.is_null() {
        // SAFETY: our caller promises it.
        unsafe { umem::umem_cache_destroy(cache) };
    }
}

/// The callback may unwind or jump.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn umem_cache_alloc(cache: *mut RawCache, flags: c_int) -> *mut c_void {
    // SAFETY: our caller promises it. errno is set if the result is null.
    unsafe { umem::umem_cache_alloc(cache, flags).cast() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn umem_cache_free(cache: *mut RawCache, buffer: *mut c_void) {
    // SAFETY: our caller promises it.
    unsafe { umem::umem_cache_free(cache, buffer.cast()) };
}

/// The callback may unwind or jump.
#[unsafe(no_mangle)]
extern "C-unwind" fn umem_alloc(size: size_t, flags: c_int) -> *mut c_void {
    let buffer = umem::umem_alloc(size, flags);
    if size == 0 { ptr::null_mut() } else { answer(buffer) }
}

/// The callback may unwind or jump.
#[unsafe(no_mangle)]
extern "C-unwind" fn umem_zalloc(size: size_t, flags: c_int) -> *mut c_void {
    let buffer = umem::umem_zalloc(size, flags);
    if size == 0 { ptr::null_mut() } else { answer(buffer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn umem_free(buffer: *mut c_void, size: size_t) {
    // SAFETY: our caller promises it.
    unsafe { umem::umem_free(buffer.cast(), size) };
}

#[unsafe(no_mangle)]
extern "C" fn umem_nofail_callback(callback: Option<unsafe extern "C-unwind" fn() -> c_int>) {
    umem::umem_nofail_callback(callback);
}

/// It calls functions of caches, which return.
#[unsafe(no_mangle)]
extern "C" fn umem_reap() {
    umem::umem_reap();
}
