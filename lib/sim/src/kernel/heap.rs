//! The event heap: what happens next. Every source of events has at most one pending, so a source is moved in the
//! heap instead of being entered twice, and nothing stale is ever taken out.
//!
//! Events of one instant come in the order clock, threads, CPUs, each by number. The order does not depend on when
//! an event was entered, so a machine that was saved and loaded goes on as the one that was not.
//!
//! CPUs that are due at the instant that is being worked through lie beside the heap, as bits: threads that spin at a barrier all learn in one instant that it is
//! open, and each would otherwise rise to the top of the heap and sink the others on its way out.

use super::cpu_mask::CpuMask;
use super::ids::{CpuIndex, Id, Table, ThreadId};
use serde::{Deserialize, Serialize};

/// Children of a node. Four keep a node's children in one cache line or two, and the tree flat.
const FAN: usize = 4;

/// More threads, or CPUs, than any machine has.
const SOURCES_MAX: u32 = 1 << 22;

/// Stands for "not in the heap" among positions.
const OUT: u32 = u32::MAX;

/// Where events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The clock tick.
    Clock,
    /// The timer of a thread, by its index.
    Thread(ThreadId),
    /// What a CPU does comes to its end, by its index.
    Cpu(CpuIndex),
}

/// When something is due, in nanoseconds, and what.
type Entry = (u64, Source);

/// The same as one number that is compared in one go: 64 bits of time, then 32 of the source in the order of [`Source`].
type Key = u128;

/// Where numbers of threads and of CPUs begin among the sources.
const THREADS: u32 = 1 << 30;
const CPUS: u32 = 2 << 30;

impl Source {
    fn code(self) -> u32 {
        match self {
            Source::Clock => 0,
            Source::Thread(number) => THREADS + number.0,
            Source::Cpu(number) => CPUS + number.0,
        }
    }
}

fn key(at: u64, source: Source) -> Key {
    u128::from(at) << 32 | u128::from(source.code())
}

#[expect(clippy::cast_possible_truncation, reason = "a key has 96 bits")]
fn at_of(key: Key) -> u64 {
    (key >> 32) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the lower 32 bits are wanted")]
fn source_of(key: Key) -> Source {
    match key as u32 {
        0 => Source::Clock,
        code if code < CPUS => Source::Thread(ThreadId(code - THREADS)),
        code => Source::Cpu(CpuIndex(code - CPUS)),
    }
}

/// The heap.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Heap {
    entries: Vec<Key>,
    clock: Place,
    threads: Table<ThreadId, Place>,
    cpus: Table<CpuIndex, Place>,
    /// When what was taken out last was due.
    instant: u64,
    /// CPUs that are due then.
    due: CpuMask,
    /// How many entries were entered, moved or taken out so far.
    #[cfg(test)]
    pub moved: u64,
}

/// The index among the entries of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place(u32);

impl Default for Place {
    fn default() -> Self {
        Place(OUT)
    }
}

/// Heaps are equal when they give the same events, however they lie.
impl PartialEq for Heap {
    fn eq(&self, other: &Heap) -> bool {
        Vec::from(self.clone()) == Vec::from(other.clone())
    }
}

impl Eq for Heap {}

impl TryFrom<Vec<Entry>> for Heap {
    type Error = String;

    fn try_from(entries: Vec<Entry>) -> Result<Self, String> {
        let mut heap = Heap::default();
        for (at, source) in entries {
            // A place is kept for each number below, so that a saved one must not be beyond any machine.
            let number = match source {
                Source::Clock => 0,
                Source::Thread(thread) => thread.0,
                Source::Cpu(cpu) => cpu.0,
            };
            if number >= SOURCES_MAX {
                return Err(format!("an event of thread or CPU {number}, and there are never so many"));
            }
            heap.set(source, at);
        }
        Ok(heap)
    }
}

impl From<Heap> for Vec<Entry> {
    /// Sorted, so that equal heaps are saved alike.
    fn from(heap: Heap) -> Self {
        let mut entries: Vec<Entry> = heap.entries.iter().map(|key| (at_of(*key), source_of(*key))).collect();
        entries.extend(heap.due.iter().map(|cpu| (heap.instant, Source::Cpu(cpu))));
        entries.sort_unstable();
        entries
    }
}

impl Heap {
    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        let first = self.entries.first().map(|key| at_of(*key));
        if self.due.is_empty() {
            first
        } else {
            first.map_or(Some(self.instant), |at| Some(at.min(self.instant)))
        }
    }

    /// When the event of a source is due.
    #[must_use]
    pub fn at(&self, source: Source) -> Option<u64> {
        if matches!(source, Source::Cpu(cpu) if self.due.contains(cpu)) {
            return Some(self.instant);
        }
        let place = self.place(source);
        self.entries.get(place as usize).map(|key| at_of(*key))
    }

    /// Everything that has an event, in no order.
    pub fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        let due = self.due.iter().map(Source::Cpu);
        self.entries.iter().map(|key| source_of(*key)).chain(due)
    }

    /// Takes the next event out if it is due at `now` or before.
    pub fn pop_due(&mut self, now: u64) -> Option<Source> {
        let first = self.entries.first().copied();
        if let Some(cpu) = self.due.first() {
            let due = key(self.instant, Source::Cpu(cpu));
            if self.instant <= now && first.is_none_or(|first| due < first) {
                self.due.remove(cpu);
                return Some(Source::Cpu(cpu));
            }
        }
        let first = first.filter(|first| at_of(*first) <= now)?;
        if self.due.is_empty() {
            self.instant = at_of(first);
        }
        self.remove_at(0);
        Some(source_of(first))
    }

    /// Enters the event of a source, or moves it.
    pub fn set(&mut self, source: Source, at: u64) {
        if let Source::Cpu(cpu) = source {
            if at == self.instant {
                self.cancel(source);
                self.due.insert(cpu);
                return;
            }
            self.due.remove(cpu);
        }
        #[cfg(test)]
        {
            self.moved += 1;
        }
        let place = self.place(source) as usize;
        if place == OUT as usize {
            self.entries.push(key(at, source));
            self.rise(self.entries.len() - 1);
            return;
        }
        let now = key(at, source);
        let before = std::mem::replace(&mut self.entries[place], now);
        if now > before {
            self.sink(place);
        } else if now < before {
            self.rise(place);
        }
    }

    /// Takes the event of a source out, if there is one.
    pub fn cancel(&mut self, source: Source) {
        if let Source::Cpu(cpu) = source {
            self.due.remove(cpu);
        }
        let place = self.place(source);
        if place != OUT {
            self.remove_at(place as usize);
        }
    }

    fn place(&self, source: Source) -> u32 {
        match source {
            Source::Clock => self.clock.0,
            Source::Thread(index) => self.threads.row(index).copied().unwrap_or_default().0,
            Source::Cpu(index) => self.cpus.row(index).copied().unwrap_or_default().0,
        }
    }

    fn note(&mut self, source: Source, place: u32) {
        let (list, index) = match source {
            Source::Clock => {
                self.clock = Place(place);
                return;
            }
            Source::Thread(index) => (&mut *self.threads, index.place()),
            Source::Cpu(index) => (&mut *self.cpus, index.place()),
        };
        if list.len() <= index {
            list.resize(index + 1, Place::default());
        }
        list[index] = Place(place);
    }

    fn remove_at(&mut self, place: usize) {
        #[cfg(test)]
        {
            self.moved += 1;
        }
        let gone = self.entries.swap_remove(place);
        self.note(source_of(gone), OUT);
        // What was last takes the place that is free, and is as a rule late.
        if place < self.entries.len() && self.rise(place) == place {
            self.sink(place);
        }
    }

    /// Moves the entry up to where it belongs; gives its place.
    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / FAN;
            if self.entries[parent] <= entry {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    /// Moves the entry down to where it belongs.
    fn sink(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let first = place * FAN + 1;
            let last = (first + FAN).min(self.entries.len());
            let Some(children) = self.entries.get(first..last) else { break };
            let mut least = (Key::MAX, 0);
            for child in children.iter().zip(first..) {
                if *child.0 < least.0 {
                    least = (*child.0, child.1);
                }
            }
            if entry <= least.0 {
                break;
            }
            self.put(place, least.0);
            place = least.1;
        }
        self.put(place, entry);
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are fewer sources than 2^32")]
    fn put(&mut self, place: usize, entry: Key) {
        self.entries[place] = entry;
        self.note(source_of(entry), place as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn source() -> impl Strategy<Value = Source> {
        prop_oneof![
            Just(Source::Clock),
            (0u32..20).prop_map(|number| Source::Thread(ThreadId(number))),
            (0u32..20).prop_map(|number| Source::Cpu(CpuIndex(number)))
        ]
    }

    proptest! {
        /// Against a map that is searched.
        #[test]
        fn events_come_in_order(
            changes in proptest::collection::vec((source(), proptest::option::of(0u64..30), 0u64..300), 0..200)
        ) {
            let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
            for (source, at, now) in changes {
                // Often nothing is due, so that there are many.
                let due = model.iter().map(|(source, at)| (*at, *source)).min().filter(|(at, _)| now < 30 && *at <= now);
                let due = due.map(|(_, source)| source);
                prop_assert_eq!(if now < 30 { heap.pop_due(now) } else { None }, due);
                due.map(|source| model.remove(&source));
                match at {
                    Some(at) => {
                        heap.set(source, at);
                        model.insert(source, at);
                    }
                    None => {
                        heap.cancel(source);
                        model.remove(&source);
                    }
                }
                prop_assert_eq!(heap.next_at(), model.values().min().copied());
                prop_assert_eq!(heap.at(source), at);
            }
            let saved = serde_json::to_string(&heap).unwrap();
            let mut loaded: Heap = serde_json::from_str(&saved).unwrap();
            let mut due: Vec<(u64, Source)> = model.into_iter().map(|(source, at)| (at, source)).collect();
            due.sort_unstable();
            for (at, source) in due {
                prop_assert_eq!(loaded.pop_due(at), Some(source));
                prop_assert_eq!(heap.pop_due(u64::MAX), Some(source));
            }
            prop_assert_eq!(heap.pop_due(u64::MAX), None);
        }
    }

    #[test]
    fn at_one_instant_the_clock_comes_first_then_threads_then_processors() {
        let mut heap = Heap::default();
        for source in [
            Source::Cpu(CpuIndex(0)),
            Source::Thread(ThreadId(7)),
            Source::Clock,
            Source::Thread(ThreadId(2)),
        ] {
            heap.set(source, 10);
        }
        assert_eq!(heap.pop_due(9), None);
        let order: Vec<Source> = std::iter::from_fn(|| heap.pop_due(10)).collect();
        assert_eq!(
            order,
            [
                Source::Clock,
                Source::Thread(ThreadId(2)),
                Source::Thread(ThreadId(7)),
                Source::Cpu(CpuIndex(0))
            ]
        );
    }
}
