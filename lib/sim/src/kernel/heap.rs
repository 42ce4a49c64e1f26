//! The event heap: what happens next. Every source of events has at most one pending, so a source is moved in the
//! heap instead of being entered twice, and nothing stale is ever taken out.
//!
//! Events of one instant come in the order clock, threads, processors, each by number. The order does not depend on when
//! an event was entered, so a machine that was saved and loaded goes on as the one that was not.

use serde::{Deserialize, Serialize};

/// Children of a node. Four keep a node's children in one cache line or two, and the tree flat.
const FAN: usize = 4;

/// More threads, or processors, than any machine has.
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
    Thread(u32),
    /// What a processor does comes to its end, by its index.
    Cpu(u32),
}

/// When something is due, in nanoseconds, and what.
type Entry = (u64, Source);

/// The heap.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Heap {
    entries: Vec<Entry>,
    clock: Place,
    threads: Vec<Place>,
    cpus: Vec<Place>,
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
            if let Source::Thread(number) | Source::Cpu(number) = source
                && number >= SOURCES_MAX
            {
                return Err(format!("an event of thread or processor {number}, and there are never so many"));
            }
            heap.set(source, at);
        }
        Ok(heap)
    }
}

impl From<Heap> for Vec<Entry> {
    /// Sorted, so that equal heaps are saved alike.
    fn from(heap: Heap) -> Self {
        let mut entries = heap.entries;
        entries.sort_unstable();
        entries
    }
}

impl Heap {
    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        self.entries.first().map(|(at, _)| *at)
    }

    /// When the event of a source is due.
    #[must_use]
    pub fn at(&self, source: Source) -> Option<u64> {
        let place = self.place(source);
        self.entries.get(place as usize).map(|(at, _)| *at)
    }

    /// Everybody who has an event, in no order.
    pub fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        self.entries.iter().map(|(_, source)| *source)
    }

    /// Takes the next event out if it is due at `now` or before.
    pub fn pop_due(&mut self, now: u64) -> Option<Source> {
        let (at, source) = *self.entries.first()?;
        if at > now {
            return None;
        }
        self.remove_at(0);
        Some(source)
    }

    /// Enters the event of a source, or moves it.
    pub fn set(&mut self, source: Source, at: u64) {
        let place = self.place(source) as usize;
        let place = if place == OUT as usize {
            self.entries.push((at, source));
            self.entries.len() - 1
        } else {
            self.entries[place].0 = at;
            place
        };
        let place = self.rise(place);
        self.sink(place);
    }

    /// Takes the event of a source out, if there is one.
    pub fn cancel(&mut self, source: Source) {
        let place = self.place(source);
        if place != OUT {
            self.remove_at(place as usize);
        }
    }

    fn place(&self, source: Source) -> u32 {
        match source {
            Source::Clock => self.clock.0,
            Source::Thread(index) => self.threads.get(index as usize).copied().unwrap_or_default().0,
            Source::Cpu(index) => self.cpus.get(index as usize).copied().unwrap_or_default().0,
        }
    }

    fn note(&mut self, source: Source, place: u32) {
        let (list, index) = match source {
            Source::Clock => {
                self.clock = Place(place);
                return;
            }
            Source::Thread(index) => (&mut self.threads, index as usize),
            Source::Cpu(index) => (&mut self.cpus, index as usize),
        };
        if list.len() <= index {
            list.resize(index + 1, Place::default());
        }
        list[index] = Place(place);
    }

    fn remove_at(&mut self, place: usize) {
        let (_, source) = self.entries.swap_remove(place);
        self.note(source, OUT);
        if place < self.entries.len() {
            let place = self.rise(place);
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
            let Some(least) = (first..last).min_by_key(|child| self.entries[*child]) else { break };
            if entry <= self.entries[least] {
                break;
            }
            self.put(place, self.entries[least]);
            place = least;
        }
        self.put(place, entry);
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are fewer sources than 2^32")]
    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.note(entry.1, place as u32);
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
            (0u32..20).prop_map(Source::Thread),
            (0u32..20).prop_map(Source::Cpu)
        ]
    }

    proptest! {
        /// Against a map that is searched.
        #[test]
        fn events_come_in_order(
            changes in proptest::collection::vec((source(), proptest::option::of(0u64..30)), 0..200)
        ) {
            let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
            for (source, at) in changes {
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
        for source in [Source::Cpu(0), Source::Thread(7), Source::Clock, Source::Thread(2)] {
            heap.set(source, 10);
        }
        assert_eq!(heap.pop_due(9), None);
        let order: Vec<Source> = std::iter::from_fn(|| heap.pop_due(10)).collect();
        assert_eq!(order, [Source::Clock, Source::Thread(2), Source::Thread(7), Source::Cpu(0)]);
    }
}
