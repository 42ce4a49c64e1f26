//! Allocation and free records of audited buffers, and ring logs of recent events: transactions, contents, failures, slabs.

use super::settings::{self, Ready};
use super::{messages, meta, root, trace};
use crate::locks::word::thread_number;
use millpond_rt_layout::{Bufctl, Cache, Log, Span, flags, logs};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Creates the requested logs. A log for which there is no memory is omitted.
pub(super) fn begin(settings: &Ready) {
    let asked = settings.asked.logs;
    let frames = settings.frames as usize * size_of::<usize>();
    let record = size_of::<Bufctl>() + frames;
    let audits = settings.flags & flags::AUDIT != 0;
    // If contents are requested without a log, they need a log of the default size, because they are stored there.
    let contents = asked.contents.or((settings.contents > 0).then_some(super::options::LOG));
    for (at, bytes, stride) in [
        (logs::TRANSACTION, asked.transaction, record),
        (logs::CONTENTS, contents, settings.contents.max(8).next_multiple_of(8)),
        (logs::FAIL, asked.fail, record),
        (logs::SLAB, asked.slab, record),
    ] {
        let Some(bytes) = bytes.filter(|_| audits) else { continue };
        let entries = (bytes / stride).max(1);
        let base = meta::alloc(entries * stride);
        if base.is_null() {
            messages::say(format_args!("umem: no memory for a log of {bytes} bytes\n"));
            continue;
        }
        // SAFETY: no other code uses it yet.
        unsafe { *log(at) = Log { base, stride, entries, next: 0 } };
    }
}

fn log(at: usize) -> *mut Log {
    // SAFETY: the index is in range.
    unsafe { (&raw mut (*root::root()).logs).cast::<Log>().add(at) }
}

/// The place of the next entry. Null: the log does not exist.
fn next(at: usize) -> *mut u8 {
    let log = log(at);
    // SAFETY: a log does not change after its creation, except for the number of the next entry.
    unsafe {
        if (*log).base.is_null() {
            return ptr::null_mut();
        }
        let number = AtomicUsize::from_ptr(&raw mut (*log).next).fetch_add(1, Ordering::Relaxed);
        (*log).base.add(number % (*log).entries * (*log).stride)
    }
}

/// Stores the caller's stack in a record, and copies the record to the log.
///
/// # Safety
/// The record is of a cache with auditing, and the caller owns its buffer.
#[inline(always)]
pub(super) unsafe fn record(record: *mut Bufctl) {
    // SAFETY: by the caller's promise; a record has room for that many return addresses.
    unsafe {
        (*record).time = messages::now().cast_unsigned();
        (*record).thread = thread_number();
        trace::set_stack(record);
        transaction(record);
    }
}

/// Saves the contents of a buffer that is freed.
///
/// # Safety
/// The record is of a cache that saves contents, and the caller owns its buffer of `size` bytes.
pub(super) unsafe fn keep_contents(record: *mut Bufctl, size: usize) {
    let bytes = size.min(settings::get().contents);
    // SAFETY: by the caller's promise.
    unsafe {
        // An entry has room for the saved part of a buffer.
        let entry = next(logs::CONTENTS);
        (*record).contents = entry;
        (*record).contents_bytes = 0;
        if !entry.is_null() {
            (*record).contents_bytes = bytes as u32;
            ptr::copy_nonoverlapping((*record).buffer, entry, bytes);
        }
    }
}

/// Copies a record with its stack to the transaction log. If the ring wraps around within one transaction, two entries are mixed. This is
/// accepted, because the log is for people.
///
/// # Safety
/// The record is of a cache with auditing, and the caller owns it.
unsafe fn transaction(record: *mut Bufctl) {
    let entry: *mut Bufctl = next(logs::TRANSACTION).cast();
    if entry.is_null() {
        return;
    }
    // SAFETY: an entry has the size of a record with its stack.
    unsafe {
        let before = (*record).log;
        (*record).log = entry;
        ptr::copy_nonoverlapping(record.cast::<u8>(), entry.cast(), (*log(logs::TRANSACTION)).stride);
        (*entry).before = before;
    }
}

/// Logs an event with a stack and no buffer, in one of [`logs`]: a failed allocation, or a new slab.
pub(super) fn event(at: usize, cache: *mut Cache, span: *mut Span) {
    let entry: *mut Bufctl = next(at).cast();
    if entry.is_null() {
        return;
    }
    // SAFETY: an entry has the size of a record with its stack, and an all-zero record is valid and empty.
    unsafe {
        entry.write_bytes(0, 1);
        (*entry).cache = cache;
        (*entry).span = span;
        (*entry).time = messages::now().cast_unsigned();
        (*entry).thread = thread_number();
        trace::set_stack(entry);
    }
}
