//! The root of a copy of the library: where it is, and what stands in it.

use crate::memory::{Memory, Record};
use millpond_machine::facets::Mapping;
use millpond_rt_layout::{self as layout, Heap, Log, MESSAGES, Region};
use std::collections::HashSet;
use std::mem::{offset_of, size_of};

/// Roots begin at multiples of this.
const ALIGN: usize = 64;
/// How much is looked through at once.
const PIECE: u64 = 256 << 10;

/// The root of everything, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Where it is.
    pub at: u64,
    /// Of [`layout::state`].
    pub state: u32,
    /// Of [`layout::flags`].
    pub flags: u32,
    /// Return addresses that a bufctl has room for.
    pub frames: u32,
    /// Processors, as it was told or found.
    pub concurrency: u32,
    /// The four logs.
    pub logs: [Ring; 4],
    /// Mapped for spans, in bytes.
    pub mapped: u64,
    /// In slabs and large buffers, in bytes.
    pub used: u64,
    /// In large buffers, in bytes.
    pub large: u64,
    /// Large buffers.
    pub large_buffers: u64,
    /// Large buffers that were ever given.
    pub large_allocs: u64,
    /// Times that there was no memory.
    pub failures: u64,
    /// The library's own, in bytes.
    pub meta: u64,
    /// What was said last, oldest first.
    pub messages: Vec<u8>,
    pub(crate) caches: u64,
    pub(crate) threads: u64,
    pub(crate) map: u64,
    regions: u64,
}

/// A log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ring {
    /// Where its records stand; 0: there is no such log.
    pub base: u64,
    /// From one record to the next, in bytes.
    pub stride: u64,
    /// Records of the ring.
    pub entries: u64,
    /// Records ever begun.
    pub next: u64,
}

impl Ring {
    fn of(record: &Record, at: usize) -> Ring {
        Ring {
            base: record.word(at + offset_of!(Log, base)),
            stride: record.word(at + offset_of!(Log, stride)),
            entries: record.word(at + offset_of!(Log, entries)),
            next: record.word(at + offset_of!(Log, next)),
        }
    }

    /// Its length in bytes, if there is such a log and its figures make sense.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let bytes = self.stride.checked_mul(self.entries)?;
        (self.base != 0 && bytes != 0 && self.base.checked_add(bytes).is_some()).then_some(bytes)
    }
}

/// Where roots are, whatever their version: [`layout::Root::magic`] and its own address behind it.
pub(crate) fn places(memory: &Memory<'_>, mappings: &[Mapping]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut last_end = None;
    for mapping in mappings {
        // What a file's data have behind the end of the file has no name, and begins where these end.
        let of_file =
            mapping.file.contains('/') || (mapping.file.is_empty() && last_end == Some(mapping.begin));
        if !(of_file && mapping.readable && !mapping.shared) {
            continue;
        }
        last_end = Some(mapping.end);
        if mapping.writable {
            for (begin, end) in memory.image().written(mapping.begin, mapping.end) {
                look_through(memory, begin.next_multiple_of(ALIGN as u64), end, &mut found);
            }
        }
    }
    found
}

fn look_through(memory: &Memory<'_>, begin: u64, end: u64, found: &mut Vec<u64>) {
    let head = [layout::Root::MAGIC[0], layout::Root::MAGIC[1]];
    let mut buffer = vec![0; usize::try_from(PIECE).unwrap_or(0)];
    let mut at = begin;
    while at < end {
        let wanted = usize::try_from((end - at).min(PIECE)).unwrap_or(0);
        let read = memory.image().read(at, &mut buffer[..wanted]);
        for (place, bytes) in (at..).step_by(ALIGN).zip(buffer[..read].chunks_exact(ALIGN)) {
            let record = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
            if [record(0), record(8)] == head && record(offset_of!(layout::Root, this)) == place {
                found.push(place);
            }
        }
        at += PIECE;
    }
}

/// The version of the layout there, and how long a root is.
pub(crate) fn version(memory: &Memory<'_>, at: u64) -> Option<(u32, u32)> {
    let record = memory.record(at, offset_of!(layout::Root, state))?;
    Some((record.half(offset_of!(layout::Root, version)), record.half(offset_of!(layout::Root, size))))
}

impl Root {
    /// Reads it.
    pub(crate) fn read(memory: &Memory<'_>, at: u64) -> Option<Root> {
        let record = memory.record(at, size_of::<layout::Root>())?;
        let half = |place| record.half(place);
        let word = |place| record.word(place);
        let heap = |place| record.word(offset_of!(layout::Root, heap) + place);
        let log = |index: usize| Ring::of(&record, offset_of!(layout::Root, logs) + index * size_of::<Log>());
        Some(Root {
            at,
            state: half(offset_of!(layout::Root, state)),
            flags: half(offset_of!(layout::Root, flags)),
            frames: half(offset_of!(layout::Root, frames)),
            concurrency: half(offset_of!(layout::Root, concurrency)),
            logs: std::array::from_fn(log),
            mapped: heap(offset_of!(Heap, mapped)),
            used: heap(offset_of!(Heap, used)),
            large: heap(offset_of!(Heap, large)),
            large_buffers: heap(offset_of!(Heap, large_buffers)),
            large_allocs: heap(offset_of!(Heap, large_allocs)),
            failures: heap(offset_of!(Heap, failures)),
            meta: heap(offset_of!(Heap, meta)),
            messages: messages(&record),
            caches: word(offset_of!(layout::Root, caches)),
            threads: word(offset_of!(layout::Root, threads)),
            map: word(offset_of!(layout::Root, map)),
            regions: word(offset_of!(layout::Root, regions)),
        })
    }
}

/// Regions that there can be.
const REGIONS_MAX: usize = 1 << 22;

/// What the library mapped for itself, in the order of its list, with the records of that. What breaks the list is added to `problems`.
pub(crate) fn regions(memory: &Memory<'_>, root: &Root, problems: &mut Vec<String>) -> Vec<(u64, u64)> {
    let mut regions = Vec::new();
    let mut seen = HashSet::new();
    let mut at = root.regions;
    while at != 0 {
        if !seen.insert(at) || seen.len() > REGIONS_MAX {
            problems.push(format!("the list of regions has no end: {at:x} comes again"));
            break;
        }
        let Some(record) = memory.record(at, size_of::<Region>()) else {
            problems.push(format!("the list of regions leads to {at:x}, which cannot be read"));
            break;
        };
        let (base, bytes) = (record.word(offset_of!(Region, base)), record.word(offset_of!(Region, bytes)));
        regions.push((base, base.saturating_add(bytes)));
        regions.push((at, at.saturating_add(size_of::<Region>() as u64)));
        at = record.word(offset_of!(Region, next));
    }
    regions
}

/// What was said, oldest first: the ring is full once more was said than it holds.
fn messages(record: &Record) -> Vec<u8> {
    let from = offset_of!(layout::Root, messages);
    let ring = record.slice(from, from + MESSAGES);
    let end = record.word(offset_of!(layout::Root, message_end));
    let place = usize::try_from(end % MESSAGES as u64).unwrap_or(0);
    if end < MESSAGES as u64 {
        ring.get(..place).unwrap_or_default().to_vec()
    } else {
        ring.get(place..).into_iter().chain(ring.get(..place)).flatten().copied().collect()
    }
}
