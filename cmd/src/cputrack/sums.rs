//! Sums of threads and processes so far: differences of readings, added up by event set.

use millpond_machine::facets::LwpReading;
use millpond_model::{Counted, Lwp, Pid};
use millpond_observe::between;
use std::collections::BTreeMap;

/// The values of a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sum {
    /// The time on a CPU.
    pub tick: u64,
    /// Counts. `None` if the counters never ran.
    pub counts: Option<Vec<u64>>,
    /// The share of the time on a CPU in which the counters ran, 0 to 1. For a sum, the smallest share.
    pub share: Option<f64>,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.tick = self.tick.saturating_add(other.tick);
        if let Some(counts) = &other.counts {
            let sums = self.counts.get_or_insert_with(Vec::new);
            sums.resize(sums.len().max(counts.len()), 0);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        }
        self.share = match (self.share, other.share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// The state of a thread.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Its last reading in the current set.
    last: Option<(u64, Counted)>,
    /// Its sums by set.
    sums: Vec<Sum>,
}

/// The sums of all threads and processes.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    sets: usize,
    set: usize,
    lwps: BTreeMap<Lwp, Known>,
    /// The sums of ended threads, by process and set.
    ended: BTreeMap<Pid, Vec<Sum>>,
}

impl Sums {
    /// Sums for this number of sets.
    pub fn of(sets: usize) -> Sums {
        Sums { sets, ..Sums::default() }
    }

    /// The current set.
    pub fn set(&self) -> usize {
        self.set
    }

    /// Switches to another set, which starts from zero.
    pub fn turn(&mut self, set: usize) {
        self.set = set;
        for known in self.lwps.values_mut() {
            known.last = None;
        }
    }

    /// Adds a new thread.
    pub fn begin(&mut self, lwp: Lwp) {
        let sums = vec![Sum::default(); self.sets];
        self.lwps.insert(lwp, Known { last: None, sums });
    }

    /// The counts of a thread since its last reading.
    pub fn advance(&mut self, reading: &LwpReading) -> Sum {
        let sets = self.sets;
        let known = self.lwps.entry(reading.lwp).or_default();
        known.sums.resize(sets, Sum::default());
        let (tick, last) = known.last.take().unwrap_or_default();
        let interval = between(&last, &reading.counted);
        let delta = Sum {
            tick: reading.tick.saturating_sub(tick),
            counts: interval.counts,
            share: Some(interval.share),
        };
        known.last = Some((reading.tick, reading.counted.clone()));
        known.sums[self.set].add(&delta);
        delta
    }

    /// Removes an ended thread. Returns all its counts by set, and adds them to its process.
    pub fn end(&mut self, lwp: Lwp) -> Vec<Sum> {
        let Some(known) = self.lwps.remove(&lwp) else { return Vec::new() };
        let sums = self.ended.entry(lwp.pid).or_insert_with(|| vec![Sum::default(); self.sets]);
        for (sum, more) in sums.iter_mut().zip(&known.sums) {
            sum.add(more);
        }
        known.sums
    }

    /// Whether a process still has threads.
    pub fn has_threads(&self, pid: Pid) -> bool {
        self.lwps.keys().any(|lwp| lwp.pid == pid)
    }

    /// Removes a process that ended or executed another program. Returns all its counts by set.
    pub fn end_process(&mut self, pid: Pid) -> Vec<Sum> {
        let lwps: Vec<Lwp> = self.lwps.keys().filter(|lwp| lwp.pid == pid).copied().collect();
        for lwp in lwps {
            self.end(lwp);
        }
        self.ended.remove(&pid).unwrap_or_else(|| vec![Sum::default(); self.sets])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{LwpId, Nanos};

    fn reading(lwp: u32, value: u64) -> LwpReading {
        let counted = Counted { values: vec![value], wanted: Nanos(value), counting: Nanos(value) };
        LwpReading { lwp: Lwp { pid: Pid(9), lwp: LwpId(lwp) }, tick: value, counted }
    }

    fn counts(sums: &[Sum]) -> Vec<Option<u64>> {
        sums.iter().map(|sum| sum.counts.as_ref().map(|counts| counts[0])).collect()
    }

    #[test]
    fn a_process_did_what_its_threads_did_whether_they_live_or_not() {
        let mut sums = Sums::of(1);
        assert_eq!(sums.advance(&reading(1, 10)).counts, Some(vec![10]));
        assert_eq!(sums.advance(&reading(1, 15)).counts, Some(vec![5]));
        sums.advance(&reading(2, 7));
        assert_eq!(counts(&sums.end(Lwp { pid: Pid(9), lwp: LwpId(2) })), [Some(7)]);
        assert_eq!(counts(&sums.end_process(Pid(9))), [Some(22)]);
        assert_eq!(counts(&sums.end_process(Pid(9))), [None], "it began anew");
    }

    #[test]
    fn each_set_has_its_own_sum_and_counts_from_zero_in_its_turn() {
        let mut sums = Sums::of(2);
        sums.advance(&reading(1, 10));
        sums.turn(1);
        assert_eq!(sums.advance(&reading(1, 3)).counts, Some(vec![3]));
        sums.turn(0);
        sums.advance(&reading(1, 4));
        assert_eq!(counts(&sums.end_process(Pid(9))), [Some(14), Some(3)]);
    }
}
