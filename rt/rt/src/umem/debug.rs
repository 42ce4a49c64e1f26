//! The checks of a buffer when it is allocated and when it is freed: patterns in free memory, and tags behind buffers.

use super::report::Damage;
use super::slab::{self, Place};
use super::tags::{fill, tag};
use super::{log, report};
use millpond_rt_layout::patterns::{
    ALLOCATED, FREE, FREED, REDZONE, REDZONE_BYTE, UNINITIALISED, decode, encode,
};
use millpond_rt_layout::{Buftag, Cache, flags};

/// The first word that is not the pattern, with its offset.
unsafe fn differs(buffer: *const u8, bytes: usize, pattern: u64) -> Option<(usize, u64)> {
    // SAFETY: within the buffer, which is aligned to eight bytes.
    let word = |at: usize| (at, unsafe { buffer.add(at).cast::<u64>().read() });
    (0..bytes).step_by(8).map(word).find(|(_, found)| *found != pattern)
}

/// A buffer leaves the slab for a user.
///
/// # Safety
/// The cache checks, and the buffer is the caller's.
#[inline(always)]
pub(super) unsafe fn allocated(cache: *mut Cache, buffer: *mut u8) {
    // SAFETY: our caller's promise; a buffer of the slab is found.
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

/// Notes how many bytes of a buffer its user asked for.
///
/// # Safety
/// The cache checks, the buffer is the caller's, and `size` is at most what the cache has.
pub(super) unsafe fn set_size(cache: *mut Cache, buffer: *mut u8, size: usize) {
    // SAFETY: our caller's promise. The byte behind the last one is in the buffer, or the first one of the tag.
    unsafe {
        (*tag(cache, buffer)).redzone = REDZONE & 0xffff_ffff | u64::from(encode(size as u32)) << 32;
        buffer.add(size).write(REDZONE_BYTE);
    }
}

/// Compares what is freed with what was asked for, and says what is wrong.
///
/// # Safety
/// The cache checks, and `size` is at most what it has. The address need not be a buffer.
#[inline(always)]
pub(super) unsafe fn check_size(cache: *mut Cache, buffer: *mut u8, size: usize) {
    // SAFETY: nothing is touched before the buffer is found to be one.
    unsafe {
        let Ok(place) = slab::find(cache, buffer.addr()) else { return };
        let record = slab::bufctl(cache, place);
        let tag = tag(cache, buffer);
        if (*record).allocated == 0 {
            // That is seen, and said, when it is freed.
            return;
        }
        let ends_with = |size: usize| {
            // Where the buffer ends with the size, the byte behind it is the tag's first.
            let first = if size < (*cache).tag { REDZONE as u8 } else { REDZONE_BYTE };
            let low = REDZONE as u32 & !0xff | u32::from(first);
            buffer.add(size).read() == REDZONE_BYTE && (*tag).redzone as u32 == low
        };
        let damage = match decode(((*tag).redzone >> 32) as u32).map(|size| size as usize) {
            Some(kept) if kept == size && ends_with(kept) && (*tag).bufctl == record => None,
            // What overran the tag may look like a size; then the byte is not where it would be.
            Some(kept) if kept != size && kept <= (*cache).size && ends_with(kept) => {
                Some(Damage::Size { freed: size, allocated: kept })
            }
            _ => Some(Damage::Redzone),
        };
        if let Some(damage) = damage {
            report::damaged(cache, buffer.addr(), record, damage);
            // That is said, and need not be again when the buffer is freed.
            (*tag).bufctl = record;
            (*tag).bxstat = record.addr() ^ ALLOCATED;
        }
        (*tag).redzone = REDZONE;
    }
}

/// Whether a buffer that is freed is allocated and whole. What is not is said; a buffer that is free already stays so.
///
/// # Safety
/// The cache checks, and that is where the buffer is.
#[inline(always)]
pub(super) unsafe fn can_be_freed(cache: *mut Cache, buffer: *mut u8, place: Place) -> bool {
    // SAFETY: our caller's promise.
    unsafe {
        let record = slab::bufctl(cache, place);
        let tag = tag(cache, buffer);
        // The record is out of reach of a write past a buffer: it knows better than the tag.
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

/// A buffer goes back to the slab.
///
/// # Safety
/// The cache checks, and the buffer is unused.
#[inline(always)]
pub(super) unsafe fn freed(cache: *mut Cache, buffer: *mut u8, place: Place) {
    // SAFETY: our caller's promise.
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
