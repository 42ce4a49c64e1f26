//! Reachability: a bit for each chunk of every span, and a traversal from word to word.

use super::words::Words;
use crate::heap::{Heap, State};
use crate::span::Use;
use fixedbitset::FixedBitSet;
use millpond_rt_layout::flags;

/// An unreachable buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostBuffer {
    /// Index of its cache; `None`: a large buffer.
    pub(super) cache: Option<usize>,
    pub(super) buffer: u64,
    pub(super) bytes: u64,
    /// Its bufctl, if it is audited.
    pub(super) bufctl: Option<u64>,
}

/// A span with buffers.
struct Place {
    begin: u64,
    end: u64,
    /// Address of its first buffer, and the distance to the next.
    first: u64,
    chunk: u64,
    chunks: u64,
    /// Index of its first buffer among all buffers.
    number: usize,
    /// Index of the span in the heap.
    span: usize,
}

impl Place {
    fn number_of(&self, address: u64) -> Option<usize> {
        let chunk = address.checked_sub(self.first)? / self.chunk;
        (chunk < self.chunks).then(|| usize::try_from(chunk).ok()).flatten().map(|chunk| self.number + chunk)
    }

    fn range_of(&self, number: usize) -> (u64, u64) {
        let begin = self.first + (number - self.number) as u64 * self.chunk;
        (begin, (begin + self.chunk).min(self.end))
    }
}

pub(super) struct Marks<'a> {
    heap: &'a Heap<'a>,
    places: Vec<Place>,
    allocated: FixedBitSet,
    count: u64,
    reached: FixedBitSet,
    /// Reached buffers whose contents were not followed yet.
    waiting: Vec<usize>,
}

impl<'a> Marks<'a> {
    /// Marks no buffer as reached, except free objects that stay constructed.
    pub(super) fn of(heap: &'a Heap<'a>) -> Marks<'a> {
        let mut places = Vec::new();
        let mut number = 0;
        for (place, span) in heap.spans.iter().enumerate() {
            let (begin, end) = (span.base, span.end());
            let (first, chunk, chunks) = match span.used {
                Use::Free => continue,
                Use::Large(_) => (begin, span.bytes, 1),
                Use::Slab(cache) => {
                    (span.first, heap.caches[cache].chunk as u64, u64::from(heap.caches[cache].chunks))
                }
            };
            places.push(Place { begin, end, first, chunk, chunks, number, span: place });
            number += usize::try_from(chunks).unwrap_or(0);
        }
        let mut marks = Marks {
            heap,
            places,
            allocated: FixedBitSet::with_capacity(number),
            count: 0,
            reached: FixedBitSet::with_capacity(number),
            waiting: Vec::new(),
        };
        marks.look();
        marks
    }

    fn look(&mut self) {
        for place in &self.places {
            let span = &self.heap.spans[place.span];
            for chunk in 0..u32::try_from(place.chunks).unwrap_or(0) {
                let number = place.number + chunk as usize;
                let cache = self.heap.cache_of(span);
                match cache.map_or(State::Allocated, |cache| self.heap.state(span, cache, chunk)) {
                    State::Allocated => {
                        self.allocated.insert(number);
                        self.count += 1;
                    }
                    State::InMagazine if cache.is_some_and(|cache| cache.constructor.is_some()) => {
                        self.reached.insert(number);
                        self.waiting.push(number);
                    }
                    State::InMagazine | State::Free => {}
                }
            }
        }
    }

    pub(super) fn allocated(&self) -> u64 {
        self.count
    }

    fn place(&self, address: u64) -> Option<&Place> {
        let after = self.places.partition_point(|place| place.begin <= address);
        self.places.get(after.checked_sub(1)?).filter(|place| address < place.end)
    }

    fn reach(&mut self, address: u64) {
        let number = self.place(address).and_then(|place| place.number_of(address));
        if let Some(number) = number.filter(|number| self.allocated.contains(*number))
            && !self.reached.put(number)
        {
            self.waiting.push(number);
        }
    }

    /// Follows the words from outside, then those in reached buffers.
    pub(super) fn follow(&mut self, roots: &[u64], words: &Words) {
        roots.iter().for_each(|word| self.reach(*word));
        while let Some(number) = self.waiting.pop() {
            let after = self.places.partition_point(|place| place.number <= number);
            let Some(place) = after.checked_sub(1).and_then(|at| self.places.get(at)) else { continue };
            let (begin, end) = place.range_of(number);
            for word in words.within(begin, end) {
                self.reach(word);
            }
        }
    }

    /// Allocated buffers that were not reached, ascending.
    pub(super) fn lost(&self) -> impl Iterator<Item = LostBuffer> + '_ {
        self.places.iter().flat_map(move |place| {
            let span = &self.heap.spans[place.span];
            let chunks = 0..u32::try_from(place.chunks).unwrap_or(0);
            let lost = move |chunk: &u32| {
                let number = place.number + *chunk as usize;
                self.allocated.contains(number) && !self.reached.contains(number)
            };
            chunks.filter(lost).map(move |chunk| match (span.used, self.heap.cache_of(span)) {
                (Use::Slab(place), Some(cache)) => LostBuffer {
                    cache: Some(place),
                    buffer: span.buffer(cache, chunk),
                    bytes: cache.size as u64,
                    bufctl: span.bufctl(cache, chunk).filter(|_| cache.checks(flags::AUDIT)),
                },
                (used, _) => {
                    let bytes = if let Use::Large(size) = used { size } else { span.bytes };
                    LostBuffer { cache: None, buffer: span.base, bytes, bufctl: None }
                }
            })
        })
    }
}
