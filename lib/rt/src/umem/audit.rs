//! Who allocated and who freed: a record for each buffer, and a log of all that happened.

use super::{frames, log, messages, root, settings};
use crate::locks::word::thread_number;
use millpond_rt_layout::Bufctl;

/// The caller's stack in a record, and a copy of the record in the log.
///
/// # Safety
/// The record is of a cache that audits, and its buffer the caller's.
pub(super) unsafe fn record(record: *mut Bufctl) {
    // SAFETY: our caller's promise; so many return addresses follow a record.
    unsafe {
        (*record).time = messages::now().cast_unsigned();
        (*record).thread = thread_number();
        let room = (*root::root()).frames as usize;
        let frames = std::slice::from_raw_parts_mut(record.add(1).cast::<usize>(), room);
        (*record).depth = frames::capture(frames) as u32;
        log::transaction(record);
    }
}

/// Keeps what is in a buffer that is freed.
///
/// # Safety
/// The record is of a cache that keeps contents, and its buffer of `size` bytes the caller's.
pub(super) unsafe fn keep_contents(record: *mut Bufctl, size: usize) {
    let bytes = size.min(settings::get().contents);
    // SAFETY: our caller's promise.
    unsafe {
        (*record).contents = log::contents((*record).buffer, bytes);
        (*record).contents_bytes = if (*record).contents.is_null() { 0 } else { bytes as u32 };
    }
}

/// The stack of a record.
pub(super) fn frames_of(record: *const Bufctl) -> &'static [usize] {
    // SAFETY: so many return addresses were written behind it, if it is of a cache that audits.
    unsafe {
        let depth = (*record).depth.min((*root::root()).frames) as usize;
        std::slice::from_raw_parts(record.add(1).cast(), depth)
    }
}

/// The stack of whoever calls.
pub(super) fn here() -> impl std::ops::Deref<Target = [usize]> {
    let mut frames = Here { frames: [0; 32], depth: 0 };
    frames.depth = frames::capture(&mut frames.frames);
    frames
}

struct Here {
    frames: [usize; 32],
    depth: usize,
}

impl std::ops::Deref for Here {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        self.frames.get(..self.depth).unwrap_or_default()
    }
}
