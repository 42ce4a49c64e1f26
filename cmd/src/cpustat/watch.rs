//! The loop: start a set, wait, read, report.

use super::options::Options;
use super::report::Report;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, read};
use crate::interval::wait_for_report;
use millpond_machine::Clock;
use millpond_machine::facets::{CpuCounting, CpuReading};
use millpond_model::{Counted, CpuId, Nanos};
use millpond_observe::{CountedInterval, between};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of the loop.
pub struct Watcher<'a> {
    /// The counters.
    pub counting: Box<dyn CpuCounting + 'a>,
    /// The clock of the machine.
    pub clock: &'a dyn Clock,
    /// Set when the user interrupts.
    pub stop: &'a AtomicBool,
    /// The options.
    pub options: &'a Options,
    /// Prints the samples.
    pub report: Report<'a>,
}

/// The counts of a CPU in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The CPU.
    pub cpu: CpuId,
    /// The end of the interval, since the start of the command.
    pub time: Nanos,
    /// The length of the interval.
    pub elapsed: Nanos,
    /// The advance of the cycle counter.
    pub tick: u64,
    /// The counts.
    pub counted: CountedInterval,
}

/// The state of a CPU at the beginning of its interval.
#[derive(Debug, Clone, Default)]
struct Before {
    at: Nanos,
    tick: u64,
    counted: Counted,
}

impl Watcher<'_> {
    /// Reports the requested number of times.
    ///
    /// # Errors
    /// [`Failure`] if counting becomes impossible.
    pub fn run(mut self, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
        let began = self.clock.now();
        let (interval, sets) = (self.options.repetition.interval, self.report.sets.len());
        let turns = u64::try_from(sets).unwrap_or(u64::MAX);
        let samples = self.options.repetition.count.map(|count| count.saturating_mul(turns));
        let (mut due, mut cycle) = (began, began);
        let mut before = self.begin_set(0)?;
        let mut lost: BTreeSet<CpuId> = BTreeSet::new();
        let mut done = 0u64;
        while samples != Some(done) && !self.ends(ctx) {
            let set = usize::try_from(done % turns).unwrap_or(0);
            due = next_due(due, interval, self.clock.now());
            wait_for_report(self.clock, self.stop, due, samples.is_none(), ctx);
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let readings = self.counting.read();
            self.tell_lost(&readings, &mut lost, ctx);
            let sampled = self.differences(&readings, &mut before, began);
            if sampled.is_empty() {
                break;
            }
            self.report.sample(set, &sampled, self.clock.wall(), ctx);
            done += 1;
            if sets > 1 && samples != Some(done) {
                let next = usize::try_from(done % turns).unwrap_or(0);
                if next == 0 {
                    due = self.rest(&mut cycle, due);
                }
                before = self.begin_set(next)?;
            }
        }
        Ok(self.report.end(ctx))
    }

    /// Starts a set. Returns the start of the interval of each CPU.
    fn begin_set(&mut self, set: usize) -> Result<BTreeMap<CpuId, Before>, Failure> {
        read("counters", self.counting.start(set))?;
        let start = |reading: CpuReading| {
            let counted = reading.counted.unwrap_or_default();
            (reading.cpu, Before { at: reading.at, tick: reading.tick, counted })
        };
        Ok(self.counting.read().into_iter().map(start).collect())
    }

    /// The next start if there is a period: the pause between two cycles of all sets.
    fn rest(&self, cycle: &mut Nanos, due: Nanos) -> Nanos {
        let Some(period) = self.options.period else { return due };
        *cycle = next_due(*cycle, period, self.clock.now());
        self.clock.sleep_until(*cycle);
        *cycle
    }

    fn tell_lost(&mut self, readings: &[CpuReading], lost: &mut BTreeSet<CpuId>, ctx: &mut Ctx<'_>) {
        for reading in readings {
            if let Err(why) = &reading.counted
                && lost.insert(reading.cpu)
            {
                ctx.warn(format_args!("CPU {}: {why}; it is counted no more", reading.cpu));
                self.report.exit = Exit::REFUSED;
            }
        }
    }

    fn differences(
        &self,
        readings: &[CpuReading],
        before: &mut BTreeMap<CpuId, Before>,
        began: Nanos,
    ) -> Vec<Sampled> {
        let one = |reading: &CpuReading| {
            let now = reading.counted.as_ref().ok()?.clone();
            let last = before
                .insert(reading.cpu, Before { at: reading.at, tick: reading.tick, counted: now.clone() })?;
            Some(Sampled {
                cpu: reading.cpu,
                time: Nanos(reading.at.0.saturating_sub(began.0)),
                elapsed: Nanos(reading.at.0.saturating_sub(last.at.0)),
                tick: reading.tick.saturating_sub(last.tick),
                counted: between(&last.counted, &now),
            })
        };
        let mut one = one;
        readings.iter().filter_map(&mut one).collect()
    }

    fn ends(&self, ctx: &Ctx<'_>) -> bool {
        self.stop.load(Ordering::Relaxed) || ctx.out.is_closed()
    }
}

/// The next time of a periodic schedule that is in the future. Missed times are skipped.
fn next_due(last: Nanos, interval: Nanos, now: Nanos) -> Nanos {
    let next = last + interval;
    if next >= now || interval.0 == 0 {
        return next;
    }
    let missed = (now.0 - next.0).div_ceil(interval.0);
    Nanos(next.0.saturating_add(missed.saturating_mul(interval.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_that_were_missed_are_skipped() {
        assert_eq!(next_due(Nanos(100), Nanos(10), Nanos(105)), Nanos(110));
        assert_eq!(next_due(Nanos(100), Nanos(10), Nanos(110)), Nanos(110));
        assert_eq!(next_due(Nanos(100), Nanos(10), Nanos(111)), Nanos(120));
        assert_eq!(next_due(Nanos(100), Nanos(10), Nanos(155)), Nanos(160));
    }
}
