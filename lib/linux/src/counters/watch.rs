//! A watch: counters that run for as long as somebody looks, joined with the tables of `/proc`.

use super::events::{self, Group, Plan};
use super::perf;
use super::placement::{Placement, Placements, set_apart_at_boot};
use super::proc::{Tables, now, own_cpu_time, wall};
use crate::Root;
use millpond_machine::facets::{CounterWatch, WatchOptions};
use millpond_machine::{Absent, Refusal};
use millpond_model::{COLUMNS, Column, CpuId, CpuSample, CpuSet, Nanos, Sample, Ticks};
use std::collections::BTreeMap;

/// What is known of a processor from sample to sample.
#[derive(Debug, Default)]
struct Watched {
    /// Its counters; none on a sheltered processor, and where nothing can be counted.
    group: Option<Group>,
    /// What the group said last; all 0 when it was opened.
    seen: [u64; COLUMNS.len()],
    /// Sum of what groups said since the watch began: goes on where the last group left off.
    totals: [u64; COLUMNS.len()],
    /// Time slices that the tables named last.
    slices: Option<u64>,
    /// Time by use as last reported.
    ticks: Ticks,
}

impl Watched {
    fn begin(&mut self, group: Group) {
        self.group = Some(group);
        self.seen = [0; COLUMNS.len()];
    }

    /// Adds what happened since the last look, for the columns that the group has.
    fn advance(&mut self, counted: &[Option<u64>; COLUMNS.len()]) {
        for ((total, seen), now) in self.totals.iter_mut().zip(&mut self.seen).zip(counted) {
            let now = now.unwrap_or(*seen);
            *total = total.saturating_add(now.saturating_sub(*seen));
            *seen = now;
        }
    }

    /// The kernel's idle and waiting times are known to step back by a tick; ours do not.
    fn advance_ticks(&mut self, now: Ticks) -> Ticks {
        self.ticks = Ticks {
            user: now.user.max(self.ticks.user),
            sys: now.sys.max(self.ticks.sys),
            wait: now.wait.max(self.ticks.wait),
            idle: now.idle.max(self.ticks.idle),
            steal: now.steal.max(self.ticks.steal),
        };
        self.ticks
    }
}

/// The watch.
pub(super) struct LinuxWatch<'a> {
    placements: Placements<'a>,
    options: WatchOptions,
    apart: CpuSet,
    tables: Tables,
    root: Root,
    /// Made when the first processor that may be touched is seen.
    plan: Option<Plan>,
    watched: BTreeMap<CpuId, Watched>,
    untouched: CpuSet,
    /// Processors whose counters could not be opened, with the reason.
    unopened: BTreeMap<CpuId, String>,
    cost: Nanos,
    samples: u32,
}

impl<'a> LinuxWatch<'a> {
    /// Opens everything and takes a first look, so that counting begins now.
    pub(super) fn start(
        root: &Root,
        placements: Placements<'a>,
        options: WatchOptions,
    ) -> Result<Self, Absent> {
        if !root.live {
            return Err(Absent::with_help(
                "it is a captured machine, where nothing goes on",
                "leave out the interval to see the figures since boot",
            ));
        }
        let tables = Tables::open(root).map_err(|refusal| Absent::because(refusal.reason.to_string()))?;
        let mut watch = LinuxWatch {
            placements,
            options,
            apart: set_apart_at_boot(root),
            tables,
            root: root.clone(),
            plan: None,
            watched: BTreeMap::new(),
            untouched: CpuSet::new(),
            unopened: BTreeMap::new(),
            cost: Nanos(0),
            samples: 0,
        };
        watch.take().map_err(|refusal| Absent::because(refusal.reason.to_string()))?;
        Ok(watch)
    }

    fn take(&mut self) -> Result<Sample, Refusal> {
        let placement = (self.placements)()?;
        self.tables.read()?;
        let at = now();
        self.follow(&placement);
        let mut cpus = Vec::with_capacity(self.tables.active().len());
        for index in 0..self.tables.active().len() {
            let mut row = self.tables.row(index, &placement);
            self.count(&mut row, index);
            cpus.push(row);
        }
        Ok(Sample { at, wall: wall(), cpus, sets: placement.sets, missing: self.missing() })
    }

    /// Begins and ends counting where processors came, left, or were sheltered since the last look.
    fn follow(&mut self, placement: &Placement) {
        let active: CpuSet = self.tables.active().iter().map(|(cpu, _)| *cpu).collect();
        self.untouched = if self.options.touch_fenced {
            CpuSet::new()
        } else {
            &(&placement.sheltered | &self.apart) & &active
        };
        self.unopened.retain(|cpu, _| active.contains(*cpu));
        for (cpu, watched) in &mut self.watched {
            if watched.group.is_some() && (!active.contains(*cpu) || self.untouched.contains(*cpu)) {
                watched.group = None;
            }
        }
        let to_open: Vec<CpuId> = (&active - &self.untouched)
            .iter()
            .filter(|cpu| self.watched.get(cpu).is_none_or(|w| w.group.is_none()))
            .filter(|cpu| !self.unopened.contains_key(cpu))
            .collect();
        for cpu in active.iter() {
            self.watched.entry(cpu).or_default();
        }
        if !to_open.is_empty() {
            perf::allow_descriptors((active.len() as u64).saturating_mul(events::DESCRIPTORS_PER_CPU));
            self.open(&to_open);
        }
    }

    /// Opens the counters of all, then starts them together: opening takes long, and a watch should begin
    /// everywhere at one time.
    fn open(&mut self, cpus: &[CpuId]) {
        let mut groups = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let opened = match &self.plan {
                Some(plan) => plan.open(*cpu),
                None => {
                    let (plan, group) = Plan::make(&self.root, *cpu);
                    self.plan = Some(plan);
                    Ok(group)
                }
            };
            groups.push((*cpu, opened));
        }
        for (cpu, opened) in groups {
            match opened.and_then(|group| group.start().map(|()| group)) {
                Ok(group) => self.watched.entry(cpu).or_default().begin(group),
                Err(error) => {
                    self.unopened.insert(cpu, events::explain(&error));
                }
            }
        }
    }

    /// Adds what the events of a processor say to its row.
    fn count(&mut self, row: &mut CpuSample, index: usize) {
        let counted = self.read_group(row.cpu).or_else(|| self.reopen(row.cpu));
        let watched = self.watched.entry(row.cpu).or_default();
        let slices = row.events[Column::Csw.index()];
        if let Some(counted) = counted {
            watched.advance(&counted);
            for column in COLUMNS {
                let total = counted[column.index()].map(|_| watched.totals[column.index()]);
                row.events[column.index()] = match column {
                    // Threads of interrupts come on top of the deferred work that the table counts.
                    Column::Intr | Column::Ithr => row.events[column.index()],
                    _ => total,
                };
            }
        } else if let Some((now, before)) = slices.zip(watched.slices) {
            let csw = &mut watched.totals[Column::Csw.index()];
            *csw = csw.saturating_add(now.saturating_sub(before));
        }
        if counted.is_none() && slices.is_some() {
            row.events[Column::Csw.index()] = Some(watched.totals[Column::Csw.index()]);
        }
        watched.slices = slices;
        if let Some(deferred) = &mut row.events[Column::Ithr.index()] {
            *deferred = deferred.saturating_add(watched.totals[Column::Ithr.index()]);
        }
        row.ticks = watched.advance_ticks(row.ticks);
        if self.plan.as_ref().is_some_and(|plan| plan.reason(Column::Xcal).is_some()) {
            row.events[Column::Xcal.index()] = self.tables.calls_received(row.cpu, index);
        }
    }

    fn read_group(&self, cpu: CpuId) -> Option<[Option<u64>; COLUMNS.len()]> {
        let group = self.watched.get(&cpu)?.group.as_ref()?;
        self.plan.as_ref()?.read(group).ok().flatten()
    }

    /// A group that cannot be read belongs to a processor that was off-line since the last look, too short
    /// to be missed in the tables: counts on with a new one.
    fn reopen(&mut self, cpu: CpuId) -> Option<[Option<u64>; COLUMNS.len()]> {
        self.watched.get_mut(&cpu)?.group.take()?;
        self.open(&[cpu]);
        self.read_group(cpu)
    }

    /// What is missing and why, one sentence per reason.
    fn missing(&self) -> Vec<String> {
        let mut missing = self.tables.missing();
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for column in COLUMNS {
            let reason = self.plan.as_ref().and_then(|plan| plan.reason(column));
            if let Some(reason) = reason.filter(|_| self.is_absent(column)) {
                reasons.entry(reason).or_default().push(column.word());
            }
        }
        missing
            .extend(reasons.into_iter().map(|(reason, columns)| format!("{}: {reason}", columns.join(", "))));
        if !self.untouched.is_empty() {
            let kept = if self.tables.has_slices() { "" } else { ", csw" };
            missing.push(format!(
                "minf, mjf, xcal, icsw, migr, smtx, srw, syscl{kept} of processors {}: reading their counters \
                 would interrupt them (--touch-fenced reads them)",
                self.untouched
            ));
        }
        for (cpu, reason) in &self.unopened {
            missing.push(format!("events of processor {cpu}: {reason}"));
        }
        missing
    }

    /// Whether a column that has no events has no other source either.
    fn is_absent(&self, column: Column) -> bool {
        match column {
            Column::Intr | Column::Ithr => false,
            Column::Csw => !self.tables.has_slices(),
            Column::Xcal => !self.tables.has_calls(),
            _ => true,
        }
    }

    fn origin(&self, column: Column) -> String {
        let reason = self.plan.as_ref().and_then(|plan| plan.reason(column));
        match (column, reason) {
            (Column::Intr, _) => "rows of /proc/interrupts (without TLB, MCP, RTR, ERR, MIS)".to_owned(),
            (Column::Ithr, None) => {
                format!("device rows of /proc/softirqs + {}", events::origin(column))
            }
            (Column::Ithr, Some(reason)) => {
                format!("device rows of /proc/softirqs, without interrupt threads: {reason}")
            }
            (Column::Xcal, Some(reason)) if self.tables.has_calls() => {
                format!("calls received (/proc/interrupts) instead of sent: {reason}")
            }
            (Column::Csw, Some(reason)) if self.tables.has_slices() => {
                format!("time slices (/proc/schedstat), without switches to idle: {reason}")
            }
            (_, Some(reason)) => format!("not counted: {reason}"),
            (_, None) => events::origin(column),
        }
    }
}

impl CounterWatch for LinuxWatch<'_> {
    fn sample(&mut self) -> Result<Sample, Refusal> {
        let before = own_cpu_time();
        let sample = self.take();
        self.cost = self.cost + (own_cpu_time() - before);
        self.samples += 1;
        sample
    }

    fn explain(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            COLUMNS.iter().map(|column| format!("{column:<5} {}", self.origin(*column))).collect();
        lines.push(
            "usr sys wt idl  /proc/stat (user + nice, system + irq + softirq, iowait, idle)".to_owned(),
        );
        if !self.untouched.is_empty() {
            lines.push(format!(
                "processors {} are left alone: their rows come from /proc; starting and ending the watch \
                 interrupts them a few times all the same",
                self.untouched
            ));
        }
        if let Some(mean) = self.cost.0.checked_div(u64::from(self.samples)) {
            lines.push(format!(
                "watching costs {}.{:03} ms of processor time per sample (mean of {})",
                mean / 1_000_000,
                mean / 1000 % 1000,
                self.samples
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn totals_never_go_back_and_hold_what_every_group_counted(
            groups in proptest::collection::vec(proptest::collection::vec(0u64..1000, 1..5), 1..5)
        ) {
            let mut watched = Watched::default();
            let (mut expected, mut last) = (0, 0);
            for increments in groups {
                watched.seen = [0; COLUMNS.len()];
                let mut value = 0;
                for increment in increments {
                    value += increment;
                    expected += increment;
                    let mut counted = [None; COLUMNS.len()];
                    counted[Column::Syscl.index()] = Some(value);
                    watched.advance(&counted);
                    let total = watched.totals[Column::Syscl.index()];
                    prop_assert!(total >= last);
                    last = total;
                }
            }
            prop_assert_eq!(last, expected);
            prop_assert_eq!(watched.totals[Column::Csw.index()], 0);
        }

        #[test]
        fn time_by_use_never_goes_back(times in proptest::collection::vec(proptest::array::uniform5(0u64..100), 2..6)) {
            let mut watched = Watched::default();
            let mut last = Ticks::default();
            for time in times {
                let [user, sys, wait, idle, steal] = time.map(Nanos);
                let now = watched.advance_ticks(Ticks { user, sys, wait, idle, steal });
                prop_assert!(now.idle >= last.idle && now.total() >= last.total());
                last = now;
            }
        }
    }

    #[test]
    fn a_captured_machine_cannot_be_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::paper(dir.path());
        let placements = || Ok(Placement::default());
        let absent = LinuxWatch::start(&root, Box::new(placements), WatchOptions::default()).err().unwrap();
        assert_eq!(absent.why, "it is a captured machine, where nothing goes on");
    }
}
