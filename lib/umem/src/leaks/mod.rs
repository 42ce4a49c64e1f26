//! Leaks: buffers that no pointer reaches.
//!
//! A word that is the address of any byte of a buffer makes that buffer reachable, whether or not it is meant as a pointer. Such words count in
//! writable memory, in registers of threads, and in reachable buffers. All other allocated buffers are leaks: no correct program can free them. (A
//! pointer that a program stores in disguise is not found: its buffer looks like a leak.)
//!
//! # Roots
//!
//! Roots are all writable memory, except the caches' own memory: spans, and the library's bookkeeping. Of a thread's stack only the part above its
//! stack pointer counts, if the mapping certainly belongs to that thread alone. Free objects in magazines that stay constructed own the buffers
//! that their constructor allocated.
//!
//! # The pause
//!
//! ```text
//!   stop all threads ──▶ caches, spans, magazines; words that look like addresses of buffers ──▶ go on ──▶ reachability, stacks, names
//! ```
//!
//! The process is stopped only while words are gathered. Slow work is done afterwards, on these words. The allocation stacks of leaks are read then.
//! A record that is younger than the pause shows that the buffer was in use after all, and it is omitted.

mod gather;
mod marks;
mod words;

use crate::heap::FindError;
use crate::history::Transaction;
use crate::memory::Memory;
use gather::Gathered;
use marks::Marks;
use millpond_model::Nanos;
use std::collections::BTreeMap;

/// Minimum of bytes read for a meaningful pause per GiB.
const LITTLE: u128 = 16 << 20;

/// Leaks of one cache with the same allocation stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// Name of the cache; `None`: large buffers.
    pub cache: Option<String>,
    /// Allocation stack, innermost first; empty if unknown.
    pub stack: Vec<u64>,
    /// Addresses of the buffers, ascending.
    pub buffers: Vec<u64>,
    /// Total bytes.
    pub bytes: u64,
    /// The bufctl of the first buffer, if it has one.
    pub bufctl: Option<u64>,
}

/// The amount of searched memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Effort {
    /// Bytes read outside of the caches' memory.
    pub root_bytes: u64,
    /// Bytes read in the caches' memory.
    pub heap_bytes: u64,
    /// Words that could be addresses of buffers.
    pub words: u64,
    /// Threads whose registers were read.
    pub threads: u64,
    /// Buffers in use, and leaks.
    #[serde(rename = "allocated")]
    pub buffers: u64,
    /// Leaks at the time of the pause that were freed or reallocated since.
    pub taken_since: u64,
    /// How long the process was stopped; null for a core.
    #[serde(rename = "pause_ns")]
    pub pause: Option<Nanos>,
}

impl Effort {
    /// The pause per GiB read. `None`: so little was read that the result would be the time for stopping threads.
    #[must_use]
    pub fn pause_per_gib(&self) -> Option<Nanos> {
        let bytes = u128::from(self.root_bytes + self.heap_bytes);
        if bytes < LITTLE {
            return None;
        }
        let scaled = u128::from(self.pause?.0).checked_mul(1 << 30)?.checked_div(bytes)?;
        u64::try_from(scaled).ok().map(Nanos)
    }
}

/// The result of a search for leaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Leaks by bytes, descending.
    pub leaks: Vec<Leak>,
    /// Counters of the search.
    pub effort: Effort,
    /// Reports of invalid data, in sentences.
    pub problems: Vec<String>,
}

/// Finds leaks in the heap with the root at an address.
///
/// # Errors
/// [`FindError`] if the process cannot be stopped, or its caches cannot be read.
pub fn find(memory: &Memory<'_>, root: u64) -> Result<Lost, FindError> {
    let image = memory.image();
    let gathered = gather::gather(memory, root);
    let pause = image.go_on();
    memory.forget();
    let gathered = gathered?;
    Ok(sort(gathered, pause))
}

/// The part of the search after the pause.
fn sort(gathered: Gathered<'_>, pause: Option<Nanos>) -> Lost {
    let Gathered { heap, roots, words, mut effort, stopped } = gathered;
    effort.pause = pause;
    effort.words = (roots.len() + words.len()) as u64;
    let mut marks = Marks::of(&heap);
    effort.buffers = marks.allocated();
    marks.follow(&roots, &words);
    let mut leaks: BTreeMap<(Option<usize>, Vec<u64>), Leak> = BTreeMap::new();
    for lost in marks.lost() {
        let latest = lost.bufctl.and_then(|at| Transaction::read(&heap, at));
        let latest = latest.filter(|latest| latest.buffer == lost.buffer);
        let is_younger = |latest: &Transaction| stopped.is_some_and(|stopped| latest.time > stopped.0);
        if latest.as_ref().is_some_and(|latest| is_younger(latest) || !latest.allocated) {
            effort.taken_since += 1;
            continue;
        }
        let stack = latest.map(|latest| latest.stack).unwrap_or_default();
        let name = lost.cache.and_then(|place| heap.caches.get(place)).map(|cache| cache.name.clone());
        let leak = leaks.entry((lost.cache, stack)).or_insert_with_key(|(_, stack)| Leak {
            cache: name,
            stack: stack.clone(),
            buffers: Vec::new(),
            bytes: 0,
            bufctl: lost.bufctl,
        });
        leak.buffers.push(lost.buffer);
        leak.bytes += lost.bytes;
    }
    let mut leaks: Vec<Leak> = leaks.into_values().collect();
    leaks.sort_by_key(|leak| (std::cmp::Reverse(leak.bytes), leak.buffers.first().copied()));
    Lost { leaks, effort, problems: heap.problems }
}
