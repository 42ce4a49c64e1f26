//! Caches: what stands in each, and the list of all.

use crate::memory::{Memory, Record};
use millpond_rt_layout::{self as layout, CHUNKS, Depot, NAME, Pile, SHARES, Share, Slabs};
use std::array;
use std::collections::HashSet;
use std::mem::{offset_of, size_of};

/// No process has more.
const CACHES_MAX: usize = 1 << 16;

/// Buffers of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Where it is.
    pub at: u64,
    /// What it is called.
    pub name: String,
    /// Of [`layout::flags`].
    pub flags: u32,
    /// As the creator gave them.
    pub cflags: u32,
    /// Chunks of a slab.
    pub chunks: u32,
    /// What a user has of a buffer, in bytes.
    pub size: u64,
    /// From one buffer to the next, in bytes.
    pub chunk: u64,
    /// Of a slab, in bytes.
    pub slab: u64,
    /// From a buffer to its tag, in bytes; 0: it has none.
    pub tag: u64,
    /// Bytes of a buffer that are compared with the patterns.
    pub verify: u64,
    /// From one bufctl to the next, in bytes; 0: there are none.
    pub bufctl: u64,
    /// Whether its buffers are objects that stay made while they are in magazines.
    pub constructs: bool,
    /// Allocations of threads that are gone, and those without a pair.
    pub allocs: u64,
    /// Allocations that failed.
    pub failures: u64,
    /// Slabs.
    pub slabs: u64,
    /// Chunks of all slabs.
    pub buffers: u64,
    /// Chunks that are not free in their slabs.
    pub taken: u64,
    /// Slabs that were made, and those given back.
    pub created: u64,
    /// Slabs that were given back.
    pub destroyed: u64,
    /// Its place among a thread's pairs.
    pub(crate) index: u32,
    /// Uppermost magazines of the depot: full and empty, by share.
    pub(crate) piles: [u64; 2 * SHARES],
    /// Whether a thread is at its slabs, or at its depot.
    pub(crate) locked: bool,
}

impl Cache {
    fn of(at: u64, record: &Record) -> Cache {
        let word = |place| record.word(place);
        let half = |place| record.half(place);
        let slabs = |place| record.word(offset_of!(layout::Cache, slabs) + place);
        let shares = offset_of!(layout::Cache, depot) + offset_of!(Depot, shares);
        let share = |at: usize| shares + at * size_of::<Share>();
        let name = offset_of!(layout::Cache, name);
        Cache {
            at,
            name: text(record.slice(name, name + NAME)),
            flags: half(offset_of!(layout::Cache, flags)),
            cflags: half(offset_of!(layout::Cache, cflags)),
            chunks: half(offset_of!(layout::Cache, chunks)),
            size: word(offset_of!(layout::Cache, size)),
            chunk: word(offset_of!(layout::Cache, chunk)),
            slab: word(offset_of!(layout::Cache, slab)),
            tag: word(offset_of!(layout::Cache, tag)),
            verify: word(offset_of!(layout::Cache, verify)),
            bufctl: word(offset_of!(layout::Cache, bufctl)),
            constructs: word(offset_of!(layout::Cache, constructor)) != 0,
            allocs: word(offset_of!(layout::Cache, allocs)),
            failures: word(offset_of!(layout::Cache, failures)),
            slabs: slabs(offset_of!(Slabs, count)),
            buffers: slabs(offset_of!(Slabs, buffers)),
            taken: slabs(offset_of!(Slabs, taken)),
            created: slabs(offset_of!(Slabs, created)),
            destroyed: slabs(offset_of!(Slabs, destroyed)),
            index: half(offset_of!(layout::Cache, index)),
            piles: array::from_fn(|at| {
                let which = if at % 2 == 0 { offset_of!(Share, full) } else { offset_of!(Share, empty) };
                record.word(share(at / 2) + which + offset_of!(Pile, top))
            }),
            locked: half(offset_of!(layout::Cache, slabs) + offset_of!(Slabs, lock)) != 0
                || (0..SHARES).any(|at| half(share(at) + offset_of!(Share, lock)) != 0),
        }
    }

    /// The first of its figures that is invalid.
    fn nonsense(&self) -> Option<&'static str> {
        let fits = |place: u64| place == 0 || (place <= self.chunk && place.is_multiple_of(8));
        let chunks = u64::from(self.chunks);
        if self.size == 0 || self.chunk < self.size || !(1..=CHUNKS as u64).contains(&chunks) {
            return Some("the size of its buffers is invalid");
        }
        if self.chunk.checked_mul(chunks).is_none_or(|bytes| bytes > self.slab) || self.slab >= 1 << 47 {
            return Some("its buffers do not fit into its slabs");
        }
        if !fits(self.tag)
            || (self.tag > 0 && self.tag < self.size)
            || self.verify > self.chunk
            || self.bufctl > 1 << 20
        {
            return Some("the place of its tags is invalid");
        }
        None
    }

    /// Whether it checks that.
    #[must_use]
    pub fn checks(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// A name: up to the first zero, with marks for what cannot be shown.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    bytes
        .iter()
        .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' })
        .collect()
}

/// All caches in the order of their list. What breaks the list, or a cache, is added to `problems`.
pub(crate) fn all(memory: &Memory<'_>, first: u64, problems: &mut Vec<String>) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    let mut seen = HashSet::new();
    let mut at = first;
    while at != 0 {
        if !seen.insert(at) || seen.len() > CACHES_MAX {
            problems.push(format!("the list of caches has no end: {at:x} comes again"));
            break;
        }
        let Some(record) = memory.record(at, size_of::<layout::Cache>()) else {
            problems.push(format!("the list of caches leads to {at:x}, which cannot be read"));
            break;
        };
        let cache = Cache::of(at, &record);
        at = record.word(offset_of!(layout::Cache, next));
        match cache.nonsense() {
            Some(why) => problems.push(format!("cache {} at {:x}: {why}", cache.name, cache.at)),
            None => caches.push(cache),
        }
    }
    caches
}
