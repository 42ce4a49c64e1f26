//! The root of a copy of the library: where it is, and what stands in it.

use crate::memory::{Memory, half_at, word_at};
use millpond_machine::facets::Mapping;
use millpond_rt_layout::{self as layout, Log, MESSAGES, Region, state};
use std::mem::{offset_of, size_of};

/// Roots begin at multiples of this.
const ALIGN: usize = 64;
/// How much is looked through at once.
const PIECE: u64 = 256 << 10;

/// The root of everything, as it was when it was read.
pub struct Root {
    /// Where it is.
    pub at: u64,
    /// The four logs.
    pub logs: [Ring; 4],
    /// What was said last, oldest first.
    pub messages: Vec<u8>,
    record: Box<layout::Root>,
}

impl std::ops::Deref for Root {
    type Target = layout::Root;

    fn deref(&self) -> &layout::Root {
        &self.record
    }
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
    fn of(log: &Log) -> Ring {
        let [base, stride, entries, next] =
            [log.base.addr(), log.stride, log.entries, log.next].map(|n| n as u64);
        Ring { base, stride, entries, next }
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
    let mut buffer = vec![0; usize::try_from(PIECE).unwrap_or(0)];
    let mut at = begin;
    while at < end {
        let wanted = usize::try_from((end - at).min(PIECE)).unwrap_or(0);
        let read = memory.image().read(at, &mut buffer[..wanted]);
        for (place, bytes) in (at..).step_by(ALIGN).zip(buffer[..read].chunks_exact(ALIGN)) {
            let word = |at| word_at(bytes, at);
            if [word(0), word(8)] == layout::Root::MAGIC && word(offset_of!(layout::Root, this)) == place {
                found.push(place);
            }
        }
        at += PIECE;
    }
}

/// The version of the layout there, and how long a root is.
pub(crate) fn version(memory: &Memory<'_>, at: u64) -> Option<(u32, u32)> {
    let head = memory.bytes(at, offset_of!(layout::Root, state))?;
    Some((half_at(&head, offset_of!(layout::Root, version)), half_at(&head, offset_of!(layout::Root, size))))
}

impl Root {
    /// How far initialisation is, in libumem's words.
    #[must_use]
    pub fn status(&self) -> String {
        match self.state {
            state::READY => "ready and active".into(),
            state::FAILED => "initialization failed".into(),
            state::UNINITIALISED => "uninitialized".into(),
            state::IN_PROCESS => "initialization in process".into(),
            other => format!("unknown ({other})"),
        }
    }

    pub(crate) fn read(memory: &Memory<'_>, at: u64) -> Option<Root> {
        let record: Box<layout::Root> = Box::new(memory.get(at)?);
        Some(Root { at, logs: record.logs.each_ref().map(Ring::of), messages: messages(&record), record })
    }
}

/// Regions that there can be.
const REGIONS_MAX: usize = 1 << 22;

/// What the library mapped for itself, in the order of its list, with the records of that. What breaks the list is added to `problems`.
pub(crate) fn regions(memory: &Memory<'_>, root: &Root, problems: &mut Vec<String>) -> Vec<(u64, u64)> {
    let mut regions = Vec::new();
    let whole = memory.list("regions", root.regions.addr() as u64, REGIONS_MAX, |at| {
        let record: Region = memory.get(at)?;
        let base = record.base.addr() as u64;
        regions.push((base, base.saturating_add(record.bytes as u64)));
        regions.push((at, at.saturating_add(size_of::<Region>() as u64)));
        Some(record.next.addr() as u64)
    });
    problems.extend(whole.err());
    regions
}

/// What was said, oldest first: the ring is full once more was said than it holds.
fn messages(root: &layout::Root) -> Vec<u8> {
    let (new, old) = root.messages.split_at(root.message_end % MESSAGES);
    if root.message_end < MESSAGES { new.to_vec() } else { [old, new].concat() }
}
