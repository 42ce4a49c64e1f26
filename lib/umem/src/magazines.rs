//! Free buffers outside of slabs: magazines of threads and depots, and large buffers that threads keep.

use crate::cache::Cache;
use crate::memory::{Memory, half_at, word_at};
use millpond_rt_layout::{KEPT, Magazine, PAGE, PAIRS, Pair, Thread};
use std::collections::HashSet;
use std::mem::{offset_of, size_of};

/// Maximum rounds of a magazine.
const ROUNDS_MAX: u64 = u16::MAX as u64;
/// Maximum number of thread blocks, and of magazines in a depot.
const LIST_MAX: usize = 1 << 22;

/// Contents of all magazines.
#[derive(Debug, Default)]
pub(crate) struct Magazines {
    /// Buffers with the index of their cache, ascending by address.
    pub(crate) rounds: Vec<(u64, usize)>,
    /// Allocations of live threads for each cache.
    pub(crate) allocs: Vec<u64>,
    pub(crate) threads: usize,
    /// Whether a thread is exchanging magazines.
    pub(crate) busy: bool,
    /// Number of large buffers that threads keep.
    pub(crate) kept: u64,
    /// Their total bytes.
    pub(crate) kept_bytes: u64,
    /// Large allocations that were served by kept buffers.
    pub(crate) reused: u64,
}

impl Magazines {
    /// Reads every thread's pairs, and every depot.
    pub(crate) fn read(
        memory: &Memory<'_>,
        threads: u64,
        caches: &[Cache],
        problems: &mut Vec<String>,
    ) -> Magazines {
        let mut all = Magazines { allocs: vec![0; caches.len()], ..Magazines::default() };
        all.threads(memory, threads, caches, problems);
        for (place, cache) in caches.iter().enumerate() {
            for pile in cache.piles() {
                all.pile(memory, pile, place, cache, problems);
            }
        }
        all.rounds.sort_unstable();
        all
    }

    fn threads(&mut self, memory: &Memory<'_>, first: u64, caches: &[Cache], problems: &mut Vec<String>) {
        let whole = memory.list("threads", first, LIST_MAX, |at| {
            let head = memory.bytes(at, offset_of!(Thread, pairs))?;
            self.threads += 1;
            self.busy |= half_at(&head, offset_of!(Thread, busy)) != 0;
            self.reused = self.reused.wrapping_add(word_at(&head, offset_of!(Thread, reused)));
            let kept = (0..KEPT).map(|place| word_at(&head, offset_of!(Thread, kept) + place * 8));
            for word in kept.filter(|word| *word != 0) {
                self.kept += 1;
                self.kept_bytes += (word >> 48) * PAGE as u64;
            }
            for (place, cache) in
                caches.iter().enumerate().filter(|(_, cache)| (cache.index as usize) < PAIRS)
            {
                let pair = offset_of!(Thread, pairs) + cache.index as usize * size_of::<Pair>();
                self.pair(memory, at.saturating_add(pair as u64), place, cache, problems);
            }
            Some(word_at(&head, offset_of!(Thread, next)))
        });
        problems.extend(whole.err());
    }

    fn pair(
        &mut self,
        memory: &Memory<'_>,
        at: u64,
        place: usize,
        cache: &Cache,
        problems: &mut Vec<String>,
    ) {
        // In a core, the end of a block that was never touched may be missing.
        let Some(pair) = memory.get::<Pair>(at) else { return };
        self.allocs[place] = self.allocs[place].wrapping_add(pair.allocs);
        let [top, base, limit] = [pair.top, pair.base, pair.limit].map(|pointer| pointer.addr() as u64);
        if base != 0 {
            let head = base.wrapping_sub(size_of::<Magazine>() as u64);
            let sound = base <= top && top <= limit && (top - base).is_multiple_of(8);
            if sound {
                self.magazine(memory, head, (top - base) / 8, (place, cache), problems);
            } else {
                problems.push(format!("cache {}: the magazine of the pair {at:x} is invalid", cache.name));
            }
        }
        if !pair.previous.is_null() {
            let (previous, rounds) = (pair.previous.addr() as u64, pair.previous_rounds.into());
            self.magazine(memory, previous, rounds, (place, cache), problems);
        }
    }

    fn magazine(
        &mut self,
        memory: &Memory<'_>,
        at: u64,
        rounds: u64,
        (place, cache): (usize, &Cache),
        problems: &mut Vec<String>,
    ) {
        let first = at.wrapping_add(size_of::<Magazine>() as u64);
        if rounds > ROUNDS_MAX {
            return problems
                .push(format!("cache {}: magazine {at:x} cannot have {rounds} rounds", cache.name));
        }
        let Some(words) = memory.words(first, usize::try_from(rounds).unwrap_or(0)) else {
            return problems.push(format!("cache {}: magazine {at:x} cannot be read", cache.name));
        };
        self.rounds.extend(words.into_iter().map(|buffer| (buffer, place)));
    }

    /// Reads a pile of magazines of a depot.
    fn pile(
        &mut self,
        memory: &Memory<'_>,
        top: u64,
        place: usize,
        cache: &Cache,
        problems: &mut Vec<String>,
    ) {
        let mut seen = HashSet::new();
        let mut at = top;
        while at != 0 {
            if !seen.insert(at) || seen.len() > LIST_MAX {
                return problems
                    .push(format!("cache {}: its magazines have no end: {at:x} comes again", cache.name));
            }
            let Some(link) = memory.word(at) else {
                return problems.push(format!("cache {}: magazine {at:x} cannot be read", cache.name));
            };
            self.magazine(memory, at, link >> 48 & 0xff, (place, cache), problems);
            at = link & ((1 << 48) - 1);
        }
    }
}
