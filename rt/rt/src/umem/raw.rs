//! The calls of libumem: sizes in bytes, and flags for the behaviour without memory.

use super::cache::{self, RawCachePlan};
use super::placed::{self, CHECKED, Room};
use super::{builtin, debug, errno, kept, map, pages, report, root, settings, start, thread, update};
use libc::c_int;
use millpond_rt_layout::{Cache, LARGEST, Span, kind};
use std::ptr;

/// A cache, as programs in C see it. It is used by pointer only.
#[derive(Debug)]
#[repr(transparent)]
pub struct RawCache(Cache);

/// Creates a cache.
///
/// # Errors
/// The errno. `EINVAL`: size 0, an alignment that is no power of two or more than a page, or `UMC_NOHASH` with `UMC_NOTOUCH`. `ENOMEM`: the size is
/// too large. `EAGAIN`: out of memory.
pub fn umem_cache_create(plan: &RawCachePlan<'_>) -> Result<*mut RawCache, c_int> {
    plan.check()?;
    if !start::begin() {
        return Err(libc::EAGAIN);
    }
    cache::create(plan).map(<*mut Cache>::cast)
}

/// Destroys a cache. If it has allocated buffers, it is left as it is, and this is reported.
///
/// # Safety
/// It is of [`umem_cache_create`], and no thread uses it any more.
pub unsafe fn umem_cache_destroy(of: *mut RawCache) {
    // SAFETY: by the caller's promise.
    unsafe { cache::destroy(of.cast()) };
}

/// Allocates a buffer, constructed if the cache has a constructor. Null: out of memory, or the constructor failed. With `how` 0x100 (`UMEM_NOFAIL`)
/// the callback decides what happens then.
///
/// # Safety
/// The cache is alive.
#[inline]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub unsafe fn umem_cache_alloc(of: *mut RawCache, how: c_int) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe { cache::alloc(of.cast(), how) }
}

/// Returns a buffer in constructed state.
///
/// # Safety
/// The cache is alive, the buffer is of it, and no thread uses it. Caches with checks report violations, and end the program.
#[inline]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub unsafe fn umem_cache_free(of: *mut RawCache, buffer: *mut u8) {
    if !buffer.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { cache::free(of.cast(), buffer) };
    }
}

/// Allocates `size` bytes. The alignment is 8, from 16 bytes on 16, and 64 for multiples of 64. Null: size 0, or out of memory; `how` as for
/// [`umem_cache_alloc`].
#[inline]
#[must_use]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub fn umem_alloc(size: usize, how: c_int) -> *mut u8 {
    let of = builtin::for_alloc(size);
    if of.is_null() || size == 0 {
        return alloc_slowly(size, how);
    }
    // SAFETY: built-in caches are never destroyed.
    unsafe {
        let buffer = cache::alloc(of, how);
        if (*of).flags & CHECKED != 0 && !buffer.is_null() {
            return checked(of, buffer, size);
        }
        buffer
    }
}

/// Prepares a new buffer of a cache with checks.
#[inline(never)]
unsafe fn checked(of: *mut Cache, buffer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller has both.
    unsafe {
        if (*of).tag > 0 {
            debug::set_size(of, buffer, size);
            return buffer;
        }
    }
    Room::of(buffer.addr()).map_or(buffer, |room| room.fill(size, alignment(size)))
}

/// Alignment for a size.
fn alignment(size: usize) -> usize {
    if size.is_multiple_of(64) { 64 } else { placed::natural(size) }
}

#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
fn alloc_slowly(size: usize, how: c_int) -> *mut u8 {
    if size == 0 {
        return ptr::null_mut();
    }
    if start::begin() && !builtin::for_alloc(size).is_null() {
        return umem_alloc(size, how);
    }
    loop {
        // Prefer a place at a wall, if walls are enabled for this size.
        let room = Room::new(ptr::null_mut(), size);
        if let Ok(Some(room)) = room {
            return room.fill(size, alignment(size));
        }
        let span = if room.is_ok() { large(size) } else { ptr::null_mut() };
        if !span.is_null() {
            // SAFETY: the span is this function's.
            unsafe {
                (*span).size = size;
                return (*span).base;
            }
        }
        if !report::shall_retry(how) {
            return ptr::null_mut();
        }
    }
}

/// A span for one buffer. Null: out of memory, also after reaping.
pub(super) fn large(bytes: usize) -> *mut Span {
    if settings::shall_fail() {
        return ptr::null_mut();
    }
    if !root::is_ready() {
        return pages::alloc(bytes, 1, kind::LARGE);
    }
    let mut span = of_thread(bytes);
    if span.is_null() {
        span = pages::alloc(bytes, 1, kind::LARGE);
        if span.is_null() && update::can_help(bytes) {
            update::ask_for_memory();
            span = pages::alloc(bytes, 1, kind::LARGE);
        }
        update::look();
    }
    span
}

/// A buffer that the thread keeps, or a span of existing mappings. Null: more must be mapped. Before that, the thread's kept buffers return to the
/// heap.
fn of_thread(bytes: usize) -> *mut Span {
    let block = thread::current_or_new();
    if block.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the block is the calling thread's.
    unsafe {
        let kept = thread::exchange(block, || kept::take(block, bytes));
        if !kept.is_null() || !kept::is_any(block) {
            return kept;
        }
        let span = pages::alloc_mapped(bytes);
        if span.is_null() && kept::give_back(block) {
            return pages::alloc_mapped(bytes);
        }
        span
    }
}

/// Frees a large buffer.
///
/// # Safety
/// The caller owns the span, and no thread uses its pages.
pub(super) unsafe fn free_large(span: *mut Span) {
    let block = thread::current();
    // SAFETY: by the caller's promise; the block is the calling thread's.
    unsafe {
        if block.is_null() || !thread::exchange(block, || kept::put(block, span)) {
            pages::free(span);
            update::look();
        }
    }
}

/// As [`umem_alloc`], zeroed.
#[must_use]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub fn umem_zalloc(size: usize, how: c_int) -> *mut u8 {
    let buffer = umem_alloc(size, how);
    if buffer.is_null() {
        return buffer;
    }
    let span = if size > LARGEST { map::find(buffer.addr()) } else { ptr::null_mut() };
    // SAFETY: the buffer is this function's and has that size; the span of a large buffer is alive.
    unsafe {
        let dirty = if span.is_null() { size } else { (*span).dirty };
        buffer.write_bytes(0, size.min(dirty));
    }
    buffer
}

/// Frees memory of [`umem_alloc`].
///
/// # Safety
/// It was allocated with that size, and no thread uses it. Null and size 0 have no effect.
#[inline]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub unsafe fn umem_free(buffer: *mut u8, size: usize) {
    let of = builtin::for_alloc(size);
    if of.is_null() || buffer.is_null() || size == 0 {
        // SAFETY: by the caller's promise.
        return unsafe { free_slowly(buffer, size) };
    }
    // SAFETY: by the caller's promise; built-in caches are never destroyed.
    unsafe {
        if (*of).flags & CHECKED != 0 {
            return free_checked(of, buffer, size);
        }
        cache::free(of, buffer);
    }
}

#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn free_checked(of: *mut Cache, buffer: *mut u8, size: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        if !placed::is_so(of) {
            debug::check_size(of, buffer, size);
            return cache::free(of, buffer);
        }
        match Room::of(buffer.addr()).filter(|room| room.begins(buffer, size, alignment(size))) {
            Some(room) => room.free(buffer, size),
            None => report::bad_free((buffer.addr(), size), (0, 0)),
        }
    }
}

#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn free_slowly(buffer: *mut u8, size: usize) {
    if buffer.is_null() {
        if size > 0 && start::begin() && settings::get().asked.debug.check_null {
            report::bad_free((0, size), (0, 0));
        }
        return;
    }
    let _errno = errno::keep();
    // A free before the first allocation is reported as the environment configures it.
    if !root::is_ready() && start::begin() && !builtin::for_alloc(size).is_null() {
        // SAFETY: by the caller's promise.
        return unsafe { umem_free(buffer, size) };
    }
    let span = map::find(buffer.addr());
    // SAFETY: null, or a live record.
    unsafe {
        if span.is_null() || (*span).kind != kind::LARGE {
            report::bad_free((buffer.addr(), size), (0, 0));
        } else if let Some(room) = Room::of(buffer.addr()) {
            if room.begins(buffer, size, alignment(size)) {
                room.free(buffer, size);
            } else {
                report::bad_free((buffer.addr(), size), (0, (*span).size));
            }
        } else if (*span).base != buffer || (*span).size != size {
            report::bad_free((buffer.addr(), size), ((*span).base.addr(), (*span).size));
        } else {
            free_large(span);
        }
    }
}

/// Sets the callback for requests with `UMEM_NOFAIL` when out of memory. Result 0: try again. Result 0x100 plus a status in the lower eight bits: end
/// the program by `exit`. Without a callback, or with another result, the status is 255. It may leave by `longjmp` or `pthread_exit`. It must not
/// make such requests itself.
pub fn umem_nofail_callback(callback: Option<unsafe extern "C-unwind" fn() -> c_int>) {
    report::set_callback(callback);
}

/// Returns free memory to the kernel: magazines of depots, whole slabs, pages. The reclaim functions of caches are called first.
pub fn umem_reap() {
    let _errno = errno::keep();
    if root::is_ready() {
        update::reap();
    }
}
