//! Disturbances as a table and a verdict: causes of all watched CPUs together, and whether they keep within a limit.
//!
//! Totals are each cause's own time, so that they add up. The share of a cause is percent of the time of all watched CPUs. A limit on time is
//! about the longest single disturbance and the longest stretch of several; a limit on rate is about the CPU that is disturbed most. What the
//! watcher does counts against neither, and what the job does to itself only where that is asked for.

use crate::digits::thousandths;
use millpond_model::{Cause, CpuId, CpuSet, Disturbance, Disturbed, Doer, Nanos, Pid, Stretch};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// How much is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// None may be longer.
    Time(Nanos),
    /// No more a second, on any CPU.
    Rate(f64),
}

/// A cause on all watched CPUs. Null: unknown on at least one of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QuietLine {
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
    /// A process that caused it.
    pub pid: Option<Pid>,
    /// The CPUs.
    #[serde(rename = "processors")]
    pub cpus: CpuSet,
    /// The number of occurrences.
    pub count: Option<u64>,
    /// Occurrences per second.
    #[serde(serialize_with = "thousandths")]
    pub rate: Option<f64>,
    /// The longest occurrence.
    #[serde(rename = "longest_ns")]
    pub longest: Option<Nanos>,
    /// The total time.
    #[serde(rename = "total_ns")]
    pub total: Option<Nanos>,
    /// Percent of the time of all watched CPUs.
    #[serde(serialize_with = "thousandths")]
    pub share: Option<f64>,
}

/// The table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quiet {
    /// How long was watched.
    pub elapsed: Nanos,
    /// A line for each cause: those that took longest in all first, then the most frequent.
    pub lines: Vec<QuietLine>,
    /// What the watcher did is not in these sums.
    pub count: u64,
    /// The same in time.
    pub total: Nanos,
    /// Percent of the time of all watched CPUs.
    pub share: f64,
    /// How often a second each CPU was disturbed, of those that were.
    pub rates: BTreeMap<CpuId, [f64; 2]>,
    /// Stretches, the longest first.
    pub stretches: Vec<Stretch>,
    processors: usize,
    /// Some of what was seen could not be kept.
    is_partial: bool,
    /// As [`Disturbed::has_unknown_lengths`].
    has_unknown_lengths: bool,
}

/// Whether the limit was kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It was.
    Kept,
    /// It was not: why, in a sentence for each way.
    Broken(Vec<Broken>),
    /// It cannot be told: how long each took is not known.
    Unknown,
    /// It cannot be told: what was kept keeps within it, and not everything was kept.
    Partial,
}

/// One way in which a limit was not kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Broken {
    /// A cause took longer.
    Cause(Cause, Nanos),
    /// A stretch took longer.
    Stretch(Stretch),
    /// A CPU was disturbed more often a second.
    Rate(CpuId, f64),
}

const SECOND: f64 = 1e9;

impl Quiet {
    /// Adds up what was seen. `stretches` are all that were told during the watch.
    #[must_use]
    pub fn of(seen: &Disturbed, mut stretches: Vec<Stretch>) -> Quiet {
        let elapsed = Nanos(seen.at.0.saturating_sub(seen.began.0));
        let processors = seen.cpus.len();
        let mut lines: BTreeMap<Cause, QuietLine> = BTreeMap::new();
        let (is_partial, has_unknown_lengths) = (!seen.lost.is_empty(), seen.has_unknown_lengths);
        let mut quiet = Quiet { elapsed, processors, is_partial, has_unknown_lengths, ..Quiet::default() };
        for row in &seen.rows {
            quiet.count_row(row);
            match lines.get_mut(&row.cause) {
                Some(line) => line.join(row),
                None => {
                    lines.insert(row.cause.clone(), QuietLine::of(row));
                }
            }
        }
        quiet.lines = lines.into_values().collect();
        for line in &mut quiet.lines {
            line.rate = line.count.map(|count| rate(count, elapsed));
            line.share = line.total.map(|total| share(total, elapsed, processors));
        }
        // Equal ones stay in the order of their causes.
        quiet.lines.sort_by_key(|line| std::cmp::Reverse((line.total, line.count)));
        quiet.share = share(quiet.total, elapsed, processors);
        // One that goes on may be the longest of all: a job that never got its CPU back.
        stretches.extend(seen.going_on.iter().cloned());
        stretches.sort_by_key(|stretch| (std::cmp::Reverse(stretch.length), stretch.at, stretch.cpu));
        quiet.stretches = stretches;
        quiet
    }

    fn count_row(&mut self, row: &Disturbance) {
        if row.cause.doer == Doer::Watcher {
            return;
        }
        let count = row.count.unwrap_or(0);
        self.count = self.count.saturating_add(count);
        self.total = Nanos(self.total.0.saturating_add(row.total.unwrap_or_default().0));
        let [others, job] = self.rates.entry(row.cpu).or_default();
        let more = rate(count, self.elapsed);
        if row.cause.doer == Doer::Job { *job += more } else { *others += more }
    }

    /// The longest stretch in which the job did not run.
    #[must_use]
    pub fn worst(&self) -> Option<&Stretch> {
        self.stretches.iter().find(|stretch| stretch.cause.doer != Doer::Watcher)
    }

    /// Percent of the time of all watched CPUs that was the watcher's, and how often.
    #[must_use]
    pub fn watcher(&self) -> (u64, Nanos) {
        let lines = self.lines.iter().filter(|line| line.cause.doer == Doer::Watcher);
        lines.fold((0, Nanos(0)), |(count, total), line| {
            (count + line.count.unwrap_or(0), total + line.total.unwrap_or_default())
        })
    }

    /// Whether the limit was kept; `strict` counts what the job does to itself.
    #[must_use]
    pub fn judge(&self, limit: Limit, strict: bool) -> Verdict {
        let counts = |doer: Doer| doer == Doer::Others || (strict && doer == Doer::Job);
        let broken: Vec<Broken> = match limit {
            Limit::Time(most) => {
                let counted = || self.lines.iter().filter(|line| counts(line.cause.doer));
                let longer = counted().filter_map(|line| Some((line, line.longest.filter(|l| *l > most)?)));
                let causes = longer.map(|(line, longest)| Broken::Cause(line.cause.clone(), longest));
                let stretch = self.stretches.iter().find(|stretch| counts(stretch.cause.doer));
                let stretch = stretch.filter(|stretch| stretch.length > most).cloned().map(Broken::Stretch);
                let broken: Vec<Broken> = causes.chain(stretch).collect();
                if broken.is_empty() && self.has_unknown_lengths && counted().next().is_some() {
                    return Verdict::Unknown;
                }
                broken
            }
            Limit::Rate(most) => {
                let all = self.rates.iter();
                let sums = all.map(|(cpu, [others, job])| (*cpu, others + if strict { *job } else { 0.0 }));
                sums.filter(|(_, rate)| *rate > most).map(|(cpu, rate)| Broken::Rate(cpu, rate)).collect()
            }
        };
        match (broken.is_empty(), self.is_partial) {
            (false, _) => Verdict::Broken(broken),
            (true, true) => Verdict::Partial,
            (true, false) => Verdict::Kept,
        }
    }
}

impl QuietLine {
    fn of(row: &Disturbance) -> QuietLine {
        QuietLine {
            cause: row.cause.clone(),
            pid: row.pid,
            cpus: CpuSet::from_iter([row.cpu]),
            count: row.count,
            rate: None,
            longest: row.longest,
            total: row.total,
            share: None,
        }
    }

    fn join(&mut self, row: &Disturbance) {
        self.cpus.insert(row.cpu);
        self.pid = self.pid.or(row.pid);
        self.count = self.count.zip(row.count).map(|(a, b)| a.saturating_add(b));
        self.total = self.total.zip(row.total).map(|(a, b)| Nanos(a.0.saturating_add(b.0)));
        self.longest = self.longest.zip(row.longest).map(|(a, b)| a.max(b));
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate(count: u64, elapsed: Nanos) -> f64 {
    if elapsed.0 == 0 { 0.0 } else { count as f64 * SECOND / elapsed.0 as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn share(total: Nanos, elapsed: Nanos, processors: usize) -> f64 {
    let all = elapsed.0 as f64 * processors as f64;
    if all == 0.0 { 0.0 } else { 100.0 * total.0 as f64 / all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuSet, DisturbanceKind};
    use proptest::prelude::*;

    fn cause(name: &str, doer: Doer) -> Cause {
        Cause { kind: DisturbanceKind::Task, name: name.into(), by: None, doer }
    }

    fn row(cpu: u32, name: &str, doer: Doer, count: u64, total: u64, longest: u64) -> Disturbance {
        Disturbance {
            cpu: CpuId(cpu),
            cause: cause(name, doer),
            pid: None,
            count: Some(count),
            total: Some(Nanos(total)),
            longest: Some(Nanos(longest)),
            longest_at: None,
        }
    }

    fn seen(rows: Vec<Disturbance>) -> Disturbed {
        let cpus: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
        Disturbed { began: Nanos(5), at: Nanos(2_000_000_005), cpus, rows, ..Disturbed::default() }
    }

    #[test]
    fn causes_of_all_processors_stand_in_one_line() {
        let rows = vec![
            row(0, "cron", Doer::Others, 3, 10_000_000, 9_000_000),
            row(1, "cron", Doer::Others, 1, 10_000_000, 10_000_000),
            row(1, "tick", Doer::Others, 500, 1_000_000, 5_000),
        ];
        let quiet = Quiet::of(&seen(rows), Vec::new());
        let first = &quiet.lines[0];
        assert_eq!((first.cause.name.as_str(), first.count, first.cpus.len()), ("cron", Some(4), 2));
        assert_eq!((first.rate, first.longest, first.share), (Some(2.0), Some(Nanos(10_000_000)), Some(0.5)));
        assert_eq!((quiet.count, quiet.total), (504, Nanos(21_000_000)));
        assert_eq!(quiet.rates[&CpuId(1)], [250.5, 0.0]);
    }

    #[test]
    fn a_limit_is_about_what_others_do_unless_asked_otherwise() {
        let rows = vec![
            row(0, "cron", Doer::Others, 2, 50, 40),
            row(0, "job", Doer::Job, 100, 500, 400),
            row(0, "millpond", Doer::Watcher, 100, 5_000, 4_000),
        ];
        let quiet = Quiet::of(&seen(rows), Vec::new());
        assert_eq!(quiet.judge(Limit::Time(Nanos(40)), false), Verdict::Kept);
        let broken = vec![Broken::Cause(cause("cron", Doer::Others), Nanos(40))];
        assert_eq!(quiet.judge(Limit::Time(Nanos(39)), false), Verdict::Broken(broken));
        assert_eq!(quiet.judge(Limit::Rate(1.0), false), Verdict::Kept);
        let broken = Verdict::Broken(vec![Broken::Rate(CpuId(0), 51.0)]);
        assert_eq!(quiet.judge(Limit::Rate(50.0), true), broken);
        assert_eq!(quiet.watcher(), (100, Nanos(5_000)));
        assert_eq!((quiet.count, quiet.total), (102, Nanos(550)));
    }

    #[test]
    fn a_stretch_of_several_is_longer_than_each_of_them() {
        let stretch = |length| Stretch {
            cpu: CpuId(0),
            at: Nanos(9),
            length: Nanos(length),
            cause: cause("a", Doer::Others),
        };
        let rows = vec![row(0, "a", Doer::Others, 2, 50, 40)];
        let quiet = Quiet::of(&seen(rows), vec![stretch(60), stretch(90)]);
        assert_eq!(quiet.worst().map(|worst| worst.length), Some(Nanos(90)));
        let broken = Verdict::Broken(vec![Broken::Stretch(stretch(90))]);
        assert_eq!(quiet.judge(Limit::Time(Nanos(70)), false), broken);
    }

    #[test]
    fn a_stretch_that_goes_on_counts() {
        let cause = cause("a", Doer::Others);
        let stretch = Stretch { cpu: CpuId(0), at: Nanos(9), length: Nanos(90), cause };
        let seen = Disturbed { going_on: vec![stretch.clone()], ..seen(Vec::new()) };
        let verdict = Quiet::of(&seen, Vec::new()).judge(Limit::Time(Nanos(70)), false);
        assert_eq!(verdict, Verdict::Broken(vec![Broken::Stretch(stretch)]));
    }

    #[test]
    fn without_times_a_limit_on_time_cannot_be_judged() {
        let untimed = Disturbance { total: None, longest: None, ..row(0, "eth0", Doer::Others, 2, 0, 0) };
        let seen = |rows| Disturbed { has_unknown_lengths: true, ..seen(rows) };
        let quiet = Quiet::of(&seen(vec![untimed]), Vec::new());
        assert_eq!(quiet.judge(Limit::Time(Nanos(1)), false), Verdict::Unknown);
        assert_eq!(quiet.judge(Limit::Rate(1.0), false), Verdict::Kept);
        assert_eq!(quiet.lines[0].share, None);
        assert_eq!(Quiet::of(&seen(vec![]), vec![]).judge(Limit::Time(Nanos(1)), false), Verdict::Kept);
    }

    #[test]
    fn where_some_lengths_are_unknown_a_limit_on_time_can_be_broken_and_not_kept() {
        let found = vec![row(0, "cron", Doer::Others, 2, 50, 40)];
        let seen = |rows| Disturbed { has_unknown_lengths: true, ..seen(rows) };
        let quiet = Quiet::of(&seen(found), Vec::new());
        assert!(matches!(quiet.judge(Limit::Time(Nanos(39)), false), Verdict::Broken(_)));
        assert_eq!(quiet.judge(Limit::Time(Nanos(40)), false), Verdict::Unknown);
        assert_eq!(quiet.judge(Limit::Rate(1.0), false), Verdict::Kept);
        let nothing = Quiet::of(&seen(Vec::new()), Vec::new());
        assert_eq!(nothing.judge(Limit::Time(Nanos(40)), false), Verdict::Kept, "nothing came");
    }

    #[test]
    fn what_was_not_kept_proves_no_quiet_but_may_break_a_limit() {
        let lost = vec!["3 stretches that came faster than they were read".to_owned()];
        let seen = Disturbed { lost, ..seen(vec![row(0, "cron", Doer::Others, 2, 50, 40)]) };
        let quiet = Quiet::of(&seen, Vec::new());
        assert_eq!(quiet.judge(Limit::Time(Nanos(40)), false), Verdict::Partial);
        assert_eq!(quiet.judge(Limit::Rate(1.0), false), Verdict::Partial);
        assert!(matches!(quiet.judge(Limit::Time(Nanos(39)), false), Verdict::Broken(_)));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_counted_twice(
            all in proptest::collection::vec((0u32..2, 0usize..4, 0u64..1000, 0u64..1_000_000), 0..30)
        ) {
            let names = ["a", "b", "c", "d"];
            let rows: Vec<_> =
                all.iter().map(|&(cpu, name, count, total)| row(cpu, names[name], Doer::Others, count, total, total)).collect();
            let quiet = Quiet::of(&seen(rows), Vec::new());
            prop_assert_eq!(quiet.count, all.iter().map(|row| row.2).sum::<u64>());
            prop_assert_eq!(quiet.total.0, all.iter().map(|row| row.3).sum::<u64>());
            let shares: f64 = quiet.lines.iter().filter_map(|line| line.share).sum();
            prop_assert!((shares - quiet.share).abs() < 1e-9);
            let totals: Vec<_> = quiet.lines.iter().map(|line| line.total).collect();
            prop_assert!(totals.is_sorted_by(|a, b| a >= b));
        }
    }
}
