//! Identifies the use of an address.

use crate::heap::{Heap, State};
use crate::root::Root;
use crate::span::Use;
use millpond_machine::facets::{Mapping, Symbol};
use millpond_rt_layout as layout;
use std::mem::size_of;

/// The use of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    /// In a buffer of a cache.
    Buffer {
        /// Address of the buffer.
        buffer: u64,
        /// Index of its cache.
        cache: usize,
        /// Its state.
        state: State,
        /// Its bufctl, if it has one.
        bufctl: Option<u64>,
    },
    /// In a large buffer: its address and size in bytes.
    Large(u64, u64),
    /// In free pages.
    FreePages(u64),
    /// In a slab, but in none of its buffers.
    SlabEdge(u64, usize),
    /// In the bufctl of a buffer.
    Bufctl {
        /// Address of the bufctl.
        bufctl: u64,
        /// Address of the buffer.
        buffer: u64,
        /// Index of the cache.
        cache: usize,
    },
    /// In the record of a cache.
    Cache(usize),
    /// In the record of a span.
    Span(u64),
    /// In a log, by its index.
    Log(usize),
    /// In the root.
    Root,
    /// In other memory of the library's own.
    Own,
    /// In code or data of a file, or in another mapping.
    Mapped(Mapping, Option<Symbol>),
    /// Unmapped.
    Nothing,
}

impl Heap<'_> {
    /// Identifies the use of an address. Requires a [survey](Heap::survey).
    #[must_use]
    pub fn whatis(&self, address: u64, mappings: &[Mapping]) -> Thing {
        self.in_span(address).or_else(|| self.in_own(address)).unwrap_or_else(|| {
            let mapping = mappings.iter().find(|mapping| mapping.contains(address));
            mapping.map_or(Thing::Nothing, |mapping| {
                Thing::Mapped(mapping.clone(), self.memory.image().symbol(address))
            })
        })
    }

    fn in_span(&self, address: u64) -> Option<Thing> {
        let span = self.span(address)?;
        Some(match span.used {
            Use::Free => Thing::FreePages(span.base),
            Use::Large(size) => Thing::Large(span.base, size),
            Use::Slab(place) => {
                let cache = &self.caches[place];
                match span.chunk(cache, address) {
                    None => Thing::SlabEdge(span.base, place),
                    Some(chunk) => Thing::Buffer {
                        buffer: span.buffer(cache, chunk),
                        cache: place,
                        state: self.state(span, cache, chunk),
                        bufctl: span.bufctl(cache, chunk),
                    },
                }
            }
        })
    }

    fn in_own(&self, address: u64) -> Option<Thing> {
        let is_in = |at: u64, bytes: u64| at != 0 && address.checked_sub(at).is_some_and(|from| from < bytes);
        if is_in(self.root.at, size_of::<layout::Root>() as u64) {
            return Some(Thing::Root);
        }
        let log = |root: &Root| root.logs.iter().position(|ring| is_in(ring.base, ring.bytes().unwrap_or(0)));
        if let Some(log) = log(&self.root) {
            return Some(Thing::Log(log));
        }
        if let Some(place) =
            self.caches.iter().position(|cache| is_in(cache.at, size_of::<layout::Cache>() as u64))
        {
            return Some(Thing::Cache(place));
        }
        for span in &self.spans {
            if is_in(span.at, size_of::<layout::Span>() as u64) {
                return Some(Thing::Span(span.base));
            }
            let Use::Slab(place) = span.used else { continue };
            let cache = &self.caches[place];
            if is_in(span.bufctls, cache.bufctl as u64 * u64::from(cache.chunks)) {
                let chunk = u32::try_from((address - span.bufctls) / cache.bufctl as u64).ok()?;
                let buffer = span.buffer(cache, chunk);
                return Some(Thing::Bufctl { bufctl: span.bufctl(cache, chunk)?, buffer, cache: place });
            }
        }
        let own = self.own_places();
        own.iter().any(|(begin, end)| (*begin..*end).contains(&address)).then_some(Thing::Own)
    }
}
