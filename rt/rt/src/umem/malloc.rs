//! The malloc family over the caches, for a library that replaces the C library's (`rt/rt-malloc`).
//!
//! Before each buffer is a *tag*: its size, and a word that together with the size gives a signature. So a free needs no search for the buffer, and
//! an invalid pointer is detected. The tag of a freed buffer is a pattern. An aligned buffer (`memalign`) has a tag with the distance to the
//! beginning of the underlying buffer.
//!
//! ```text
//!  of a cache:  | tag | data ...                      the chunk begins eight bytes before a multiple of sixteen
//!  a span:      | 8 bytes | tag | data ...            without a cache for the size; the eight bytes are the size if it needs more than 32 bits
//!  aligned:     | tag | data of malloc ... | tag | data ...
//!  at a wall:   | ... | tag | data             `placed.rs`
//! ```

use super::placed::{self, CHECKED, Room};
use super::report::{self, Known};
use super::settings::words;
use super::slab::{self, Place};
use super::{builtin, cache, debug, errno, map, pages, raw, start};
use crate::stacks::page_size;
use millpond_rt_layout::patterns::{FREE, MALLOC, MALLOC_OVERSIZE, MEMALIGN, PLACED};
use millpond_rt_layout::{Cache, Span, kind};
use std::ptr;

const TAG: usize = 8;
/// Bytes before the data of a span.
const HEAD: usize = 16;
/// Alignment of all buffers.
const ALIGN: usize = 16;

/// Texts of reports about pointers that cannot be freed.
const FREED: &str = "double-free or invalid buffer";
const INVALID: &str = "invalid or corrupted buffer";

fn tag(signature: u32, value: u32) -> u64 {
    u64::from(value) | u64::from(signature.wrapping_sub(value)) << 32
}

enum Says {
    /// A buffer of this size.
    Size(usize),
    /// A large buffer, whose size is stored before the tag.
    Oversize,
    /// An aligned buffer; the underlying one begins this many bytes below.
    Distance(usize),
    /// A buffer of this size at a wall.
    Placed(usize),
    Freed,
    Nonsense,
}

fn read(word: u64) -> Says {
    let value = word as u32;
    let signature = value.wrapping_add((word >> 32) as u32);
    match signature {
        MALLOC => Says::Size(value as usize),
        MALLOC_OVERSIZE => Says::Oversize,
        MEMALIGN => Says::Distance(value as usize),
        PLACED => Says::Placed(value as usize),
        _ if word == FREE => Says::Freed,
        _ => Says::Nonsense,
    }
}

unsafe fn tag_of(data: *mut u8) -> *mut u64 {
    // SAFETY: the caller has a buffer, and the tag is before it.
    unsafe { data.sub(TAG).cast() }
}

/// As `malloc`.
///
/// The result is aligned to 16 bytes. Null and errno `ENOMEM`: out of memory.
#[inline(always)]
pub fn malloc(size: usize) -> *mut u8 {
    // An overflowing sum wraps to less than the size of a tag.
    let whole = size.wrapping_add(TAG);
    let of = if whole < TAG { ptr::null_mut() } else { builtin::for_malloc(whole) };
    if of.is_null() {
        return malloc_slowly(size);
    }
    // SAFETY: built-in caches are never destroyed; their buffers have room for the tag and the data.
    unsafe {
        if (*of).flags & CHECKED != 0 {
            return malloc_checked(of, size);
        }
        let buffer = cache::alloc(of, words::DEFAULT);
        if buffer.is_null() {
            return fail(libc::ENOMEM);
        }
        buffer.cast::<u64>().write(tag(MALLOC, size as u32));
        buffer.add(TAG)
    }
}

/// Allocates from a cache with checks.
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn malloc_checked(of: *mut Cache, size: usize) -> *mut u8 {
    // SAFETY: as in `malloc`.
    unsafe {
        if placed::is_so(of)
            && let Some(data) = place(size, placed::natural(size))
        {
            return data;
        }
        let buffer = cache::alloc(of, words::DEFAULT);
        if buffer.is_null() {
            return fail(libc::ENOMEM);
        }
        if (*of).tag > 0 {
            debug::set_size(of, buffer, size + TAG);
        }
        buffer.cast::<u64>().write(tag(MALLOC, size as u32));
        buffer.add(TAG)
    }
}

/// Memory that ends at a wall, or null and errno. `None`: no walls for this size.
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
fn place(size: usize, align: usize) -> Option<*mut u8> {
    let value = u32::try_from(size).ok()?;
    let whole = placed::distance(size, align)?.checked_add(TAG)?;
    match Room::new(builtin::for_malloc(whole), whole) {
        Ok(room) => {
            let data = room?.fill(size, align);
            // SAFETY: there is room for a tag before the data.
            unsafe { tag_of(data).write(tag(PLACED, value)) };
            Some(data)
        }
        Err(()) => Some(fail(libc::ENOMEM)),
    }
}

#[cold]
fn fail(errno: libc::c_int) -> *mut u8 {
    // SAFETY: errno is thread-local.
    unsafe { *libc::__errno_location() = errno };
    ptr::null_mut()
}

/// For sizes without a cache, and before there are caches.
#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
fn malloc_slowly(size: usize) -> *mut u8 {
    if start::begin_malloc() && !builtin::for_malloc(size.saturating_add(TAG)).is_null() {
        return malloc(size);
    }
    place(size, ALIGN).unwrap_or_else(|| {
        let span = large(size);
        if span.is_null() { fail(libc::ENOMEM) } else { data_of(span) }
    })
}

/// A span for this many bytes, with its tag. Null: out of memory.
fn large(size: usize) -> *mut Span {
    let Some(whole) = size.checked_add(HEAD).filter(|whole| isize::try_from(*whole).is_ok()) else {
        return ptr::null_mut();
    };
    let span = raw::large(whole);
    if !span.is_null() {
        // SAFETY: the span is this function's, and larger than its head.
        unsafe { set_large(span, size) };
    }
    span
}

/// Writes the head of a span.
unsafe fn set_large(span: *mut Span, size: usize) {
    // SAFETY: the caller owns the span.
    unsafe {
        (*span).size = size;
        let head: *mut u64 = (*span).base.cast();
        if let Ok(small) = u32::try_from(size) {
            head.add(1).write(tag(MALLOC, small));
        } else {
            head.write(size as u64);
            head.add(1).write(tag(MALLOC_OVERSIZE, 0));
        }
    }
}

fn data_of(span: *mut Span) -> *mut u8 {
    // SAFETY: a span is larger than its head.
    unsafe { (*span).base.add(HEAD) }
}

/// The span whose data begins at an address.
fn span_of(data: *mut u8) -> Option<*mut Span> {
    let span = map::find(data.addr());
    // SAFETY: null, or a live record.
    let is_one = !span.is_null() && unsafe { (*span).kind == kind::LARGE } && data_of(span) == data;
    is_one.then_some(span)
}

/// As `free`.
///
/// # Safety
/// No thread uses the buffer. An invalid or freed pointer is reported, and ends the program.
#[inline(always)]
pub unsafe fn free(data: *mut u8) {
    if data.is_null() {
        return;
    }
    // SAFETY: the caller has the buffer, and its tag is before it.
    unsafe {
        let at = tag_of(data);
        let word = at.read();
        let size = word as u32;
        if size.wrapping_add((word >> 32) as u32) == MALLOC {
            let of = builtin::for_malloc(size as usize + TAG);
            if !of.is_null() && (*of).flags & CHECKED == 0 {
                at.write(FREE);
                return cache::free(of, at.cast());
            }
        }
        free_slowly(data, word);
    }
}

#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn free_slowly(data: *mut u8, word: u64) {
    // A free before the first allocation is reported as the environment configures it.
    start::begin();
    // SAFETY: as in `free`.
    unsafe {
        let at = tag_of(data);
        match read(word) {
            Says::Size(size) => {
                let of = builtin::for_malloc(size + TAG);
                if of.is_null() {
                    return free_large(data);
                }
                if (*of).tag > 0 {
                    debug::check_size(of, at.cast(), size + TAG);
                } else {
                    at.write(FREE);
                }
                cache::free(of, at.cast());
            }
            Says::Oversize => free_large(data),
            Says::Distance(distance) => {
                at.write(FREE);
                free(data.sub(distance));
            }
            Says::Placed(size) => match Room::of(data.addr()).filter(|room| room.has(data, size, TAG)) {
                Some(room) => {
                    let _errno = errno::keep();
                    at.write(FREE);
                    room.free(data, size);
                }
                None => report::bad_malloc_free(data.addr(), INVALID, known(data)),
            },
            Says::Freed => report::bad_malloc_free(data.addr(), FREED, known(data)),
            Says::Nonsense => report::bad_malloc_free(data.addr(), INVALID, known(data)),
        }
    }
}

#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn free_large(data: *mut u8) {
    let _errno = errno::keep();
    match span_of(data) {
        // SAFETY: the caller has the buffer.
        Some(span) => unsafe {
            tag_of(data).write(FREE);
            raw::free_large(span);
        },
        None => report::bad_malloc_free(data.addr(), INVALID, None),
    }
}

/// Finds the buffer that contains an address.
fn known(data: *mut u8) -> Option<Known> {
    let span = map::find(data.addr());
    // SAFETY: null, or a live record; records of chunks are read only.
    unsafe {
        if span.is_null() || (*span).kind != kind::SLAB || (*span).cache.is_null() {
            return None;
        }
        let cache = (*span).cache;
        let (chunk, offset) = slab::chunk_at(cache, span, data.addr())?;
        let buffer = data.addr() - offset;
        Some(Known { cache, buffer, record: slab::bufctl(cache, Place { span, chunk }) })
    }
}

/// The requested size of a buffer in bytes; 0 if it is invalid. For an aligned buffer: the rest of the underlying one.
///
/// # Safety
/// It is a buffer of [`malloc`].
pub unsafe fn usable_size(data: *mut u8) -> usize {
    if data.is_null() {
        return 0;
    }
    // SAFETY: the caller has the buffer.
    unsafe {
        match read(tag_of(data).read()) {
            Says::Size(size) | Says::Placed(size) => size,
            Says::Oversize => span_of(data).map_or(0, |span| (*span).size),
            Says::Distance(distance) => usable_size(data.sub(distance)).saturating_sub(distance),
            Says::Freed | Says::Nonsense => 0,
        }
    }
}

/// As `calloc`: zeros.
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else { return fail(libc::ENOMEM) };
    let data = malloc(bytes);
    if !data.is_null() {
        // In a new large buffer, only the dirty part may be non-zero.
        let span = if builtin::for_malloc(bytes + TAG).is_null() { span_of(data) } else { None };
        // SAFETY: the buffer is this function's and has that size; the span is alive.
        unsafe {
            let dirty = span.map_or(bytes, |span| (*span).dirty);
            data.write_bytes(0, bytes.min(dirty));
        }
    }
    data
}

/// As `realloc`.
///
/// # Safety
/// As [`free`], unless the result is null.
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub unsafe fn realloc(data: *mut u8, size: usize) -> *mut u8 {
    if data.is_null() {
        return malloc(size);
    }
    if size == 0 {
        // As glibc does.
        // SAFETY: by the caller's promise.
        unsafe { free(data) };
        return ptr::null_mut();
    }
    // SAFETY: the caller has the buffer.
    unsafe {
        let before = match read(tag_of(data).read()) {
            says @ (Says::Freed | Says::Nonsense) => {
                let what = if matches!(says, Says::Freed) { FREED } else { INVALID };
                report::bad_malloc_free(data.addr(), what, known(data));
                return fail(libc::ENOMEM);
            }
            Says::Size(before) => {
                let (of, wanted) =
                    (builtin::for_malloc(before + TAG), builtin::for_malloc(size.saturating_add(TAG)));
                if !of.is_null() && of == wanted && (*of).flags & CHECKED == 0 {
                    tag_of(data).write(tag(MALLOC, size as u32));
                    return data;
                }
                if of.is_null()
                    && wanted.is_null()
                    && let Some(moved) = resize_large(data, size)
                {
                    return moved;
                }
                before
            }
            Says::Oversize => match resize_large(data, size) {
                Some(moved) => return moved,
                None => usable_size(data),
            },
            Says::Placed(before) => before,
            Says::Distance(_) => usable_size(data),
        };
        let new = malloc(size);
        if !new.is_null() {
            ptr::copy_nonoverlapping(data, new, before.min(size));
            free(data);
        }
        new
    }
}

/// Resizes a large buffer in place, or by moving its pages. No data is copied.
unsafe fn resize_large(data: *mut u8, size: usize) -> Option<*mut u8> {
    let span = span_of(data)?;
    let whole = size.checked_add(HEAD)?;
    // SAFETY: the caller has the buffer.
    unsafe {
        let has = (*span).bytes;
        // A buffer that would be less than half used is resized.
        if (whole > has || whole < has / 2) && !pages::resize(span, whole) {
            return None;
        }
        set_large(span, size);
        Some(data_of(span))
    }
}

/// As `memalign`. Null and errno `EINVAL` (not a power of two) or `ENOMEM`.
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub fn memalign(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        return fail(libc::EINVAL);
    }
    if align <= ALIGN {
        return malloc(size);
    }
    let Some(whole) = size.checked_add(align) else { return fail(libc::ENOMEM) };
    if u32::try_from(align).is_err() {
        return fail(libc::ENOMEM);
    }
    if align <= page_size()
        && start::begin_malloc()
        && let Some(data) = place(size, align)
    {
        return data;
    }
    let data = malloc(whole);
    if data.is_null() {
        return data;
    }
    let distance = data.addr().wrapping_neg() & (align - 1);
    if distance == 0 {
        return data;
    }
    // SAFETY: the buffer is larger by that many bytes. Both addresses are multiples of 16, so the tag fits in between.
    unsafe {
        let aligned = data.add(distance);
        tag_of(aligned).write(tag(MEMALIGN, distance as u32));
        aligned
    }
}
