//! Data that is read while the process is stopped: words that may be addresses of buffers, inside and outside of buffers.

use super::Effort;
use super::words::Words;
use crate::heap::{FindError, Heap, together, without};
use crate::memory::Memory;
use crate::span::Use;
use fixedbitset::FixedBitSet;
use millpond_machine::facets::{Mapping, StoppedThread};
use millpond_model::Nanos;
use millpond_rt_layout::PAGE;

/// Bytes per read: these fit into a CPU's cache.
const PIECE: u64 = 256 << 10;
/// Maximum pages of a heap for which a bitmap is used.
const MAP_MAX: usize = 1 << 28;

pub(super) struct Gathered<'a> {
    pub(super) heap: Heap<'a>,
    /// Words outside of the caches' memory.
    pub(super) roots: Vec<u64>,
    /// Words in the caches' memory.
    pub(super) words: Words,
    pub(super) effort: Effort,
    /// Time of the stop.
    pub(super) stopped: Option<Nanos>,
}

struct Filter {
    low: u64,
    high: u64,
    /// A bit for each page from `low` on. `None`: every page passes.
    pages: Option<FixedBitSet>,
}

impl Filter {
    fn of(heap: &Heap<'_>) -> Filter {
        let used = || heap.spans.iter().filter(|span| span.used != Use::Free);
        let low = used().map(|span| span.base).min().unwrap_or(0);
        let high = used().map(crate::Span::end).max().unwrap_or(0);
        let page = |address: u64| usize::try_from((address - low) / PAGE as u64).unwrap_or(usize::MAX);
        let pages = (page(high) <= MAP_MAX).then(|| {
            let mut pages = FixedBitSet::with_capacity(page(high));
            used().for_each(|span| pages.insert_range(page(span.base)..page(span.end())));
            pages
        });
        Filter { low, high, pages }
    }

    fn passes(&self, word: u64) -> bool {
        if word < self.low || word >= self.high {
            return false;
        }
        let page = usize::try_from((word - self.low) / PAGE as u64);
        self.pages.as_ref().is_none_or(|pages| page.is_ok_and(|page| pages.contains(page)))
    }
}

pub(super) fn gather<'a>(memory: &'a Memory<'a>, root: u64) -> Result<Gathered<'a>, FindError> {
    let image = memory.image();
    let heap = Heap::stopped(memory, root)?;
    let stopped = image.now();
    let mappings = image.mappings()?;
    let threads = image.threads();
    let filter = Filter::of(&heap);
    let spans = together(heap.spans.iter().map(|span| (span.base, span.end())).collect());
    let excluded = together(spans.iter().copied().chain(heap.own_places()).collect());
    let mut effort = Effort { threads: threads.len() as u64, ..Effort::default() };
    let mut reader = Reader { memory, filter, buffer: vec![0; usize::try_from(PIECE).unwrap_or(0)] };
    let mut roots: Vec<u64> = threads
        .iter()
        .flat_map(|thread| &thread.words)
        .copied()
        .filter(|word| reader.filter.passes(*word))
        .collect();
    for (place, mapping) in mappings.iter().enumerate().filter(|(_, m)| m.readable && m.writable) {
        let begin = stack_in_use(place, &mappings, &threads).unwrap_or(mapping.begin);
        for part in without((begin, mapping.end), &excluded) {
            effort.root_bytes += reader.read(part, |_, word| {
                // A repeated pointer adds nothing.
                if roots.last() != Some(&word) {
                    roots.push(word);
                }
            });
        }
    }
    let used = heap.spans.iter().filter(|span| span.used != Use::Free);
    let used = together(used.map(|span| (span.base, span.end())).collect());
    let mut words = Words::default();
    for range in used {
        effort.heap_bytes += reader.read(range, |place, word| words.push(place, word));
    }
    Ok(Gathered { heap, roots, words, effort, stopped })
}

struct Reader<'a> {
    memory: &'a Memory<'a>,
    filter: Filter,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    /// Passes every word of a range that the filter accepts to `give`. Returns the number of bytes read.
    fn read(&mut self, (begin, end): (u64, u64), mut give: impl FnMut(u64, u64)) -> u64 {
        let mut bytes_read = 0;
        for (begin, end) in self.memory.image().written(begin, end) {
            let mut at = begin.next_multiple_of(8);
            while at < end {
                let wanted = usize::try_from((end - at).min(PIECE)).unwrap_or(0);
                let read = self.memory.image().read(at, &mut self.buffer[..wanted]);
                for (place, bytes) in (at..).step_by(8).zip(self.buffer[..read].chunks_exact(8)) {
                    let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                    if self.filter.passes(word) {
                        give(place, word);
                    }
                }
                bytes_read += read as u64;
                // After an unreadable page, continue with the next one.
                at += if read == wanted {
                    wanted as u64
                } else {
                    (read as u64 / PAGE as u64 + 1) * PAGE as u64
                };
            }
        }
        bytes_read
    }
}

/// Beginning of the part of a mapping that a thread's stack uses. `None`: it is uncertain whether the mapping is a stack and nothing else.
///
/// The main thread's stack has a name. Another mapping is a stack if exactly one thread's stack pointer is in it, the thread's own data is above the
/// stack pointer in the same mapping (the layout of the C library), and no readable mapping ends where it begins.
fn stack_in_use(place: usize, mappings: &[Mapping], threads: &[StoppedThread]) -> Option<u64> {
    let mapping = &mappings[place];
    let mut inside = threads.iter().filter(|thread| mapping.contains(thread.stack_pointer));
    let (thread, others) = (inside.next()?, inside.next());
    if others.is_some() {
        return None;
    }
    let pointer = thread.stack_pointer;
    let is_known = mapping.file == "[stack]" || {
        let above = thread.thread_pointer.is_some_and(|own| own > pointer && mapping.contains(own));
        let below = place.checked_sub(1).and_then(|below| mappings.get(below));
        above
            && mapping.file.is_empty()
            && !below.is_some_and(|below| below.end == mapping.begin && below.readable)
    };
    is_known.then(|| (pointer.saturating_sub(StoppedThread::RED_ZONE) & !7).max(mapping.begin))
}
