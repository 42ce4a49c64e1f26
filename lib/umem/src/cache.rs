//! Caches, and the list of all caches.

use crate::memory::Memory;
use millpond_rt_layout::{self as layout, CHUNKS};

/// Maximum number of caches in a process.
const CACHES_MAX: usize = 1 << 16;

/// A cache of buffers of one size: a copy of the record of the layout.
pub struct Cache {
    /// Address of the record.
    pub at: u64,
    /// Name of the cache.
    pub name: String,
    record: layout::Cache,
}

impl std::ops::Deref for Cache {
    type Target = layout::Cache;

    fn deref(&self) -> &layout::Cache {
        &self.record
    }
}

impl Cache {
    /// Top magazines of the depot: the full and the empty pile of each share.
    pub(crate) fn piles(&self) -> impl Iterator<Item = u64> {
        let shares = self.record.depot.shares.iter();
        shares.flat_map(|share| [&share.full, &share.empty]).map(|pile| pile.top.addr() as u64)
    }

    /// Whether a thread holds a lock of its slabs or its depot.
    pub(crate) fn is_locked(&self) -> bool {
        self.record.slabs.lock != 0 || self.record.depot.shares.iter().any(|share| share.lock != 0)
    }

    /// The first invalid field.
    fn nonsense(&self) -> Option<&'static str> {
        let fits = |place: usize| place == 0 || (place <= self.chunk && place.is_multiple_of(8));
        let chunks = self.chunks as usize;
        if self.size == 0 || self.chunk < self.size || !(1..=CHUNKS).contains(&chunks) {
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

    /// Whether a check flag is set.
    #[must_use]
    pub fn checks(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The text up to the first zero; unprintable bytes become question marks.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    bytes
        .iter()
        .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' })
        .collect()
}

/// All caches in the order of their list. A broken list or invalid cache is added to `problems`.
pub(crate) fn all(memory: &Memory<'_>, first: u64, problems: &mut Vec<String>) -> Vec<Cache> {
    let mut caches = Vec::new();
    let whole = memory.list("caches", first, CACHES_MAX, |at| {
        let record: layout::Cache = memory.get(at)?;
        let next = record.next.addr() as u64;
        let cache = Cache { at, name: text(&record.name), record };
        match cache.nonsense() {
            Some(why) => problems.push(format!("cache {} at {at:x}: {why}", cache.name)),
            None => caches.push(cache),
        }
        Some(next)
    });
    problems.extend(whole.err());
    caches
}
