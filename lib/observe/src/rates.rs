//! Rates and shares of an interval, by CPU and by set.

use crate::change::pairs;
use millpond_model::{COLUMNS, Column, CpuId, CpuSample, CpuSet, Nanos, PsetId, Sample, Ticks, WallTime};
use std::collections::BTreeMap;

/// Where time went, in percent of all time. The parts add up to 100, or are all 0 if there was no time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shares {
    /// In user programs.
    pub user: f64,
    /// In the kernel.
    pub sys: f64,
    /// Idle with outstanding input or output.
    pub wait: f64,
    /// Idle.
    pub idle: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
}

impl Shares {
    fn of(ticks: &Ticks) -> Shares {
        let total = ticks.total();
        let share =
            |part: Nanos| if total.0 == 0 { 0.0 } else { 100.0 * part.as_secs_f64() / total.as_secs_f64() };
        Shares {
            user: share(ticks.user),
            sys: share(ticks.sys),
            wait: share(ticks.wait),
            idle: share(ticks.idle),
            steal: share(ticks.steal),
        }
    }

    /// Shares of the time that was not stolen: the other four add up to 100, or are all 0 if everything was.
    #[must_use]
    pub fn without_steal(self) -> Shares {
        let had = self.user + self.sys + self.wait + self.idle;
        let share = |part: f64| if had > 0.0 { 100.0 * part / had } else { 0.0 };
        Shares {
            user: share(self.user),
            sys: share(self.sys),
            wait: share(self.wait),
            idle: share(self.idle),
            steal: 0.0,
        }
    }
}

/// What one CPU, or one set, did.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Events per second by [`Column::index`]; `None` for what was not counted.
    pub rates: [Option<f64>; COLUMNS.len()],
    /// Time by use.
    pub ticks: Ticks,
}

impl Interval {
    /// Events per second.
    #[must_use]
    pub fn rate(&self, column: Column) -> Option<f64> {
        self.rates[column.index()]
    }

    /// Time by use, in percent.
    #[must_use]
    pub fn shares(&self) -> Shares {
        Shares::of(&self.ticks)
    }

    /// From two looks at one CPU, `between` apart; from one look for the time since boot.
    fn of(before: Option<&CpuSample>, after: &CpuSample, between: Nanos) -> Interval {
        let ticks = elapsed(before.map(|b| &b.ticks), &after.ticks);
        let seconds = match (ticks.total(), between) {
            (Nanos(0), Nanos(0)) => 1.0,
            (Nanos(0), between) => between.as_secs_f64(),
            (total, _) => total.as_secs_f64(),
        };
        let mut rates = [None; COLUMNS.len()];
        for (index, rate) in rates.iter_mut().enumerate() {
            let old = before.map_or(Some(0), |b| b.events[index]);
            *rate = after.events[index].zip(old).map(|(new, old)| count(new.saturating_sub(old)) / seconds);
        }
        Interval { rates, ticks }
    }

    /// What several CPUs did together.
    fn sum<'i>(members: impl Iterator<Item = &'i Interval>) -> Interval {
        let mut sum = Interval { rates: [Some(0.0); COLUMNS.len()], ticks: Ticks::default() };
        for member in members {
            for (total, rate) in sum.rates.iter_mut().zip(&member.rates) {
                *total = total.zip(*rate).map(|(a, b)| a + b);
            }
            sum.ticks = add(&sum.ticks, &member.ticks);
        }
        sum
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs 15 digits at most")]
fn count(events: u64) -> f64 {
    events as f64
}

fn elapsed(before: Option<&Ticks>, after: &Ticks) -> Ticks {
    let zero = Ticks::default();
    let before = before.unwrap_or(&zero);
    Ticks {
        user: after.user - before.user,
        sys: after.sys - before.sys,
        wait: after.wait - before.wait,
        idle: after.idle - before.idle,
        steal: after.steal - before.steal,
    }
}

fn add(a: &Ticks, b: &Ticks) -> Ticks {
    Ticks {
        user: a.user + b.user,
        sys: a.sys + b.sys,
        wait: a.wait + b.wait,
        idle: a.idle + b.idle,
        steal: a.steal + b.steal,
    }
}

/// A CPU's part of a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuRates {
    /// Which.
    pub cpu: CpuId,
    /// The set it is in.
    pub set: PsetId,
    /// What it did.
    pub interval: Interval,
}

/// The part of a frame that belongs to a group of CPUs: a set, a core, a chip.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRates {
    /// Its number.
    pub id: u32,
    /// How many active CPUs it has, at least 1.
    pub size: u32,
    /// What they did together.
    pub interval: Interval,
}

/// What the active CPUs of a machine did in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// The end of the interval, on the machine's monotonic clock.
    pub at: Nanos,
    /// The end of the interval, on the wall.
    pub wall: WallTime,
    /// Its length; `None` when it began at boot.
    pub elapsed: Option<Nanos>,
    /// The CPUs that were active at its end, ascending.
    pub cpus: Vec<CpuRates>,
    /// What is missing and why, one sentence each.
    pub missing: Vec<String>,
}

impl Rates {
    /// The time since boot.
    #[must_use]
    pub fn since_boot(sample: Sample) -> Rates {
        let frame = |cpu: CpuSample| CpuRates {
            cpu: cpu.cpu,
            set: cpu.set,
            interval: Interval::of(None, &cpu, sample.at),
        };
        Rates {
            at: sample.at,
            wall: sample.wall,
            elapsed: None,
            // Each in its sample's place: no memory of a thousand CPUs is touched for the first time.
            cpus: sample.cpus.into_iter().map(frame).collect(),
            missing: sample.missing,
        }
    }

    /// The interval between two samples of one watch. A CPU that is not in both has no part in it: its
    /// coming or going is a change, after which observers show figures since boot.
    #[must_use]
    pub fn between(before: &Sample, after: &Sample) -> Rates {
        let elapsed = after.at - before.at;
        let frame = |(old, new): (&CpuSample, &CpuSample)| CpuRates {
            cpu: new.cpu,
            set: new.set,
            interval: Interval::of(Some(old), new, elapsed),
        };
        Rates {
            at: after.at,
            wall: after.wall,
            elapsed: Some(elapsed),
            cpus: pairs(before, after).map(frame).collect(),
            missing: after.missing.clone(),
        }
    }

    /// The same frame with the CPUs of these sets only.
    #[must_use]
    pub fn of_sets(mut self, sets: &[PsetId]) -> Rates {
        self.cpus.retain(|cpu| sets.contains(&cpu.set));
        self
    }

    /// The sets that have an active CPU, ascending, the default set among them.
    #[must_use]
    pub fn sets(&self) -> Vec<GroupRates> {
        self.by(|cpu| Some(cpu.set.0))
    }

    /// The groups that have an active CPU, ascending: what their CPUs did together, rates as sums and shares of all their time.
    /// `group` is the number of a CPU's group; one without is in none.
    #[must_use]
    pub fn by(&self, group: impl Fn(&CpuRates) -> Option<u32>) -> Vec<GroupRates> {
        let mut members: BTreeMap<u32, Vec<&Interval>> = BTreeMap::new();
        for cpu in &self.cpus {
            if let Some(group) = group(cpu) {
                members.entry(group).or_default().push(&cpu.interval);
            }
        }
        let frame = |(id, members): (u32, Vec<&Interval>)| GroupRates {
            id,
            size: u32::try_from(members.len()).unwrap_or(u32::MAX),
            interval: Interval::sum(members.into_iter()),
        };
        members.into_iter().map(frame).collect()
    }

    /// What some CPUs did together; nothing where none of them was active.
    #[must_use]
    pub fn together(&self, cpus: &CpuSet) -> Option<GroupRates> {
        self.by(|cpu| cpus.contains(cpu.cpu).then_some(0)).pop()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_cpu(cpu: u32) -> impl Strategy<Value = CpuSample> {
        let event = proptest::option::weighted(0.8, 0u64..1_000_000_000);
        let times = proptest::array::uniform5(0u64..1_000_000_000_000);
        (0u32..3, proptest::array::uniform11(event), times).prop_map(move |(set, events, times)| {
            let [user, sys, wait, idle, steal] = times.map(Nanos);
            let ticks = Ticks { user, sys, wait, idle, steal };
            CpuSample { cpu: CpuId(cpu), set: PsetId(set), events, ticks }
        })
    }

    /// A sample with some of eight CPUs in some of three sets.
    pub(crate) fn any_sample() -> impl Strategy<Value = Sample> {
        let cpus = proptest::collection::btree_set(0u32..8, 0..8)
            .prop_flat_map(|cpus| cpus.into_iter().map(any_cpu).collect::<Vec<_>>());
        (cpus, any::<u32>(), proptest::collection::btree_set(1u32..3, 0..3)).prop_map(|(cpus, at, sets)| {
            Sample {
                at: Nanos(u64::from(at)),
                wall: WallTime(0),
                cpus,
                sets: sets.into_iter().map(PsetId).collect(),
                missing: vec![],
            }
        })
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * (1.0 + a.abs() + b.abs())
    }

    fn total(shares: &Shares) -> f64 {
        shares.user + shares.sys + shares.wait + shares.idle + shares.steal
    }

    proptest! {
        #[test]
        fn rates_and_shares_are_never_negative_and_idle_never_exceeds_elapsed(
            before in any_sample(), after in any_sample()
        ) {
            for cpu in Rates::between(&before, &after).cpus {
                for rate in cpu.interval.rates.into_iter().flatten() {
                    prop_assert!(rate >= 0.0 && rate.is_finite());
                }
                let shares = cpu.interval.shares();
                for share in [shares.user, shares.sys, shares.wait, shares.idle, shares.steal] {
                    prop_assert!((0.0..=100.0 + 1e-9).contains(&share));
                }
                prop_assert!(cpu.interval.ticks.idle <= cpu.interval.ticks.total());
                prop_assert!(close(total(&shares), 100.0) || cpu.interval.ticks.total() == Nanos(0));
            }
        }

        #[test]
        fn what_is_not_counted_in_both_samples_has_no_rate(before in any_sample(), after in any_sample()) {
            let frame = Rates::between(&before, &after);
            for (old, new) in pairs(&before, &after) {
                let cpu = frame.cpus.iter().find(|c| c.cpu == new.cpu).unwrap();
                for column in COLUMNS {
                    let counted = old.events[column.index()].is_some() && new.events[column.index()].is_some();
                    prop_assert_eq!(cpu.interval.rate(column).is_some(), counted);
                }
            }
        }

        #[test]
        fn sets_are_the_sums_of_their_members(sample in any_sample()) {
            let frame = Rates::since_boot(sample);
            let sets = frame.sets();
            prop_assert_eq!(sets.iter().map(|s| s.size as usize).sum::<usize>(), frame.cpus.len());
            prop_assert!(sets.is_sorted_by_key(|s| s.id));
            for set in &sets {
                prop_assert!(set.size > 0);
                let members = frame.clone().of_sets(&[PsetId(set.id)]);
                for column in COLUMNS {
                    let sum = members.cpus.iter().try_fold(0.0, |sum, m| Some(sum + m.interval.rate(column)?));
                    match (set.interval.rate(column), sum) {
                        (Some(a), Some(b)) => prop_assert!(close(a, b)),
                        (a, b) => prop_assert_eq!(a.is_some(), b.is_some()),
                    }
                }
                prop_assert!(close(total(&set.interval.shares()), 100.0) || set.interval.ticks.total() == Nanos(0));
            }
        }

        #[test]
        fn without_steal_the_other_four_make_the_whole(sample in any_sample()) {
            for cpu in Rates::since_boot(sample).cpus {
                let shares = cpu.interval.shares().without_steal();
                prop_assert!(shares.steal == 0.0);
                prop_assert!(close(total(&shares), 100.0) || close(cpu.interval.shares().steal, 100.0) || cpu.interval.ticks.total() == Nanos(0));
            }
        }

        #[test]
        fn two_intervals_together_count_what_the_whole_counts(
            first in any_sample(), more in proptest::array::uniform11(0u64..1_000_000), rest in proptest::array::uniform11(0u64..1_000_000)
        ) {
            let grow = |sample: &Sample, by: &[u64; 11]| {
                let mut sample = sample.clone();
                for cpu in &mut sample.cpus {
                    for (event, by) in cpu.events.iter_mut().zip(by) {
                        *event = event.map(|e| e + by);
                    }
                    cpu.ticks.idle = cpu.ticks.idle + Nanos::from_secs(1);
                }
                sample
            };
            let (second, third) = (grow(&first, &more), grow(&grow(&first, &more), &rest));
            let whole = Rates::between(&first, &third);
            let (a, b) = (Rates::between(&first, &second), Rates::between(&second, &third));
            for ((whole, a), b) in whole.cpus.iter().zip(&a.cpus).zip(&b.cpus) {
                for column in COLUMNS {
                    if let Some(rate) = whole.interval.rate(column) {
                        let parts = a.interval.rate(column).unwrap() + b.interval.rate(column).unwrap();
                        prop_assert!(close(rate * 2.0, parts));
                    }
                }
            }
        }
    }

    fn cpu(id: u32, syscl: u64, ticks: Ticks) -> CpuSample {
        let mut events = [None; COLUMNS.len()];
        events[Column::Syscl.index()] = Some(syscl);
        CpuSample { cpu: CpuId(id), set: PsetId::DEFAULT, events, ticks }
    }

    fn sample(at: Nanos, cpus: Vec<CpuSample>) -> Sample {
        Sample { at, wall: WallTime(0), cpus, sets: vec![], missing: vec![] }
    }

    #[test]
    fn the_second_of_a_rate_is_that_of_the_processor_itself() {
        let s = Nanos::from_secs;
        let before =
            sample(s(100), vec![cpu(0, 1000, Ticks { user: s(10), idle: s(90), ..Ticks::default() })]);
        let after =
            sample(s(105), vec![cpu(0, 3000, Ticks { user: s(11), idle: s(93), ..Ticks::default() })]);
        let interval = &Rates::between(&before, &after).cpus[0].interval;
        assert_eq!(interval.rate(Column::Syscl), Some(500.0));
        assert_eq!((interval.shares().user, interval.shares().idle), (25.0, 75.0));
    }

    #[test]
    fn a_clock_that_did_not_tick_falls_back_on_the_time_between_samples() {
        let before = sample(Nanos::from_millis(100), vec![cpu(0, 0, Ticks::default())]);
        let after = sample(Nanos::from_millis(104), vec![cpu(0, 8, Ticks::default())]);
        assert_eq!(Rates::between(&before, &after).cpus[0].interval.rate(Column::Syscl), Some(2000.0));
        assert_eq!(Rates::between(&before, &before).cpus[0].interval.rate(Column::Syscl), Some(0.0));
    }

    #[test]
    fn half_of_the_time_stolen_leaves_a_busy_guest_at_a_hundred() {
        let s = Nanos::from_secs;
        let ticks = Ticks { user: s(1), steal: s(1), ..Ticks::default() };
        let frame = Rates::since_boot(sample(s(2), vec![cpu(0, 10, ticks)]));
        let interval = &frame.cpus[0].interval;
        assert_eq!((interval.shares().user, interval.shares().steal), (50.0, 50.0));
        assert_eq!(interval.shares().without_steal().user, 100.0);
        assert_eq!(interval.rate(Column::Syscl), Some(5.0), "stolen seconds are seconds");
    }
}
