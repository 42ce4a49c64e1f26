//! Checks of a buffer at allocation and free: patterns in free memory, and tags after buffers.

use super::report::Damage;
use super::slab::{self, Place};
use super::tags::{fill, tag};
use super::{log, report};
use millpond_rt_layout::patterns::{
    ALLOCATED, FREE, FREED, REDZONE, REDZONE_BYTE, UNINITIALISED, decode, encode,
};
use millpond_rt_layout::{Buftag, Cache, flags};

/// The first word that differs from the pattern, with its offset.
unsafe fn differs(buffer: *const u8, bytes: usize, pattern: u64) -> Option<(usize, u64)> {
    // SAFETY: within the buffer, which is aligned to eight bytes.
    let word = |at: usize| (at, unsafe { buffer.add(at).cast::<u64>().read() });
    (0..bytes).step_by(8).map(word).find(|(_, found)| *found != pattern)
}

/// Checks a buffer that leaves the slab, and marks it allocated.
///
/// # Safety
/// The cache has checks, and the caller owns the buffer.
#[inline(always)]
pub(super) unsafe fn allocated(cache: *mut Cache, buffer: *mut u8) {
    // SAFETY: by the caller's promise; the buffer is of the slab, so it is found.
    unsafe {
        let Ok(place) = slab::find(cache, buffer.addr()) else { return };
        let record = slab::bufctl(cache, place);
        let tag = tag(cache, buffer);
        let found = (*tag).bufctl.addr() ^ (*tag).bxstat;
        if found != FREED || (*tag).bufctl != record {
            let damage = if found == FREED { Damage::Record } else { Damage::Tag { found, expected: FREED } };
            report::damaged(cache, buffer.addr(), record, damage);
        } else if (*tag).redzone != REDZONE {
            report::damaged(cache, buffer.addr(), record, Damage::Redzone);
        }
        if (*cache).flags & flags::DEADBEEF != 0 {
            let bytes = (*cache).verify;
            if let Some((offset, found)) = differs(buffer, bytes, FREE) {
                let damage = Damage::Modified { offset, found, expected: FREE };
                report::damaged(cache, buffer.addr(), record, damage);
            }
            fill(buffer, bytes, UNINITIALISED);
        }
        (*record).allocated = 1;
        tag.write(Buftag { redzone: REDZONE, bufctl: record, bxstat: record.addr() ^ ALLOCATED });
        if (*cache).flags & flags::AUDIT != 0 {
            log::record(record);
        }
    }
}

/// Records the requested size of a buffer.
///
/// # Safety
/// The cache has checks, the caller owns the buffer, and `size` is at most that of the cache.
pub(super) unsafe fn set_size(cache: *mut Cache, buffer: *mut u8, size: usize) {
    // SAFETY: by the caller's promise. The byte after the last one is in the buffer, or the first one of the tag.
    unsafe {
        (*tag(cache, buffer)).redzone = REDZONE & 0xffff_ffff | u64::from(encode(size as u32)) << 32;
        buffer.add(size).write(REDZONE_BYTE);
    }
}

/// Compares the size of a free with the requested size, and reports damage.
///
/// # Safety
/// The cache has checks, and `size` is at most its size. The address need not be a buffer.
#[inline(always)]
pub(super) unsafe fn check_size(cache: *mut Cache, buffer: *mut u8, size: usize) {
    // SAFETY: nothing is accessed before the buffer is found valid.
    unsafe {
        let Ok(place) = slab::find(cache, buffer.addr()) else { return };
        let record = slab::bufctl(cache, place);
        let tag = tag(cache, buffer);
        if (*record).allocated == 0 {
            // A double free, which is reported later, in the free itself.
            return;
        }
        let ends_with = |size: usize| {
            // If the size ends at the end of the buffer, the byte after it is the first of the tag.
            let first = if size < (*cache).tag { REDZONE as u8 } else { REDZONE_BYTE };
            let low = REDZONE as u32 & !0xff | u32::from(first);
            buffer.add(size).read() == REDZONE_BYTE && (*tag).redzone as u32 == low
        };
        let damage = match decode(((*tag).redzone >> 32) as u32).map(|size| size as usize) {
            Some(kept) if kept == size && ends_with(kept) && (*tag).bufctl == record => None,
            // An overflow into the tag can look like a size. Then the end byte is not at its place.
            Some(kept) if kept != size && kept <= (*cache).size && ends_with(kept) => {
                Some(Damage::Size { freed: size, allocated: kept })
            }
            _ => Some(Damage::Redzone),
        };
        if let Some(damage) = damage {
            report::damaged(cache, buffer.addr(), record, damage);
            // Already reported: restore the tag, so that the free does not report it again.
            (*tag).bufctl = record;
            (*tag).bxstat = record.addr() ^ ALLOCATED;
        }
        (*tag).redzone = REDZONE;
    }
}

/// Whether a buffer may be freed: it is allocated. Damage and double frees are reported.
///
/// # Safety
/// The cache has checks, and `place` is that of the buffer.
#[inline(always)]
pub(super) unsafe fn can_be_freed(cache: *mut Cache, buffer: *mut u8, place: Place) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let record = slab::bufctl(cache, place);
        let tag = tag(cache, buffer);
        // The record is out of reach of an overflow, so it is more reliable than the tag.
        if (*record).allocated == 0 {
            report::damaged(cache, buffer.addr(), record, Damage::Twice);
            return false;
        }
        let is_allocated = (*tag).bufctl == record && record.addr() ^ (*tag).bxstat == ALLOCATED;
        if !is_allocated || (*tag).redzone != REDZONE {
            report::damaged(cache, buffer.addr(), record, Damage::Redzone);
        }
        true
    }
}

/// Marks a buffer free that returns to the slab.
///
/// # Safety
/// The cache has checks, and the buffer is unused.
#[inline(always)]
pub(super) unsafe fn freed(cache: *mut Cache, buffer: *mut u8, place: Place) {
    // SAFETY: by the caller's promise.
    unsafe {
        let record = slab::bufctl(cache, place);
        (*record).allocated = 0;
        if (*cache).flags & flags::CONTENTS != 0 {
            log::keep_contents(record, (*cache).size);
        }
        if (*cache).flags & flags::DEADBEEF != 0 {
            fill(buffer, (*cache).verify, FREE);
        }
        tag(cache, buffer).write(Buftag { redzone: REDZONE, bufctl: record, bxstat: record.addr() ^ FREED });
        if (*cache).flags & flags::AUDIT != 0 {
            log::record(record);
        }
    }
}
