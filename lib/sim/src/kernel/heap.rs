//! Pending events. Every source of events has at most one.
//!
//! Events of one instant happen in the order clock, threads, CPUs, each by number. The order does not depend on when an event
//! was entered, so a machine that was saved and loaded continues exactly as the original.
//!
//! The threads form one tournament tree, the CPUs another. Each source has its own leaf; four leaves have a winner above them, and so on up to the
//! first of all. An entered event moves up as long as it wins, usually not at all. A removed event is replaced by the next best of each four. So no
//! entry is ever moved, and finding a source's event needs neither a search nor a back reference, which a binary heap would need.
//! Leaves are ordered by number, so that the first of equal events wins.

use super::ids::{CpuIndex, ThreadId};
use serde::{Deserialize, Serialize};
use std::hint::select_unpredictable;

/// Children per node.
const FAN: usize = 4;

/// Most threads or CPUs: more than any machine has.
const SOURCES_MAX: u32 = 1 << 22;

/// A source of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The clock tick.
    Clock,
    /// The timer of a thread.
    Thread(ThreadId),
    /// The end of a burst on a CPU.
    Cpu(CpuIndex),
}

/// The time of an event in nanoseconds, and its source.
type Entry = (u64, Source);

/// No pending event.
const NEVER: u64 = u64::MAX;

/// The events to come.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Heap {
    clock: u64,
    threads: Tournament,
    cpus: Tournament,
    /// Number of entries that were entered, moved or removed so far.
    #[cfg(test)]
    pub moved: u64,
}

impl Default for Heap {
    fn default() -> Self {
        Heap {
            clock: NEVER,
            threads: Tournament::default(),
            cpus: Tournament::default(),
            #[cfg(test)]
            moved: 0,
        }
    }
}

/// A tournament tree: times by number, and the winners among them.
///
/// The root is slot 3, so that the four children of each slot form one row. The children of slot s are row s - 2; the parent of row r is slot r + 2.
#[derive(Debug, Clone)]
struct Tournament {
    rows: Vec<Row>,
    /// The slot of the first leaf. Leaves fill all slots from there on; their number is a power of four.
    leaves: usize,
}

/// Four siblings, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Row {
    times: [u64; FAN],
    /// The sources of these times.
    numbers: [u32; FAN],
}

/// The slot of the root.
const TOP: usize = FAN - 1;

impl Row {
    const EMPTY: Row = Row { times: [NEVER; FAN], numbers: [0; FAN] };

    /// The earliest; of equal ones the first.
    #[inline]
    fn winner(&self) -> (u64, u32) {
        let at = |place: usize| (self.times[place], self.numbers[place]);
        // Branch-free, because the result is unpredictable.
        let first = |a: (u64, u32), b: (u64, u32)| {
            let wins = b.0 < a.0;
            (select_unpredictable(wins, b.0, a.0), select_unpredictable(wins, b.1, a.1))
        };
        first(first(at(0), at(1)), first(at(2), at(3)))
    }
}

impl Default for Tournament {
    /// One leaf, which is the root.
    fn default() -> Self {
        Tournament { rows: vec![Row::EMPTY], leaves: TOP }
    }
}

impl Tournament {
    #[inline]
    fn first(&self) -> (u64, u32) {
        let row = &self.rows[0];
        (row.times[TOP], row.numbers[TOP])
    }

    /// Pending times and numbers.
    fn pending(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let all = self.rows.iter().flat_map(|row| row.times).skip(self.leaves).zip(0u32..);
        all.filter(|(at, _)| *at != NEVER)
    }

    #[inline]
    fn at(&self, number: u32) -> u64 {
        let slot = self.leaves + number as usize;
        self.rows.get(slot / FAN).map_or(NEVER, |row| row.times[slot % FAN])
    }

    /// Sets the time of a number; [`NEVER`] removes it.
    #[inline]
    fn set(&mut self, number: u32, at: u64) {
        let mut slot = self.leaves + number as usize;
        if slot / FAN >= self.rows.len() {
            if at == NEVER {
                return;
            }
            self.grow(number);
            slot = self.leaves + number as usize;
        }
        self.rows[slot / FAN].times[slot % FAN] = at;
        let mut new = (at, number);
        while slot > TOP {
            let row = slot / FAN;
            slot = row + FAN - 2;
            let above = &self.rows[slot / FAN];
            let old = (above.times[slot % FAN], above.numbers[slot % FAN]);
            if old.1 == number {
                // It was the winner.
                new = self.rows[row].winner();
            } else if new >= old {
                return;
            }
            let above = &mut self.rows[slot / FAN];
            (above.times[slot % FAN], above.numbers[slot % FAN]) = new;
        }
    }

    /// Grows the tree to contain a number.
    #[cold]
    fn grow(&mut self, number: u32) {
        let before: Vec<(u64, u32)> = self.pending().collect();
        let mut leaves = FAN;
        while leaves <= number as usize {
            leaves *= FAN;
        }
        // Each row has one slot above it: with n slots above the leaves there are 3 n + 1 leaves.
        let above = (leaves - 1) / (FAN - 1);
        self.rows = vec![Row::EMPTY; above + 1];
        self.leaves = above + TOP;
        for (slot, number) in (self.leaves..).zip(0u32..).take(leaves) {
            self.rows[slot / FAN].numbers[slot % FAN] = number;
        }
        // Of equal times the first wins.
        for row in (1..=above).rev() {
            let (slot, number) = (row + FAN - 2, self.rows[row].numbers[0]);
            self.rows[slot / FAN].numbers[slot % FAN] = number;
        }
        before.into_iter().for_each(|(at, number)| self.set(number, at));
    }
}

/// Heaps are equal when they produce the same events, independent of their layout.
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
            // Memory is allocated for each lower number, so a saved number is limited.
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
    /// Sorted, so that equal heaps are saved identically.
    fn from(heap: Heap) -> Self {
        let mut entries: Vec<Entry> = heap.pending().collect();
        entries.sort_unstable();
        entries
    }
}

impl Heap {
    /// The first event; at [`NEVER`] if there is no event.
    #[inline]
    fn first(&self) -> Entry {
        let (thread, cpu) = (self.threads.first(), self.cpus.first());
        if self.clock <= thread.0 && self.clock <= cpu.0 {
            (self.clock, Source::Clock)
        } else if thread.0 <= cpu.0 {
            (thread.0, Source::Thread(ThreadId(thread.1)))
        } else {
            (cpu.0, Source::Cpu(CpuIndex(cpu.1)))
        }
    }

    /// All pending events, in no order.
    fn pending(&self) -> impl Iterator<Item = Entry> + '_ {
        let clock = Some((self.clock, Source::Clock)).filter(|(at, _)| *at != NEVER);
        let threads = self.threads.pending().map(|(at, number)| (at, Source::Thread(ThreadId(number))));
        let cpus = self.cpus.pending().map(|(at, number)| (at, Source::Cpu(CpuIndex(number))));
        clock.into_iter().chain(threads).chain(cpus)
    }

    /// The time of the next event.
    #[must_use]
    #[inline]
    pub fn next_at(&self) -> Option<u64> {
        let at = self.clock.min(self.threads.first().0).min(self.cpus.first().0);
        Some(at).filter(|at| *at != NEVER)
    }

    /// The time of a source's event.
    #[must_use]
    #[inline]
    pub fn at(&self, source: Source) -> Option<u64> {
        let at = match source {
            Source::Clock => self.clock,
            Source::Thread(number) => self.threads.at(number.0),
            Source::Cpu(number) => self.cpus.at(number.0),
        };
        Some(at).filter(|at| *at != NEVER)
    }

    /// All sources with a pending event, in no order.
    pub fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        self.pending().map(|(_, source)| source)
    }

    /// Removes and returns the next event if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: u64) -> Option<Source> {
        let (at, source) = self.first();
        if at > now || at == NEVER {
            return None;
        }
        self.enter(source, NEVER);
        Some(source)
    }

    /// Enters or moves the event of a source. The time `u64::MAX` is entered as the time just before it.
    #[inline]
    pub fn set(&mut self, source: Source, at: u64) {
        self.enter(source, at.min(NEVER - 1));
    }

    /// Removes the event of a source, if it has one.
    #[inline]
    pub fn cancel(&mut self, source: Source) {
        if self.at(source).is_some() {
            self.enter(source, NEVER);
        }
    }

    #[inline]
    fn enter(&mut self, source: Source, at: u64) {
        #[cfg(test)]
        {
            self.moved += 1;
        }
        match source {
            Source::Clock => self.clock = at,
            Source::Thread(number) => self.threads.set(number.0, at),
            Source::Cpu(number) => self.cpus.set(number.0, at),
        }
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
        /// Compares the heap with a map that is searched linearly.
        #[test]
        fn events_come_in_order(
            changes in proptest::collection::vec((source(), proptest::option::of(0u64..30), 0u64..300), 0..200)
        ) {
            let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
            for (source, at, now) in changes {
                // Late times pop nothing, so that many events accumulate.
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
