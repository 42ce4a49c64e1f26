//! Allocation and free records: bufctls, and the logs that keep copies of them.

use crate::heap::Heap;
use crate::root::Ring;
use millpond_rt_layout::{Bufctl, logs};
use std::collections::HashSet;

/// Return addresses that are believed.
const FRAMES_MAX: u32 = 256;
/// Records of a log that are believed.
const ENTRIES_MAX: u64 = 1 << 24;

/// Logs by name, in the order of the root. That of contents has bytes of buffers and no transactions.
pub const LOGS: [&str; 4] = ["transaction", "contents", "fail", "slab"];

/// One time that a buffer was allocated or freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Where this is written.
    pub at: u64,
    /// The buffer.
    pub buffer: u64,
    /// Its cache, by its place among the caches.
    pub cache: Option<usize>,
    /// When: nanoseconds of the monotonic clock.
    pub time: u64,
    /// The kernel's number of the thread.
    pub thread: u32,
    /// Whether it was allocated.
    pub allocated: bool,
    /// Return addresses, innermost first.
    pub stack: Vec<u64>,
    /// Its record in the log; 0: none.
    pub log: u64,
    /// What the log had of the buffer before; 0: nothing.
    pub before: u64,
    /// What was in the buffer, in the log of contents; 0: not kept.
    pub contents: u64,
}

impl Transaction {
    /// Reads one, with as many return addresses as it has room for.
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

/// The records of a log that can be had, newest first, at most so many. None: there is no such log.
#[must_use]
pub fn log(heap: &Heap<'_>, which: usize, most: usize) -> Option<Vec<Transaction>> {
    let ring = heap.root.logs.get(which).filter(|ring| which != logs::CONTENTS && ring.bytes().is_some())?;
    let kept = ring.next.min(ring.entries).min(ENTRIES_MAX);
    let newest = (ring.next - kept..ring.next).rev();
    let record = |index: u64| Transaction::read(heap, ring.base + index % ring.entries * ring.stride);
    // One that was begun and not ended has no time yet.
    Some(newest.filter_map(record).filter(|record| record.time != 0).take(most).collect())
}

/// What is known of a buffer: what its bufctl says, and what the log has of it before, newest first.
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
        // The ring may have come around since: another buffer's record, or one that is later, ends the history.
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

/// Whether a record of the ring begins there.
fn is_record(ring: &Ring, at: u64) -> bool {
    let inside = ring.bytes().zip(at.checked_sub(ring.base)).filter(|(bytes, from)| from < bytes);
    inside.is_some_and(|(_, from)| from.is_multiple_of(ring.stride))
}
