//! Spans: runs of pages, found by the page map.

use crate::cache::Cache;
use crate::memory::Memory;
use millpond_rt_layout::{self as layout, CHUNKS, PAGE, TABLE, kind};
use std::collections::{HashMap, HashSet};

/// Use of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Free, or kept by a thread for its next request.
    Free,
    /// A slab; the index of its cache.
    Slab(usize),
    /// A large buffer; its size in bytes.
    Large(u64),
}

/// A run of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Address of its record.
    pub at: u64,
    /// Its first byte.
    pub base: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Its use.
    pub used: Use,
    /// Slab: chunks that are not free, by the record.
    pub taken: u32,
    /// Slab: address of its first buffer.
    pub first: u64,
    /// Slab: address of its bufctls; 0: none.
    pub bufctls: u64,
    free: [u64; CHUNKS / 64],
}

impl Span {
    /// The address after its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// Whether a chunk of a slab is free.
    #[must_use]
    pub fn is_free(&self, chunk: u32) -> bool {
        let chunk = chunk as usize;
        self.free.get(chunk / 64).is_some_and(|bits| bits >> (chunk % 64) & 1 == 1)
    }

    /// Address of a chunk's buffer.
    #[must_use]
    pub fn buffer(&self, cache: &Cache, chunk: u32) -> u64 {
        self.first + cache.chunk as u64 * u64::from(chunk)
    }

    /// Address of a chunk's bufctl, if it has one.
    #[must_use]
    pub fn bufctl(&self, cache: &Cache, chunk: u32) -> Option<u64> {
        let has = self.bufctls != 0 && cache.bufctl != 0;
        has.then(|| self.bufctls.wrapping_add(cache.bufctl as u64 * u64::from(chunk)))
    }

    /// The chunk that contains an address.
    #[must_use]
    pub fn chunk(&self, cache: &Cache, address: u64) -> Option<u32> {
        let chunk = address.checked_sub(self.first)?.checked_div(cache.chunk as u64)?;
        u32::try_from(chunk).ok().filter(|chunk| *chunk < cache.chunks)
    }
}

/// State of the traversal of the page map.
struct Walk<'a> {
    memory: &'a Memory<'a>,
    caches: &'a [Cache],
    by_address: HashMap<u64, usize>,
    tables: HashSet<u64>,
    /// For each span, the page after it; 0: it is free or invalid.
    behind: HashMap<u64, u64>,
    spans: Vec<Span>,
    problems: &'a mut Vec<String>,
}

/// All spans of a map, ascending.
pub(crate) fn all(memory: &Memory<'_>, map: u64, caches: &[Cache], problems: &mut Vec<String>) -> Vec<Span> {
    let by_address = caches.iter().enumerate().map(|(place, cache)| (cache.at, place)).collect();
    let (tables, behind) = (HashSet::new(), HashMap::new());
    let mut walk = Walk { memory, caches, by_address, tables, behind, spans: Vec::new(), problems };
    if map != 0 {
        walk.table(map, 0, 2);
    }
    let Walk { mut spans, problems, .. } = walk;
    spans.sort_by_key(|span| span.base);
    spans.dedup_by(|later, earlier| {
        let overlaps = later.base < earlier.end();
        if overlaps {
            problems.push(format!("spans {:x} and {:x} overlap", earlier.at, later.at));
        }
        overlaps
    });
    spans
}

impl Walk<'_> {
    /// Reads a table of the map, whose entries are tables, or spans on the lowest level. `page` is the first page that it maps.
    fn table(&mut self, at: u64, page: u64, level: u32) {
        if !self.tables.insert(at) {
            return self.problems.push(format!("the page map has the table {at:x} twice"));
        }
        let Some(table) = self.memory.words(at, TABLE) else {
            return self.problems.push(format!("the page map leads to {at:x}, which cannot be read"));
        };
        let pages = (TABLE as u64).pow(level);
        let mut skip_to = 0;
        for (index, entry) in table.into_iter().enumerate() {
            let page = page + index as u64 * pages;
            if entry == 0 || page < skip_to {
                continue;
            }
            if level > 0 {
                self.table(entry, page, level - 1);
            } else {
                skip_to = self.span(entry, page);
            }
        }
    }

    /// Reads the span of a page. Returns the next page to examine.
    fn span(&mut self, at: u64, page: u64) -> u64 {
        // The last page of a free span, or another table of a long one.
        if let Some(behind) = self.behind.get(&at) {
            return (page + 1).max(*behind);
        }
        let place = page * PAGE as u64;
        let mut behind = 0;
        match read(self.memory, at, &self.by_address, self.caches) {
            Ok(span) if (span.base..span.end()).contains(&place) => {
                behind = if span.used == Use::Free { 0 } else { span.end() / PAGE as u64 };
                self.spans.push(span);
            }
            Ok(span) => self
                .problems
                .push(format!("the page map has span {at:x} at {place:x}; it begins at {:x}", span.base)),
            Err(why) => self.problems.push(format!("span {at:x} of {place:x}: {why}")),
        }
        self.behind.insert(at, behind);
        (page + 1).max(behind)
    }
}

fn read(
    memory: &Memory<'_>,
    at: u64,
    by_address: &HashMap<u64, usize>,
    caches: &[Cache],
) -> Result<Span, String> {
    let record: layout::Span = memory.get(at).ok_or("it cannot be read")?;
    let [base, bytes, size] = [record.base.addr(), record.bytes, record.size].map(|n| n as u64);
    let pages = PAGE as u64;
    let is_sound = bytes > 0 && base.is_multiple_of(pages) && bytes.is_multiple_of(pages);
    if !is_sound || base.checked_add(bytes).is_none_or(|end| end > 1 << 48) {
        return Err(format!("{bytes:x} bytes at {base:x} are no pages"));
    }
    let first = u64::from(record.first);
    let used = match record.kind {
        kind::FREE | kind::KEPT => Use::Free,
        kind::LARGE if size <= bytes => Use::Large(size),
        kind::LARGE => return Err(format!("it has a buffer of {size:x} bytes and {bytes:x} itself")),
        kind::SLAB => {
            let owner = record.cache.addr() as u64;
            let place = *by_address.get(&owner).ok_or_else(|| format!("its cache {owner:x} is no cache"))?;
            let cache = &caches[place];
            if first + (cache.chunk as u64) * u64::from(cache.chunks) > bytes {
                return Err(format!("buffers of cache {} do not fit into it", cache.name));
            }
            Use::Slab(place)
        }
        other => return Err(format!("there is no kind {other} of span")),
    };
    let (taken, bufctls) = (record.taken, record.bufctls.addr() as u64);
    Ok(Span { at, base, bytes, used, taken, first: base + first, bufctls, free: record.free })
}
