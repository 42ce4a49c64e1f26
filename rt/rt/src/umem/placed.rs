//! Buffers that end at a wall (`UMEM_DEBUG=firewall` without tags): an access after the end faults at once.
//!
//! A buffer begins at a multiple of its alignment, so up to fifteen bytes are between its end and the wall. This *gap* is filled with a pattern, and
//! checked when the buffer is freed.
//!
//! ```text
//!  malloc:      | ... | tag | data | gap | wall
//!  umem_alloc:  | ...       | data | gap | wall
//! ```

use super::settings::words;
use super::slab::Place;
use super::{cache, map, pages, report, settings, slab, walls};
use crate::stacks::page_size;
use millpond_rt_layout::patterns::REDZONE_BYTE;
use millpond_rt_layout::{Cache, Span, flags, kind};

/// Flags of caches whose buffers need extra work at allocation and free.
pub(super) const CHECKED: u32 = flags::BUFTAG | flags::FIREWALL;

/// Whether buffers of a cache are placed at walls by their requested size.
///
/// # Safety
/// The cache is alive.
pub(super) unsafe fn is_so(cache: *mut Cache) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { (*cache).flags & CHECKED == flags::FIREWALL }
}

/// Alignment of malloc and `umem_alloc` for a size: sufficient for any object of that size.
pub(super) fn natural(size: usize) -> usize {
    if size < 16 { 8 } else { 16 }
}

/// Distance from the beginning of a buffer to the wall.
pub(super) fn distance(size: usize, align: usize) -> Option<usize> {
    size.max(1).checked_next_multiple_of(align)
}

/// A chunk before a wall: its beginning, and the end of accessible memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    span: *mut Span,
    begin: *mut u8,
    end: *mut u8,
}

impl Room {
    /// The room that contains an address. `None`: no room with a wall contains it.
    pub(super) fn of(address: usize) -> Option<Room> {
        let span = map::find(address);
        // SAFETY: null, or a live record.
        unsafe {
            let room = match span.as_ref()?.kind {
                kind::SLAB if !(*span).cache.is_null() && is_so((*span).cache) => {
                    let begin = (*span).base.add((*span).first as usize);
                    Room { span, begin, end: begin.add((*(*span).cache).chunk) }
                }
                kind::LARGE if (*span).first > 0 => {
                    let end = (*span).base.add((*span).bytes - (*span).first as usize);
                    Room { span, begin: (*span).base, end }
                }
                _ => return None,
            };
            (room.begin.addr()..room.end.addr()).contains(&address).then_some(room)
        }
    }

    /// Allocates room for `bytes` bytes, which include the tag of malloc. `None`: no walls for this size. `Err`: out of memory.
    #[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
    pub(super) fn new(of: *mut Cache, bytes: usize) -> Result<Option<Room>, ()> {
        // SAFETY: null, or a built-in cache, which is never destroyed.
        if !of.is_null() && unsafe { is_so(of) } {
            // SAFETY: as above.
            let buffer = unsafe { cache::alloc(of, words::DEFAULT) };
            return if buffer.is_null() { Err(()) } else { Ok(Room::of(buffer.addr())) };
        }
        if !of.is_null() || settings::get().asked.debug.firewall.is_none_or(|least| bytes < least) {
            return Ok(None);
        }
        if settings::shall_fail() {
            return Err(());
        }
        let Some(whole) =
            bytes.checked_next_multiple_of(page_size()).and_then(|n| n.checked_add(page_size()))
        else {
            return Err(());
        };
        let span = pages::alloc_alone(whole);
        // SAFETY: null, or this function's.
        unsafe {
            if span.is_null() {
                return Ok(None);
            }
            match walls::raise((*span).base, (*span).bytes) {
                Some(rest) => (*span).first = ((*span).bytes - rest) as u32,
                None => {
                    pages::free(span);
                    return Ok(None);
                }
            }
            Ok(Room::of((*span).base.addr()))
        }
    }

    /// Places a buffer of `size` bytes, which fit. Returns its address.
    pub(super) fn fill(self, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller owns the room, which has that size.
        unsafe {
            let data = self.end.sub(distance(size, align).unwrap_or(0));
            (*self.span).size = if (*self.span).kind == kind::LARGE { size } else { (*self.span).size };
            data.add(size).write_bytes(REDZONE_BYTE, self.end.offset_from_unsigned(data) - size);
            data
        }
    }

    /// Whether a buffer of this size and alignment begins at `data`.
    pub(super) fn begins(self, data: *mut u8, size: usize, align: usize) -> bool {
        distance(size, align).is_some_and(|bytes| self.end.addr() - data.addr() == bytes)
    }

    /// Whether a buffer of this size at `data`, with a tag of `head` bytes, is within the room.
    pub(super) fn has(self, data: *mut u8, size: usize, head: usize) -> bool {
        data.addr() >= self.begin.addr() + head && self.end.addr() - data.addr() >= size
    }

    /// Frees the buffer in the room, and checks the gap.
    ///
    /// # Safety
    /// [`Room::has`] it, and no thread uses it.
    #[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
    pub(super) unsafe fn free(self, data: *mut u8, size: usize) {
        // SAFETY: by the caller's promise.
        unsafe {
            let gap = self.end.offset_from_unsigned(data) - size;
            let is_whole = (0..gap).all(|at| data.add(size + at).read() == REDZONE_BYTE);
            if (*self.span).kind == kind::LARGE {
                if !is_whole {
                    report::overrun(data.addr());
                }
                walls::forget();
                return pages::free(self.span);
            }
            let cache = (*self.span).cache;
            if !is_whole {
                let record = slab::bufctl(cache, Place { span: self.span, chunk: 0 });
                report::damaged(cache, data.addr(), record, report::Damage::Redzone);
            }
            cache::free(cache, self.begin);
        }
    }
}
