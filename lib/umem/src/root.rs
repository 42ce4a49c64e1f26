//! The root of a copy of the library: how it is found, and its contents.

use crate::memory::{Memory, half_at, word_at};
use millpond_machine::facets::Mapping;
use millpond_rt_layout::{self as layout, Log, MESSAGES, Region, state};
use std::mem::{offset_of, size_of};

/// Alignment of roots.
const ALIGN: usize = 64;
/// Bytes per read.
const PIECE: u64 = 256 << 10;

/// A copy of the root.
pub struct Root {
    /// Its address.
    pub at: u64,
    /// The four logs.
    pub logs: [Ring; 4],
    /// The latest messages, oldest first.
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
    /// Address of its records; 0: no such log.
    pub base: u64,
    /// Size of a record in bytes.
    pub stride: u64,
    /// Capacity in records.
    pub entries: u64,
    /// Total number of records.
    pub next: u64,
}

impl Ring {
    fn of(log: &Log) -> Ring {
        let [base, stride, entries, next] =
            [log.base.addr(), log.stride, log.entries, log.next].map(|n| n as u64);
        Ring { base, stride, entries, next }
    }

    /// Its size in bytes, if the log exists and is valid.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let bytes = self.stride.checked_mul(self.entries)?;
        (self.base != 0 && bytes != 0 && self.base.checked_add(bytes).is_some()).then_some(bytes)
    }
}

/// Addresses of roots of any version: [`layout::Root::magic`], followed by the root's own address.
pub(crate) fn places(memory: &Memory<'_>, mappings: &[Mapping]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut last_end = None;
    for mapping in mappings {
        // The part of a data segment beyond the end of the file (.bss) has no name, and begins where the named part ends.
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

/// Version of the layout and size of the root at an address.
pub(crate) fn version(memory: &Memory<'_>, at: u64) -> Option<(u32, u32)> {
    let head = memory.bytes(at, offset_of!(layout::Root, state))?;
    Some((half_at(&head, offset_of!(layout::Root, version)), half_at(&head, offset_of!(layout::Root, size))))
}

impl Root {
    /// State of initialisation, in libumem's words.
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

/// Maximum number of regions.
const REGIONS_MAX: usize = 1 << 22;

/// The library's own memory, in the order of its list, with the list's records. A broken list is added to `problems`.
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

/// The messages, oldest first. The ring has wrapped around if it got more bytes than its size.
fn messages(root: &layout::Root) -> Vec<u8> {
    let (new, old) = root.messages.split_at(root.message_end % MESSAGES);
    if root.message_end < MESSAGES { new.to_vec() } else { [old, new].concat() }
}
