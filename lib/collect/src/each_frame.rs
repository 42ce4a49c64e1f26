//! The tables that are filled from what is read at each frame.

use crate::slow::{Placed, Slow};
use millpond_formats::node_files::{CONFIGURATION, REFUSED};
use millpond_formats::prstat::state;
use millpond_machine::facets::{Usage, Waited};
use millpond_model::{
    COLUMNS, Column, CpuId, CpuSample, CpuSet, Doing, Histogram, MICROSTATES, Nanos, Pid, ProcessEntry,
    PsetId, Roster, Sample, ThreadEntry,
};
use millpond_observe::catalogue::{Entity, FieldId, cpu, latency, machine, process, pset, thread};
use millpond_observe::{Frame, Row, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The set of each CPU, and the time for which it was used.
pub(crate) type Uses = BTreeMap<CpuId, (PsetId, Nanos)>;

/// What was read.
pub(crate) struct Seen<'a> {
    pub name: &'a str,
    pub sample: Option<&'a Sample>,
    pub roster: Option<&'a Roster>,
    pub usage: Option<&'a Usage>,
    pub slow: &'a Slow,
    pub busy: &'a BTreeMap<PsetId, Nanos>,
    /// How long threads waited for the CPUs of each set; `None` where that is not measured.
    pub waits: Option<&'a BTreeMap<PsetId, Histogram>>,
    /// Rows of OS noise; `None` where it is not watched.
    pub noise: Option<&'a [Row]>,
    /// A frame that has the rows of `roster`, where they were read for it.
    pub listed: Option<&'a Frame>,
    /// CPU time of this program, where it runs on the machine.
    pub watching: Option<Nanos>,
    /// Sets and zones of processes are known.
    pub has_places: bool,
    /// The roster tells them, and not an earlier one.
    pub has_own_places: bool,
}

/// The set and the use of each CPU in a sample.
pub(crate) fn uses(sample: &Sample) -> Uses {
    let one = |cpu: &CpuSample| (cpu.cpu, (cpu.set, cpu.ticks.user + cpu.ticks.sys));
    sample.cpus.iter().map(one).collect()
}

/// Adds to the time of each set that of the CPUs which were in it before and are now. A CPU that moved counts for neither.
pub(crate) fn add_busy(busy: &mut BTreeMap<PsetId, Nanos>, before: &Uses, sample: &Sample) {
    for set in sample.sets.iter().copied().chain([PsetId::DEFAULT]) {
        busy.entry(set).or_default();
    }
    for (cpu, (set, used)) in uses(sample) {
        if let Some((old_set, old_used)) = before.get(&cpu)
            && *old_set == set
        {
            let time = busy.entry(set).or_default();
            *time = *time + (used - *old_used);
        }
    }
}

/// The waits for each CPU so far.
pub(crate) type Waits = BTreeMap<CpuId, Histogram>;

/// Adds to the waits of each set those for its CPUs since they were read before. Those for a CPU that moved meanwhile count for its new set.
pub(crate) fn add_waits(
    waits: &mut BTreeMap<PsetId, Histogram>,
    before: &mut Waits,
    roster: &Roster,
    sets: &Uses,
) {
    let Some(by_cpu) = &roster.waits else { return };
    for (set, _) in sets.values() {
        waits.entry(*set).or_default();
    }
    for (cpu, now) in by_cpu {
        let set = sets.get(cpu).map_or(PsetId::DEFAULT, |(set, _)| *set);
        let more = match before.get(cpu) {
            Some(old) => now.since(old),
            None => now.clone(),
        };
        waits.entry(set).or_default().merge(&more);
        before.insert(*cpu, now.clone());
    }
}

/// Fills in everything.
pub(crate) fn fill(frame: &mut Frame, seen: &Seen<'_>) {
    frame.set_rows(Entity::Machine, vec![machine_row(seen)]);
    let sets = seen.roster.map(|roster| sets_of(seen, roster)).unwrap_or_default();
    frame.set_rows(Entity::Pset, set_rows(seen, &sets));
    if let Some(sample) = seen.sample {
        frame.set_rows(Entity::Cpu, sample.cpus.iter().map(|cpu| cpu_row(cpu, seen.slow)).collect());
    }
    if let Some(listed) = seen.listed {
        frame.take_rows_of(Entity::Process, listed);
        frame.take_rows_of(Entity::Thread, listed);
        frame.take_rows_of(Entity::Latency, listed);
        frame.take_rows_of(Entity::Noise, listed);
    } else if let Some(roster) = seen.roster {
        let mut words = Words::default();
        let processes = roster
            .processes
            .iter()
            .map(|p| process_row(p, seen.slow.process(p.pid, p.began), seen.has_places, &mut words));
        frame.set_rows(Entity::Process, processes.collect());
        let threads = roster
            .threads
            .iter()
            .zip(sets)
            .map(|(thread, set)| thread_row(thread, set.map(|set| set.0), &mut words));
        frame.set_rows(Entity::Thread, threads.collect());
        let waits = seen.waits.into_iter().flatten().map(|(set, waits)| wait_row(*set, waits));
        frame.set_rows(Entity::Latency, waits.collect());
        if let Some(noise) = seen.noise {
            frame.set_rows(Entity::Noise, noise.to_vec());
        }
    }
    seen.slow.fill(frame);
}

fn machine_row(seen: &Seen<'_>) -> Row {
    let mut row = Row::of(Entity::Machine)
        .with(machine::NAME, seen.name)
        .with(machine::SCHEDULER, seen.slow.scheduler.as_deref())
        .with(machine::OBJECTIVES, seen.slow.objectives())
        .with(machine::CONFIGURATION, seen.slow.system_property(CONFIGURATION))
        .with(machine::REFUSED, seen.slow.system_property(REFUSED))
        .with(machine::THROTTLED, seen.slow.throttled.as_deref())
        .with(machine::WATCHING, seen.watching);
    if let Some(sample) = seen.sample {
        row = row.with(machine::CPUS, sample.cpus.len() as u64);
    }
    if let Some(roster) = seen.roster {
        let threads: u64 = roster.processes.iter().map(|p| u64::from(p.threads)).sum();
        let load = |index: usize| roster.load.map(|load| load[index]);
        row = row
            .with(machine::PROCESSES, roster.processes.len() as u64)
            .with(machine::THREADS, threads)
            .with(machine::LOAD_1, load(0))
            .with(machine::LOAD_5, load(1))
            .with(machine::LOAD_15, load(2))
            .with(machine::MEMORY, roster.memory.map(|kib| kib * KIB));
    }
    row
}

pub(crate) const KIB: u64 = 1024;

/// `sets`: of each thread of the roster.
fn set_rows(seen: &Seen<'_>, sets: &[Option<PsetId>]) -> Vec<Row> {
    let mut members: BTreeMap<PsetId, CpuSet> = BTreeMap::from([(PsetId::DEFAULT, CpuSet::new())]);
    if let Some(sample) = seen.sample {
        members.extend(sample.sets.iter().map(|set| (*set, CpuSet::new())));
        for cpu in &sample.cpus {
            members.entry(cpu.set).or_default().insert(cpu.cpu);
        }
    }
    let listed = seen.roster.filter(|roster| seen.has_places && !roster.threads.is_empty());
    let runnable = listed.map(|roster| runnable(roster, sets));
    let row = |(set, cpus): (PsetId, CpuSet)| {
        let waited = seen.usage.and_then(|usage| usage.waited.get(&set));
        let row = Row::of(Entity::Pset)
            .with(pset::ID, set.0)
            .with(pset::SIZE, cpus.len() as u64)
            .with(pset::CPUS, cpus.to_string())
            .with(pset::BUSY, seen.busy.get(&set).copied())
            .with(pset::RUNNABLE, runnable.as_ref().map(|by_set| by_set.get(&set).copied().unwrap_or(0)));
        let row = match waited {
            Some(Waited::Threads(time)) => row.with(pset::WAITED, *time),
            Some(Waited::Any(time)) => row.with(pset::PRESSED, *time),
            Some(Waited::Unknown) | None => row,
        };
        seen.slow.describe(row, set)
    };
    members.into_iter().map(row).collect()
}

/// The set of each thread, as far as it is known.
fn sets_of(seen: &Seen<'_>, roster: &Roster) -> Vec<Option<PsetId>> {
    if seen.has_own_places {
        return roster.threads.iter().map(|thread| Some(thread.standing.set)).collect();
    }
    let began: HashMap<Pid, Nanos> = roster.processes.iter().map(|p| (p.pid, p.began)).collect();
    let set = |thread: &ThreadEntry| {
        let process = began.get(&thread.lwp.pid).copied();
        seen.slow.thread_set(thread.lwp, thread.began, process).filter(|_| seen.has_places)
    };
    roster.threads.iter().map(set).collect()
}

/// Threads that run or could, by set; one whose set is not known yet counts for the default set.
fn runnable(roster: &Roster, sets: &[Option<PsetId>]) -> BTreeMap<PsetId, u64> {
    let mut found = BTreeMap::new();
    for (thread, set) in roster.threads.iter().zip(sets) {
        if matches!(thread.standing.doing, Doing::OnCpu(_) | Doing::Runnable) {
            *found.entry(set.unwrap_or(PsetId::DEFAULT)).or_default() += 1;
        }
    }
    found
}

fn wait_row(set: PsetId, waits: &Histogram) -> Row {
    Row::of(Entity::Latency)
        .with(latency::SET, set.0)
        .with(latency::STAGE, RUN_QUEUE)
        .with(latency::WAITS, waits.clone())
}

/// From the moment a thread could run until a CPU ran it.
const RUN_QUEUE: &str = "run-queue";

/// The field of a column of `mpstat`.
pub(crate) fn event(column: Column) -> FieldId {
    match column {
        Column::Minf => cpu::MINF,
        Column::Mjf => cpu::MJF,
        Column::Xcal => cpu::XCAL,
        Column::Intr => cpu::INTR,
        Column::Ithr => cpu::ITHR,
        Column::Csw => cpu::CSW,
        Column::Icsw => cpu::ICSW,
        Column::Migr => cpu::MIGR,
        Column::Smtx => cpu::SMTX,
        Column::Srw => cpu::SRW,
        Column::Syscl => cpu::SYSCL,
    }
}

fn cpu_row(sample: &CpuSample, slow: &Slow) -> Row {
    let row = Row::of(Entity::Cpu)
        .with(cpu::ID, sample.cpu.0)
        .with(cpu::SET, sample.set.0)
        .with(cpu::USER, sample.ticks.user)
        .with(cpu::SYSTEM, sample.ticks.sys)
        .with(cpu::WAIT, sample.ticks.wait)
        .with(cpu::IDLE, sample.ticks.idle)
        .with(cpu::STEAL, sample.ticks.steal);
    let row = COLUMNS.iter().fold(row, |row, column| row.with(event(*column), sample.events[column.index()]));
    slow.locate(row, sample.cpu)
}

/// Words that many rows have, each kept once.
#[derive(Default)]
struct Words(Vec<Arc<str>>);

impl Words {
    fn value(&mut self, word: &str) -> Value {
        if let Some(known) = self.0.iter().find(|known| &***known == word) {
            return Value::Text(Arc::clone(known));
        }
        let word: Arc<str> = word.into();
        self.0.push(Arc::clone(&word));
        Value::Text(word)
    }
}

fn process_row(entry: &ProcessEntry, placed: Option<&Placed>, has_places: bool, words: &mut Words) -> Row {
    let place = placed.filter(|_| has_places);
    let standing = &entry.standing;
    Row::of(Entity::Process)
        .with(process::PID, entry.pid.0)
        .with(process::BEGAN, entry.began)
        .with(process::NAME, entry.name.as_str())
        .with(process::USER, entry.euid)
        .with(process::STATE, words.value(state(standing.doing).trim_end()))
        .with(process::CLASS, words.value(standing.class.word()))
        .with(process::PRIORITY, f64::from(standing.priority))
        .with(process::NICE, standing.nice.map(f64::from))
        .with(process::SET, place.map(|placed| placed.set.0))
        .with(process::ZONE, place.map(|placed| words.value(&placed.zone)))
        .with(process::THREADS, entry.threads)
        .with(process::SIZE, placed.and_then(|placed| placed.size).map(|kib| kib * KIB))
        .with(process::RSS, placed.and_then(|placed| placed.rss).map(|kib| kib * KIB))
        .with(process::TIME, entry.time)
}

/// The fields of the microstates, in the order of [`MICROSTATES`].
pub(crate) const STATES: [FieldId; MICROSTATES.len()] = [
    thread::USER,
    thread::SYSTEM,
    thread::TRAP,
    thread::TEXT_FAULT,
    thread::DATA_FAULT,
    thread::LOCK,
    thread::SLEEP,
    thread::LATENCY,
];

fn thread_row(entry: &ThreadEntry, set: Option<u32>, words: &mut Words) -> Row {
    let standing = &entry.standing;
    let row = Row::of(Entity::Thread)
        .with(thread::PID, entry.lwp.pid.0)
        .with(thread::LWP, entry.lwp.lwp.0)
        .with(thread::BEGAN, entry.began)
        .with(thread::NAME, entry.name.as_str())
        .with(thread::STATE, words.value(state(standing.doing).trim_end()))
        .with(thread::CLASS, words.value(standing.class.word()))
        .with(thread::PRIORITY, f64::from(standing.priority))
        .with(thread::NICE, standing.nice.map(f64::from))
        .with(thread::CPU, standing.cpu.map(|cpu| cpu.0))
        .with(thread::SET, set)
        .with(thread::TIME, entry.time);
    let Some(spent) = entry.spent else { return row };
    let row = STATES.iter().zip(spent.times).fold(row, |row, (field, time)| row.with(*field, time));
    row.with(thread::VOLUNTARY, spent.voluntary)
        .with(thread::INVOLUNTARY, spent.involuntary)
        .with(thread::SIGNALS, spent.signals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Ticks, WallTime};

    fn sample(cpus: &[(u32, u32, u64)]) -> Sample {
        let cpu = |(cpu, set, user): &(u32, u32, u64)| CpuSample {
            cpu: CpuId(*cpu),
            set: PsetId(*set),
            events: [None; COLUMNS.len()],
            ticks: Ticks { user: Nanos::from_secs(*user), ..Ticks::default() },
        };
        Sample {
            at: Nanos(0),
            wall: WallTime(0),
            cpus: cpus.iter().map(cpu).collect(),
            sets: vec![PsetId(1)],
            missing: Vec::new(),
        }
    }

    #[test]
    fn the_time_of_a_set_is_that_of_the_cpus_that_stayed_in_it() {
        let (first, second) =
            (sample(&[(0, 0, 5), (1, 0, 5), (2, 1, 5)]), sample(&[(0, 0, 6), (1, 1, 9), (2, 1, 8)]));
        let mut busy = BTreeMap::new();
        add_busy(&mut busy, &Uses::new(), &first);
        assert_eq!(busy, BTreeMap::from([(PsetId(0), Nanos(0)), (PsetId(1), Nanos(0))]));
        add_busy(&mut busy, &uses(&first), &second);
        assert_eq!(
            busy,
            BTreeMap::from([(PsetId(0), Nanos::from_secs(1)), (PsetId(1), Nanos::from_secs(3))])
        );
    }

    #[test]
    fn waits_count_for_the_set_that_a_cpu_is_in() {
        let mut first = Histogram::default();
        first.record(Nanos::from_millis(1));
        let mut second = first.clone();
        second.record(Nanos::from_millis(2));
        let roster = |waits: &Histogram| Roster {
            waits: Some(BTreeMap::from([(CpuId(0), waits.clone())])),
            ..Roster::default()
        };
        let (mut waits, mut before) = (BTreeMap::new(), Waits::new());
        add_waits(&mut waits, &mut before, &roster(&first), &uses(&sample(&[(0, 0, 5)])));
        add_waits(&mut waits, &mut before, &roster(&second), &uses(&sample(&[(0, 1, 6)])));
        assert_eq!((waits[&PsetId(0)].count(), waits[&PsetId(1)].count()), (1, 1));
        assert_eq!(waits[&PsetId(1)].sum(), Nanos::from_millis(2));
    }

    #[test]
    fn each_column_of_mpstat_is_a_field_of_its_name() {
        for column in COLUMNS {
            assert_eq!(event(column).field().name, column.word());
        }
        for (state, field) in MICROSTATES.iter().zip(STATES) {
            assert_eq!(field.field().heading, state.word());
        }
    }
}
