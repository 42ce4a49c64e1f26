//! The object caches of `millpond-rt` as a replacement of the C library's `malloc`, for unmodified programs:
//!
//! ```text
//! LD_PRELOAD=libmillpond_malloc.so UMEM_DEBUG=default program
//! ```
//!
//! It defines every function of the family, so that no buffer of one allocator is passed to another. `malloc(3)` documents each. Differences:
//! `malloc_usable_size` returns the requested size and not more, so that no program writes after it. `mallopt` and `mallinfo` are still those of the
//! C library, whose heap is empty. `UMEM_DEBUG` and the other variables select checks. `millpond umem` reads the caches from outside.
//!
//! "Our caller" in a SAFETY comment is the program, which must fulfil the demands of the function's manual page.

use libc::{c_int, c_void, size_t};
use millpond_rt::malloc as umem;

/// As `malloc(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
extern "C" fn malloc(size: size_t) -> *mut c_void {
    umem::malloc(size).cast()
}

/// As `free(3)`. errno is preserved.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: our caller promises it.
    unsafe { umem::free(data.cast()) };
}

/// As `calloc(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    umem::calloc(count, size).cast()
}

/// As `realloc(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe extern "C" fn realloc(data: *mut c_void, size: size_t) -> *mut c_void {
    // SAFETY: our caller promises it.
    unsafe { umem::realloc(data.cast(), size) }.cast()
}

/// As `reallocarray(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe extern "C" fn reallocarray(data: *mut c_void, count: size_t, size: size_t) -> *mut c_void {
    // An overflow becomes a size that always fails.
    let bytes = count.checked_mul(size).unwrap_or(size_t::MAX);
    // SAFETY: our caller promises it.
    unsafe { umem::realloc(data.cast(), bytes) }.cast()
}

/// As `memalign(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
extern "C" fn memalign(align: size_t, size: size_t) -> *mut c_void {
    umem::memalign(align, size).cast()
}

/// As `aligned_alloc(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
extern "C" fn aligned_alloc(align: size_t, size: size_t) -> *mut c_void {
    umem::memalign(align, size).cast()
}

/// As `posix_memalign(3)`: errno is preserved.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: size_t, size: size_t) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return libc::EINVAL;
    }
    // SAFETY: errno is thread-local.
    let (errno, before) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    let data = umem::memalign(align, size);
    // SAFETY: as above.
    unsafe { *errno = before };
    if data.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: our caller promises it.
    unsafe { to.write(data.cast()) };
    0
}

/// As `valloc(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
extern "C" fn valloc(size: size_t) -> *mut c_void {
    umem::memalign(page_size(), size).cast()
}

/// As `pvalloc(3)`.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(page_size()) {
        Some(whole) => umem::memalign(page_size(), whole).cast(),
        None => umem::malloc(size_t::MAX).cast(),
    }
}

/// As `malloc_usable_size(3)`: the requested size. For aligned buffers it can be more.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(data: *mut c_void) -> size_t {
    // SAFETY: our caller promises it.
    unsafe { umem::usable_size(data.cast()) }
}

/// As `malloc_trim(3)`: returns free memory to the kernel. 1: memory may have been returned.
#[unsafe(no_mangle)]
extern "C" fn malloc_trim(_keep: size_t) -> c_int {
    millpond_rt::umem_reap();
    1
}

fn page_size() -> usize {
    // SAFETY: the call has no effect.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// As `cfree(3)`, for old programs.
#[unsafe(no_mangle)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe extern "C" fn cfree(data: *mut c_void) {
    // SAFETY: our caller promises it.
    unsafe { umem::free(data.cast()) };
}
