//! Tags behind buffers and patterns in free memory: how a cache that checks lays out a chunk.

use millpond_rt_layout::patterns::{FREE, FREED, REDZONE};
use millpond_rt_layout::{Bufctl, Buftag, Cache, Span, flags};

/// A chunk of a new slab.
///
/// # Safety
/// The cache checks, and the chunk and its record are the caller's.
pub(super) unsafe fn new(cache: *mut Cache, buffer: *mut u8, record: *mut Bufctl, span: *mut Span) {
    // SAFETY: our caller's promise.
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

/// The tag of a buffer. It is aligned to eight bytes, as buffers are.
///
/// # Safety
/// The cache checks, and the buffer is one of its.
pub(super) unsafe fn tag(cache: *mut Cache, buffer: *mut u8) -> *mut Buftag {
    // SAFETY: the chunk is long enough.
    unsafe { buffer.add((*cache).tag).cast() }
}

/// Fills a buffer with a pattern.
///
/// # Safety
/// It is the caller's, has so many bytes, and is aligned to eight bytes.
pub(super) unsafe fn fill(buffer: *mut u8, bytes: usize, pattern: u64) {
    for at in (0..bytes).step_by(8) {
        // SAFETY: within the buffer, which is aligned to eight bytes.
        unsafe { buffer.add(at).cast::<u64>().write(pattern) };
    }
}
