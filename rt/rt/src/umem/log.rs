//! Allocation and free records of audited buffers, and rings with the latest of them: transactions, contents, failures, slabs.

use super::settings::{self, Ready};
use super::{messages, meta, root, trace};
use crate::locks::word::thread_number;
use millpond_rt_layout::{Bufctl, Cache, Log, Span, flags, logs};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes the logs that were asked for. One for which there is no memory is not there.
pub(super) fn begin(settings: &Ready) {
    let asked = settings.asked.logs;
    let frames = settings.frames as usize * size_of::<usize>();
    let record = size_of::<Bufctl>() + frames;
    let audits = settings.flags & flags::AUDIT != 0;
    // Contents are kept where they are asked for, whether or not their log is: the log is where.
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
        // SAFETY: no other code knows it yet.
        unsafe { *log(at) = Log { base, stride, entries, next: 0 } };
    }
}

fn log(at: usize) -> *mut Log {
    // SAFETY: there are so many logs.
    unsafe { (&raw mut (*root::root()).logs).cast::<Log>().add(at) }
}

/// The place of the next entry; null: there is no such log.
fn next(at: usize) -> *mut u8 {
    let log = log(at);
    // SAFETY: a log does not change once it is there, but for the number of the next entry.
    unsafe {
        if (*log).base.is_null() {
            return ptr::null_mut();
        }
        let number = AtomicUsize::from_ptr(&raw mut (*log).next).fetch_add(1, Ordering::Relaxed);
        (*log).base.add(number % (*log).entries * (*log).stride)
    }
}

/// The caller's stack in a record, and a copy of the record in the log.
///
/// # Safety
/// The record is of a cache that audits, and its buffer the caller's.
#[inline(always)]
pub(super) unsafe fn record(record: *mut Bufctl) {
    // SAFETY: our caller's promise; so many return addresses follow a record.
    unsafe {
        (*record).time = messages::now().cast_unsigned();
        (*record).thread = thread_number();
        trace::set_stack(record);
        transaction(record);
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
        // An entry has room for what is kept of a buffer.
        let entry = next(logs::CONTENTS);
        (*record).contents = entry;
        (*record).contents_bytes = 0;
        if !entry.is_null() {
            (*record).contents_bytes = bytes as u32;
            ptr::copy_nonoverlapping((*record).buffer, entry, bytes);
        }
    }
}

/// Copies a record with its stack to the log of transactions. When so much happens that the ring comes round within one transaction, two
/// are mixed; it is read after the fact, by eyes.
///
/// # Safety
/// The record is of a cache that audits, and the caller's.
unsafe fn transaction(record: *mut Bufctl) {
    let entry: *mut Bufctl = next(logs::TRANSACTION).cast();
    if entry.is_null() {
        return;
    }
    // SAFETY: an entry is as long as a record with its stack.
    unsafe {
        let before = (*record).log;
        (*record).log = entry;
        ptr::copy_nonoverlapping(record.cast::<u8>(), entry.cast(), (*log(logs::TRANSACTION)).stride);
        (*entry).before = before;
    }
}

/// Something that has a stack and no buffer, in one of [`logs`]: an allocation failed, or a slab was made.
pub(super) fn event(at: usize, cache: *mut Cache, span: *mut Span) {
    let entry: *mut Bufctl = next(at).cast();
    if entry.is_null() {
        return;
    }
    // SAFETY: an entry is as long as a record with its stack, and zeros are a record of nothing.
    unsafe {
        entry.write_bytes(0, 1);
        (*entry).cache = cache;
        (*entry).span = span;
        (*entry).time = messages::now().cast_unsigned();
        (*entry).thread = thread_number();
        trace::set_stack(entry);
    }
}
