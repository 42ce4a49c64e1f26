//! Tags after buffers and patterns in free memory: the layout of a chunk in a cache with checks.

use millpond_rt_layout::patterns::{FREE, FREED, REDZONE};
use millpond_rt_layout::{Bufctl, Buftag, Cache, Span, flags};

/// Initialises a chunk of a new slab.
///
/// # Safety
/// The cache has checks, and the caller owns the chunk and its record.
pub(super) unsafe fn new(cache: *mut Cache, buffer: *mut u8, record: *mut Bufctl, span: *mut Span) {
    // SAFETY: by the caller's promise.
    unsafe {
        (*record).buffer = buffer;
        (*record).span = span;
        (*record).cache = cache;
        if (*cache).flags & flags::DEADBEEF != 0 {
            fill(buffer, (*cache).verify, FREE);
        }
        tag(cache, buffer).write(Buftag { redzone: REDZONE, bufctl: record, bxstat: record.addr() ^ FREED });
    }
}

/// The tag of a buffer. Like buffers, it is aligned to eight bytes.
///
/// # Safety
/// The cache has checks, and the buffer is of it.
pub(super) unsafe fn tag(cache: *mut Cache, buffer: *mut u8) -> *mut Buftag {
    // SAFETY: the chunk includes the tag.
    unsafe { buffer.add((*cache).tag).cast() }
}

/// Fills a buffer with a pattern.
///
/// # Safety
/// The caller owns it, it has that many bytes, and is aligned to eight bytes.
pub(super) unsafe fn fill(buffer: *mut u8, bytes: usize, pattern: u64) {
    for at in (0..bytes).step_by(8) {
        // SAFETY: within the buffer, which is aligned to eight bytes.
        unsafe { buffer.add(at).cast::<u64>().write(pattern) };
    }
}
