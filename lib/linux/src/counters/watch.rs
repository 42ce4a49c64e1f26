//! A watch: counters that run while it exists, joined with the tables of `/proc`.

use super::events::{self, Group, Plan};
use super::meter::Meters;
use super::perf;
use super::placement::{Placement, Placements, set_apart_at_boot};
use super::proc::{Tables, now, own_cpu_time, wall};
use super::shared::SharedCounters;
use crate::Os;
use millpond_machine::facets::{CounterWatch, WatchOptions};
use millpond_machine::{Absent, Refusal};
use millpond_model::{COLUMNS, Column, CpuId, CpuSample, CpuSet, Nanos, Sample};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Source number of the tables of `/proc`. Each event group is a source of its own.
const TABLES: u32 = 0;
/// Source number of the BPF programs.
const PROGRAMS: u32 = 1;

/// State of a CPU between samples.
#[derive(Debug)]
struct Watched {
    cpu: CpuId,
    /// Its events; `None` on a shielded CPU, and where events count no column.
    group: Option<(u32, Group)>,
    /// The event that triggers a BPF program, kept open.
    held: Option<OwnedFd>,
    meters: Meters,
}

impl Watched {
    fn new(cpu: CpuId) -> Self {
        Watched { cpu, group: None, held: None, meters: Meters::default() }
    }
}

/// The watch.
pub(super) struct LinuxWatch<'a> {
    placements: Placements<'a>,
    options: WatchOptions,
    apart: CpuSet,
    tables: Tables,
    os: &'a Os,
    /// The BPF programs, or why they are unavailable.
    shared: Option<Result<SharedCounters, String>>,
    /// The events for columns that the programs do not count.
    plan: Option<Plan>,
    /// One per active CPU, in the order of the tables.
    watched: Vec<Watched>,
    last_source: u32,
    /// The placement at the last reading. While it is unchanged, nothing is opened or closed.
    placement: Rc<Placement>,
    from_tables: [bool; COLUMNS.len()],
    missing: Vec<String>,
    /// CPUs whose events are not read.
    untouched: CpuSet,
    /// CPUs whose events could not be opened, with the reason.
    unopened: BTreeMap<CpuId, String>,
    /// This thread's CPU time when the watch began.
    began: Nanos,
    samples: u32,
}

impl<'a> LinuxWatch<'a> {
    /// Opens all sources and takes a first reading, so that counting begins now.
    pub(super) fn start(
        os: &'a Os,
        placements: Placements<'a>,
        options: WatchOptions,
    ) -> Result<Self, Absent> {
        os.root.running(|| {
            Absent::with_help(
                "it is a captured machine, where nothing goes on",
                "leave out the interval to see the figures since boot",
            )
        })?;
        let absent = |refusal: Refusal| Absent::because(refusal.reason.to_string());
        let mut watch = LinuxWatch {
            placements,
            options,
            apart: set_apart_at_boot(&os.root),
            tables: Tables::open(&os.root).map_err(absent)?,
            os,
            shared: None,
            plan: None,
            watched: Vec::new(),
            last_source: PROGRAMS,
            placement: Rc::default(),
            from_tables: [false; COLUMNS.len()],
            missing: Vec::new(),
            untouched: CpuSet::new(),
            unopened: BTreeMap::new(),
            began: Nanos(0),
            samples: 0,
        };
        watch.take().map_err(absent)?;
        watch.began = own_cpu_time();
        Ok(watch)
    }

    /// Uses events even where programs could count.
    #[cfg(test)]
    pub(super) fn start_without_programs(os: &'a Os, placements: Placements<'a>) -> Result<Self, Absent> {
        let mut watch = Self::start(os, placements, WatchOptions::default())?;
        watch.shared = Some(Err("this is a test".to_owned()));
        watch.plan = None;
        watch.watched.clear();
        watch.take().map_err(|refusal| Absent::because(refusal.reason.to_string()))?;
        Ok(watch)
    }

    fn take(&mut self) -> Result<Sample, Refusal> {
        let placement = (self.placements)()?;
        self.tables.read_active()?;
        let at = now();
        let active = self.tables.active();
        let same = Rc::ptr_eq(&placement, &self.placement)
            && active.iter().map(|(cpu, _)| *cpu).eq(self.watched.iter().map(|watched| watched.cpu));
        if !same {
            self.placement = placement;
            self.follow();
        }
        let from_tables = self.from_tables;
        if self.options.times_only {
            let cpus = (0..self.watched.len()).map(|index| self.row(index)).collect();
            let sets = self.placement.sets.clone();
            return Ok(Sample { at, wall: wall(), cpus, sets, missing: Vec::new() });
        }
        self.tables.read_columns(|column| from_tables[column.index()])?;
        let cpus: Vec<CpuSample> = (0..self.watched.len()).map(|index| self.row(index)).collect();
        if !same {
            self.missing = self.find_missing();
        }
        let (sets, missing) = (self.placement.sets.clone(), self.missing.clone());
        Ok(Sample { at, wall: wall(), cpus, sets, missing })
    }

    /// Starts and stops counting on CPUs that appeared, disappeared or became shielded since the last reading.
    fn follow(&mut self) {
        let active: CpuSet = self.tables.active().iter().map(|(cpu, _)| *cpu).collect();
        self.untouched = if self.options.touch_fenced {
            CpuSet::new()
        } else {
            &(&self.placement.shielded | &self.apart) & &active
        };
        let touched = &active - &self.untouched;
        self.unopened.retain(|cpu, _| touched.contains(*cpu));
        let mut known: BTreeMap<CpuId, Watched> = self.watched.drain(..).map(|w| (w.cpu, w)).collect();
        for cpu in active.iter() {
            let mut watched = known.remove(&cpu).unwrap_or_else(|| Watched::new(cpu));
            if !touched.contains(cpu) {
                watched.group = None;
            }
            self.watched.push(watched);
        }
        if self.options.times_only {
            return;
        }
        let os = self.os;
        self.shared.get_or_insert_with(|| SharedCounters::open(os));
        self.hold_events();
        if !touched.is_empty() {
            self.open_events(&touched);
        }
        self.from_tables = COLUMNS.map(|column| self.wants_from_tables(column));
    }

    /// Opens the events that trigger BPF programs. If one is refused, the column is counted by the other source. These events are
    /// never read, so shielded CPUs have them, too. Opening one costs a single interrupt, as starting a watch does anyway.
    fn hold_events(&mut self) {
        let Some(Ok(shared)) = &mut self.shared else { return };
        for watched in self.watched.iter_mut().filter(|w| w.held.is_none()) {
            match shared.open_on(watched.cpu) {
                Ok(held) => watched.held = held,
                // The CPU went off-line since the table was read.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(_) => return shared.give_up_events(),
            }
        }
    }

    /// Opens missing events, then starts them together. Opening takes long, and a watch should begin on all CPUs at the same
    /// time.
    fn open_events(&mut self, touched: &CpuSet) {
        if self.plan.as_ref().is_some_and(Plan::is_empty) {
            return;
        }
        let wants = |w: &&Watched| {
            w.group.is_none() && touched.contains(w.cpu) && !self.unopened.contains_key(&w.cpu)
        };
        let without: Vec<CpuId> = self.watched.iter().filter(wants).map(|w| w.cpu).collect();
        let Some(first) = without.first().copied() else { return };
        perf::allow_descriptors((self.watched.len() as u64).saturating_mul(events::DESCRIPTORS_PER_CPU));
        let mut made = None;
        if self.plan.is_none() {
            let shared = self.shared();
            let wanted = |column| shared.is_none_or(|shared| !shared.has(column));
            let (plan, group) = Plan::make(&self.os.root, first, wanted);
            made = Some(group).filter(|_| !plan.is_empty());
            self.plan = Some(plan);
        }
        let Some(plan) = self.plan.as_ref().filter(|plan| !plan.is_empty()) else { return };
        let mut groups = Vec::with_capacity(without.len());
        for cpu in without {
            let group = made.take_if(|_| cpu == first);
            groups.push((cpu, group.map_or_else(|| plan.open(cpu), Ok)));
        }
        for (cpu, opened) in groups {
            match opened.and_then(|group| group.start().map(|()| group)) {
                Ok(group) => {
                    self.last_source += 1;
                    if let Ok(at) = self.watched.binary_search_by_key(&cpu, |w| w.cpu) {
                        self.watched[at].group = Some((self.last_source, group));
                    }
                }
                Err(error) => {
                    self.unopened.insert(cpu, events::explain(&error));
                }
            }
        }
    }

    fn shared(&self) -> Option<&SharedCounters> {
        self.shared.as_ref()?.as_ref().ok()
    }

    /// Whether a column is counted by programs, or by events on CPUs that may be interrupted.
    fn counts(&self, column: Column) -> bool {
        self.shared().is_some_and(|shared| shared.has(column))
            || (column != Column::Ithr && self.plan.as_ref().is_some_and(|plan| plan.counts(column)))
    }

    /// Whether a column of some CPU must come from a table.
    fn wants_from_tables(&self, column: Column) -> bool {
        match column {
            Column::Intr | Column::Ithr | Column::Csw => {
                let shared = self.shared().is_some_and(|shared| shared.has(column));
                let some_unread = !self.untouched.is_empty() || !self.unopened.is_empty();
                !self.counts(column) || (some_unread && !shared)
            }
            // Received calls instead of sent ones, and only if sent calls cannot be counted.
            Column::Xcal => self.reason(column).is_some(),
            _ => false,
        }
    }

    /// Why a column is counted neither by programs nor by events.
    fn reason(&self, column: Column) -> Option<&str> {
        if self.shared().is_some_and(|shared| shared.has(column)) {
            return None;
        }
        self.plan.as_ref().and_then(|plan| plan.reason(column))
    }

    /// The row of the CPU at `index` of the tables.
    fn row(&mut self, index: usize) -> CpuSample {
        let mut row = self.tables.row(index, &self.placement);
        let programs = self.shared().map(|shared| shared.read(row.cpu));
        let events = self.read_events(index);
        // The same source for all CPUs: where sent calls are counted, those of an undisturbed CPU are unknown.
        let is_received = self.wants_from_tables(Column::Xcal);
        let calls = self.tables.calls_received(row.cpu, index).filter(|_| is_received);
        let meters = &mut self.watched[index].meters;
        for column in COLUMNS {
            let at = column.index();
            let from_programs = programs.and_then(|counted| counted[at]);
            let from_events = events.as_ref().and_then(|(source, counted)| Some((*source, counted[at]?)));
            let from_table = if column == Column::Xcal { calls } else { row.events[at] };
            let figure = match (from_programs, from_events, from_table) {
                (Some(count), _, _) => Some((PROGRAMS, count)),
                // Threaded interrupts are added to the softirqs from the table.
                (None, Some((source, threads)), deferred) if column == Column::Ithr => {
                    deferred.map(|deferred| (source, deferred.saturating_add(threads)))
                }
                (None, Some(counted), _) => Some(counted),
                (None, None, table) => table.map(|figure| (TABLES, figure)),
            };
            row.events[at] = figure.map(|(source, value)| meters.advance(column, source, value));
        }
        row.ticks = meters.advance_ticks(row.ticks);
        row
    }

    /// The event values of a CPU. If the CPU was off-line for a short time and its events are lost, they are opened again.
    fn read_events(&mut self, index: usize) -> Option<(u32, [Option<u64>; COLUMNS.len()])> {
        for _ in 0..2 {
            let (source, group) = self.watched[index].group.as_ref()?;
            if let Ok(Some(counted)) = self.plan.as_ref()?.read(group) {
                return Some((*source, counted));
            }
            self.watched[index].group = None;
            let only = CpuSet::from_iter([self.watched[index].cpu]);
            self.open_events(&only);
        }
        None
    }

    /// Columns that events count, and that undisturbed CPUs therefore lack.
    fn hidden(&self) -> Vec<&'static str> {
        let is_hidden = |column: &Column| {
            let by_program = self.shared().is_some_and(|shared| shared.has(*column));
            let by_event = self.plan.as_ref().is_none_or(|plan| plan.counts(*column));
            let is_received = *column != Column::Xcal || self.wants_from_tables(*column);
            by_event && !by_program && !(is_received && self.tables.has(*column))
        };
        let columns = COLUMNS.into_iter().filter(|_| !self.untouched.is_empty());
        columns.filter(is_hidden).map(Column::word).collect()
    }

    /// The missing columns, one sentence per reason.
    fn find_missing(&self) -> Vec<String> {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for column in COLUMNS {
            let gone = !self.counts(column) && !self.tables.has(column);
            let reason = self.reason(column).or(match column {
                Column::Intr => Some("this machine has no /proc/interrupts"),
                Column::Ithr => Some("this machine has no /proc/softirqs"),
                _ => None,
            });
            if let Some(reason) = reason.filter(|_| gone) {
                reasons.entry(reason).or_default().push(column.word());
            }
        }
        let mut missing: Vec<String> = reasons
            .into_iter()
            .map(|(reason, columns)| format!("{}: {reason}", columns.join(", ")))
            .collect();
        let hidden = self.hidden();
        if !hidden.is_empty() {
            missing.push(format!(
                "{} of CPUs {}: they are fenced or shielded, and reading their events would interrupt them \
                 (--touch-fenced reads them, too)",
                hidden.join(", "),
                self.untouched
            ));
        }
        for (cpu, reason) in &self.unopened {
            missing.push(format!("events of CPU {cpu}: {reason}"));
        }
        missing
    }

    /// The source of a column.
    fn origin(&self, column: Column) -> String {
        if let Some(shared) = self.shared().filter(|shared| shared.has(column)) {
            return format!("counted in the kernel at {}", shared.origin(column));
        }
        let reason = self.reason(column);
        match (column, reason) {
            (Column::Intr, _) => "/proc/interrupts (without TLB, MCP, RTR, ERR, MIS)".to_owned(),
            (Column::Ithr, None) => format!("devices in /proc/softirqs + {}", events::origin(column)),
            (Column::Ithr, Some(reason)) => {
                format!("devices in /proc/softirqs, without interrupt threads: {reason}")
            }
            (Column::Xcal, Some(reason)) if self.tables.has(column) => {
                format!("calls received (/proc/interrupts) instead of sent: {reason}")
            }
            (Column::Csw, Some(reason)) if self.tables.has(column) => {
                format!("time slices (/proc/schedstat), without switches to idle: {reason}")
            }
            (_, Some(reason)) => format!("not counted: {reason}"),
            (_, None) => format!("perf event {}", events::origin(column)),
        }
    }

    /// How counting is done, and which CPUs are excluded.
    fn manner(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.shared {
            Some(Ok(_)) => lines.push("counts made in the kernel are read without an interrupt".into()),
            Some(Err(why)) => lines.push(format!("perf events are used because {why}")),
            None => {}
        }
        if self.plan.as_ref().is_some_and(|plan| !plan.is_empty()) {
            lines.push("reading perf events interrupts their CPU once per report".into());
        }
        if !self.hidden().is_empty() {
            lines.push(format!(
                "events of CPUs {} are not read: their rows are made of /proc; beginning and ending to watch \
                 interrupts them a few times all the same",
                self.untouched
            ));
        }
        lines
    }
}

impl CounterWatch for LinuxWatch<'_> {
    fn sample(&mut self) -> Result<Sample, Refusal> {
        self.samples += 1;
        self.take()
    }

    fn explain(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            COLUMNS.iter().map(|column| format!("{column:<5} {}", self.origin(*column))).collect();
        lines.push(
            "usr sys wt idl: /proc/stat (user + nice, system + irq + softirq, iowait, idle)".to_owned(),
        );
        lines.extend(self.manner());
        // Includes everything that this thread did meanwhile. The first sample is expensive, because memory is touched for the
        // first time.
        let cost = own_cpu_time() - self.began;
        if let Some(mean) = cost.0.checked_div(u64::from(self.samples)).filter(|_| self.samples > 1) {
            lines.push(format!(
                "watching cost {}.{:03} ms of CPU time per sample (mean of {})",
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
    use crate::Root;

    #[test]
    fn a_captured_machine_cannot_be_watched() {
        let dir = tempfile::tempdir().unwrap();
        let os = Os::new(Root::captured(dir.path()));
        let placements = || Ok(Rc::default());
        let absent = LinuxWatch::start(&os, Box::new(placements), WatchOptions::default()).err().unwrap();
        assert_eq!(absent.why, "it is a captured machine, where nothing goes on");
    }

    #[test]
    fn a_watch_of_times_opens_nothing_and_counts_no_events() {
        let os = Os::new(Root::live("/nonexistent".into()));
        let placements = || Ok(Rc::default());
        let options = WatchOptions { times_only: true, ..WatchOptions::default() };
        let mut watch = LinuxWatch::start(&os, Box::new(placements), options).unwrap();
        let sample = watch.sample().unwrap();
        assert!(watch.shared.is_none() && watch.plan.is_none());
        assert!(watch.watched.iter().all(|w| w.group.is_none() && w.held.is_none()));
        assert!(!sample.cpus.is_empty() && sample.missing.is_empty());
        assert!(sample.cpus.iter().all(|cpu| cpu.ticks.total() > Nanos(0)));
        assert!(sample.cpus.iter().all(|cpu| cpu.events == [None; COLUMNS.len()]));
    }
}
