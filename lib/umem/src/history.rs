//! Allocation and free records: bufctls, and the logs that keep copies of them.

use crate::heap::Heap;
use crate::root::Ring;
use millpond_rt_layout::{Bufctl, logs};
use std::collections::HashSet;

/// Maximum number of return addresses.
const FRAMES_MAX: u32 = 256;
/// Maximum number of records of a log.
const ENTRIES_MAX: u64 = 1 << 24;

/// Names of logs, in the order of the root. The log of contents has bytes of buffers and no transactions.
pub const LOGS: [&str; 4] = ["transaction", "contents", "fail", "slab"];

/// An allocation or a free of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Address of the record.
    pub at: u64,
    /// The buffer.
    pub buffer: u64,
    /// Index of its cache.
    pub cache: Option<usize>,
    /// Time in nanoseconds of the monotonic clock.
    pub time: u64,
    /// Kernel thread ID of the caller.
    pub thread: u32,
    /// True: an allocation; false: a free.
    pub allocated: bool,
    /// Return addresses, innermost first.
    pub stack: Vec<u64>,
    /// Address of its record in the log; 0: none.
    pub log: u64,
    /// Address of the buffer's previous record in the log; 0: none.
    pub before: u64,
    /// Address of the buffer's saved contents in the log of contents; 0: none.
    pub contents: u64,
}

impl Transaction {
    /// Reads a record, with its return addresses.
    pub(crate) fn read(heap: &Heap<'_>, at: u64) -> Option<Transaction> {
        let record: Bufctl = heap.memory.get(at)?;
        let depth = record.depth.min(heap.root.frames).min(FRAMES_MAX);
        let frames = at.checked_add(size_of::<Bufctl>() as u64)?;
        let stack = heap.memory.words(frames, depth as usize).unwrap_or_default();
        let cache = record.cache.addr() as u64;
        Some(Transaction {
            at,
            buffer: record.buffer.addr() as u64,
            cache: heap.caches.iter().position(|known| known.at == cache),
            time: record.time,
            thread: record.thread,
            allocated: record.allocated == 1,
            stack: stack.into_iter().take_while(|address| *address != 0).collect(),
            log: record.log.addr() as u64,
            before: record.before.addr() as u64,
            contents: record.contents.addr() as u64,
        })
    }
}

/// The available records of a log, newest first, at most `most`. `None`: no such log.
#[must_use]
pub fn log(heap: &Heap<'_>, which: usize, most: usize) -> Option<Vec<Transaction>> {
    let ring = heap.root.logs.get(which).filter(|ring| which != logs::CONTENTS && ring.bytes().is_some())?;
    let kept = ring.next.min(ring.entries).min(ENTRIES_MAX);
    let newest = (ring.next - kept..ring.next).rev();
    let record = |index: u64| Transaction::read(heap, ring.base + index % ring.entries * ring.stride);
    // An incomplete record has no time yet.
    Some(newest.filter_map(record).filter(|record| record.time != 0).take(most).collect())
}

/// The history of a buffer: its bufctl, and its earlier records in the log, newest first.
#[must_use]
pub fn of_bufctl(heap: &Heap<'_>, bufctl: u64) -> Vec<Transaction> {
    let Some(latest) = Transaction::read(heap, bufctl) else { return Vec::new() };
    let ring = heap.root.logs[logs::TRANSACTION];
    let mut seen = HashSet::new();
    let mut at = Transaction::read(heap, latest.log)
        .filter(|record| is_record(&ring, record.at) && same(record, &latest))
        .map_or(0, |record| record.before);
    let mut known = vec![latest];
    while at != 0 && is_record(&ring, at) && seen.insert(at) {
        // The ring may have wrapped around: a record of another buffer, or a later one, ends the history.
        let Some(record) = Transaction::read(heap, at) else { break };
        let later = &known[known.len() - 1];
        if record.buffer != later.buffer || record.time > later.time {
            break;
        }
        at = record.before;
        known.push(record);
    }
    known
}

fn same(record: &Transaction, latest: &Transaction) -> bool {
    (record.buffer, record.time) == (latest.buffer, latest.time)
}

/// Whether a record of the ring begins at an address.
fn is_record(ring: &Ring, at: u64) -> bool {
    let inside = ring.bytes().zip(at.checked_sub(ring.base)).filter(|(bytes, from)| from < bytes);
    inside.is_some_and(|(_, from)| from.is_multiple_of(ring.stride))
}
