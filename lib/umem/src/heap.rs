//! The heap of one copy of the library: everything that is reachable from its root.

use crate::cache::{self, Cache};
use crate::magazines::Magazines;
use crate::memory::Memory;
use crate::root::{self, Root};
use crate::span::{self, Span, Use};
use millpond_machine::Refusal;
use millpond_rt_layout as layout;
use std::collections::BTreeMap;
use std::mem::size_of;

/// Maximum number of stops until no thread is moving buffers.
const ATTEMPTS: usize = 50;

/// Why no heap was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The memory contains no root.
    #[error("it has no object caches of ours")]
    NoCaches,
    /// The library has another version of the layout.
    #[error(
        "its object caches are laid out as version {theirs} has it, and this program knows version {ours}"
    )]
    OtherLayout {
        /// The version of the library.
        theirs: u32,
        /// The version of this program.
        ours: u32,
    },
    /// The root cannot be read any more.
    #[error("the root of its object caches cannot be read")]
    Unreadable,
    /// The memory cannot be read.
    #[error("{}", .0.reason)]
    Refused(Refusal),
}

impl From<Refusal> for FindError {
    fn from(refusal: Refusal) -> Self {
        FindError::Refused(refusal)
    }
}

/// State of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Allocated.
    Allocated,
    /// Free in its slab.
    Free,
    /// Free in a magazine.
    InMagazine,
}

/// Statistics of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    /// Bytes in slabs and large buffers.
    pub used: usize,
    /// Bytes in large buffers.
    pub large: usize,
    /// Number of large buffers.
    pub large_buffers: u64,
    /// Total allocations of large buffers.
    pub large_allocs: u64,
}

/// A copy of the data of one copy of the library.
pub struct Heap<'a> {
    pub(crate) memory: &'a Memory<'a>,
    /// The root.
    pub root: Root,
    /// All valid caches, in the order of their list.
    pub caches: Vec<Cache>,
    /// All spans, ascending by address. Empty before [`Heap::survey`].
    pub spans: Vec<Span>,
    /// Reports of invalid data, in sentences.
    pub problems: Vec<String>,
    pub(crate) magazines: Magazines,
    /// The library's own memory.
    regions: Vec<(u64, u64)>,
}

impl<'a> Heap<'a> {
    /// Finds every copy of the library, and reads its caches and magazines.
    ///
    /// # Errors
    /// [`FindError`] if no copy can be read.
    pub fn find(memory: &'a Memory<'a>) -> Result<Vec<Heap<'a>>, FindError> {
        let mappings = memory.image().mappings()?;
        let places = root::places(memory, &mappings);
        let heaps: Vec<_> = places.iter().map(|at| Heap::at(memory, *at)).collect();
        if heaps.is_empty() {
            return Err(FindError::NoCaches);
        }
        if heaps.iter().all(Result::is_err) {
            return heaps.into_iter().collect();
        }
        Ok(heaps.into_iter().flatten().collect())
    }

    /// Reads the heap with the root at an address.
    ///
    /// # Errors
    /// [`FindError`] if it cannot be read.
    pub fn at(memory: &'a Memory<'a>, at: u64) -> Result<Heap<'a>, FindError> {
        let (version, size) = root::version(memory, at).ok_or(FindError::Unreadable)?;
        if version != layout::Root::VERSION || size as usize != size_of::<layout::Root>() {
            return Err(FindError::OtherLayout { theirs: version, ours: layout::Root::VERSION });
        }
        let root = Root::read(memory, at).ok_or(FindError::Unreadable)?;
        let mut problems = Vec::new();
        let caches = cache::all(memory, root.caches.addr() as u64, &mut problems);
        let magazines = Magazines::read(memory, root.threads.addr() as u64, &caches, &mut problems);
        let regions = root::regions(memory, &root, &mut problems);
        Ok(Heap { memory, root, caches, spans: Vec::new(), problems, magazines, regions })
    }

    /// Reads all spans.
    pub fn survey(&mut self) {
        self.spans = span::all(self.memory, self.root.map.addr() as u64, &self.caches, &mut self.problems);
    }

    /// The span of an address.
    #[must_use]
    pub fn span(&self, address: u64) -> Option<&Span> {
        let after = self.spans.partition_point(|span| span.base <= address);
        self.spans.get(after.checked_sub(1)?).filter(|span| address < span.end())
    }

    /// The cache of a span that is a slab.
    #[must_use]
    pub fn cache_of(&self, span: &Span) -> Option<&Cache> {
        match span.used {
            Use::Slab(place) => self.caches.get(place),
            _ => None,
        }
    }

    /// State of a chunk of a slab.
    #[must_use]
    pub fn state(&self, span: &Span, cache: &Cache, chunk: u32) -> State {
        if span.is_free(chunk) {
            return State::Free;
        }
        let buffer = span.buffer(cache, chunk);
        let after = self.magazines.rounds.partition_point(|(round, _)| *round < buffer);
        let is_round = self.magazines.rounds.get(after).is_some_and(|(round, _)| *round == buffer);
        if is_round { State::InMagazine } else { State::Allocated }
    }

    /// Number of buffers in magazines for each cache.
    #[must_use]
    pub fn in_magazines(&self) -> BTreeMap<usize, u64> {
        let mut counts = BTreeMap::new();
        self.magazines.rounds.iter().for_each(|(_, place)| *counts.entry(*place).or_default() += 1);
        counts
    }

    /// Statistics of pages. Large buffers that threads keep for their next requests do not count as in use.
    #[must_use]
    pub fn pages(&self) -> Pages {
        let (heap, kept) = (&self.root.heap, &self.magazines);
        let kept_bytes = usize::try_from(kept.kept_bytes).unwrap_or(usize::MAX);
        let without = |bytes: usize| bytes.saturating_sub(kept_bytes);
        Pages {
            used: without(heap.used),
            large: without(heap.large),
            large_buffers: heap.large_buffers.saturating_sub(kept.kept),
            large_allocs: heap.large_allocs.wrapping_add(kept.reused),
        }
    }

    /// Number of thread blocks.
    #[must_use]
    pub fn thread_blocks(&self) -> usize {
        self.magazines.threads
    }

    /// Whether a thread is moving buffers: these may be in neither of two places.
    fn is_at_work(&self) -> bool {
        self.magazines.busy || self.caches.iter().any(Cache::is_locked)
    }

    /// Stops the process when no thread is moving buffers, and reads its heap with all spans. The caller must let it continue, also after an error.
    /// If a thread stays in the middle of a move (it died, or is blocked), this is added to `problems`.
    ///
    /// # Errors
    /// [`FindError`] if it cannot be stopped, or its caches cannot be read.
    pub fn stopped(memory: &'a Memory<'a>, root: u64) -> Result<Heap<'a>, FindError> {
        let image = memory.image();
        let mut attempt = 1;
        loop {
            image.stop()?;
            memory.forget();
            let mut heap = Heap::at(memory, root)?;
            if heap.is_at_work() && attempt < ATTEMPTS && image.go_on().is_some() {
                attempt += 1;
                continue;
            }
            if heap.is_at_work() {
                let said = "a thread stands in the middle of the caches: buffers that it moves may look lost or corrupt";
                heap.problems.push(said.to_owned());
            }
            heap.survey();
            return Ok(heap);
        }
    }

    /// The library's own memory, as ascending ranges with gaps between them. Pointers there do not make a buffer reachable.
    #[must_use]
    pub fn own_places(&self) -> Vec<(u64, u64)> {
        let root = (self.root.at, self.root.at.saturating_add(size_of::<layout::Root>() as u64));
        together(self.regions.iter().copied().chain([root]).collect())
    }
}

/// Sorts ranges, and merges those that touch or overlap.
pub(crate) fn together(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in ranges.into_iter().filter(|(begin, end)| begin < end) {
        match joined.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((begin, end)),
        }
    }
    joined
}

/// The parts of a range that are in none of the ascending ranges `taken`.
pub(crate) fn without((begin, end): (u64, u64), taken: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut at = begin;
    let first = taken.partition_point(|(_, taken_end)| *taken_end <= begin);
    for &(from, to) in taken[first..].iter().take_while(|(from, _)| *from < end) {
        if at < from {
            left.push((at, from));
        }
        at = at.max(to);
    }
    if at < end {
        left.push((at, end));
    }
    left
}

#[cfg(test)]
mod unit {
    use super::{together, without};

    #[test]
    fn ranges_are_joined_and_taken_away() {
        let joined = together(vec![(8, 12), (1, 3), (3, 5), (9, 10), (7, 7)]);
        assert_eq!(joined, [(1, 5), (8, 12)]);
        assert_eq!(without((0, 20), &joined), [(0, 1), (5, 8), (12, 20)]);
        assert_eq!(without((2, 9), &joined), [(5, 8)]);
        assert_eq!(without((2, 4), &joined), []);
        assert_eq!(without((30, 31), &joined), [(30, 31)]);
    }
}
