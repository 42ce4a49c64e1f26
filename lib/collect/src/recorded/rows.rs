//! Rows back into what they were made of: the inverse of what `each_frame` and `slow` fill in.

use crate::each_frame::{KIB, STATES, event};
use millpond_formats::pools::objectives;
use millpond_machine::facets::{Interrupt, Usage, Waited};
use millpond_model::pools::{
    CpuNode, DEFAULT_PSET, ElementKind, Keyword, Objectives, PoolNode, PoolsConf, PoolsState, PsetNode,
    RefId, SystemNode, UNBOUNDED,
};
use millpond_model::{
    COLUMNS, Cause, ChipId, CoreId, CoreKind, CpuId, CpuSample, CpuSet, DisturbanceKind, Doer, Doing, Lgroup,
    LgrpId, Lwp, LwpId, MICROSTATES, Named, Nanos, Pid, PoolId, ProcessEntry, Processor, Pset, PsetId,
    Roster, Sample, Spent, Standing, State, ThreadEntry, Ticks, Topology, TopologyError,
};
use millpond_observe::catalogue::{
    Entity, FieldId, cpu, interrupt, machine, noise, pool, process, pset, thread,
};
use millpond_observe::{Frame, Row, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// Seconds of a field.
fn time(row: &Row, field: FieldId) -> Option<Nanos> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "totals are not negative; saturates"
    )]
    row.number(field).map(|seconds| Nanos((seconds * 1e9).round() as u64))
}

/// A number that is whole and not negative.
fn whole(row: &Row, field: FieldId) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked; saturates")]
    row.number(field).filter(|number| *number >= 0.0).map(|number| number.round() as u64)
}

fn small(row: &Row, field: FieldId) -> Option<u32> {
    whole(row, field).and_then(|number| u32::try_from(number).ok())
}

/// A text as it was recorded.
fn text(row: &Row, field: FieldId) -> Option<&str> {
    match row.value(field) {
        Value::Text(text) => Some(text),
        Value::Unknown | Value::Number(_) | Value::Histogram(_) => None,
    }
}

fn word<T: FromStr>(row: &Row, field: FieldId) -> Option<T> {
    text(row, field).and_then(|text| text.parse().ok())
}

/// The CPUs with the set of each, and the time that each was used for; events since the watch began, if `counted`.
pub(super) fn sample(frame: &Frame, counted: bool) -> Sample {
    let one = |row: &Row| {
        let ticks = |field| time(row, field).unwrap_or_default();
        let mut events = [None; COLUMNS.len()];
        for column in COLUMNS.iter().filter(|_| counted) {
            events[column.index()] = whole(row, event(*column));
        }
        Some(CpuSample {
            cpu: CpuId(small(row, cpu::ID)?),
            set: PsetId(small(row, cpu::SET).unwrap_or_default()),
            events,
            ticks: Ticks {
                user: ticks(cpu::USER),
                sys: ticks(cpu::SYSTEM),
                wait: ticks(cpu::WAIT),
                idle: ticks(cpu::IDLE),
                steal: ticks(cpu::STEAL),
            },
        })
    };
    let sets = frame.rows(Entity::Pset).iter().filter_map(|row| small(row, pset::ID)).filter(|id| *id != 0);
    Sample {
        at: frame.at,
        wall: frame.wall,
        cpus: frame.rows(Entity::Cpu).iter().filter_map(one).collect(),
        sets: sets.map(PsetId).collect(),
        missing: frame.missing.clone(),
    }
}

/// The sets but the default one.
pub(super) fn sets(frame: &Frame) -> Vec<Pset> {
    let one = |row: &Row| {
        let cpus: CpuSet = word(row, pset::CPUS).unwrap_or_default();
        Some(Pset {
            id: PsetId(small(row, pset::ID).filter(|id| *id != 0)?),
            members: cpus.iter().collect(),
            mode: word(row, pset::MODE)?,
            breaches: Vec::new(),
            returns: std::collections::BTreeMap::new(),
        })
    };
    frame.rows(Entity::Pset).iter().filter_map(one).collect()
}

/// States of CPUs, of those that run threads.
pub(super) fn states(frame: &Frame) -> Vec<(CpuId, State)> {
    let one =
        |row: &Row| Some((CpuId(small(row, cpu::ID)?), word(row, cpu::STATE).unwrap_or(State::Unknown)));
    frame.rows(Entity::Cpu).iter().filter_map(one).collect()
}

/// Where CPUs stand: cores and lgroups, as they were recorded. Each lgroup is taken for one chip, and all are equally far from each other: neither
/// is recorded. `None` where cores are not known.
pub(super) fn topology(frame: &Frame) -> Option<Result<Topology, TopologyError>> {
    let mut lgroups: BTreeMap<LgrpId, CpuSet> = BTreeMap::new();
    let mut processors = Vec::new();
    for row in frame.rows(Entity::Cpu) {
        let id = CpuId(small(row, cpu::ID)?);
        let node = small(row, cpu::NODE)?;
        lgroups.entry(LgrpId(node)).or_default().insert(id);
        processors.push(Processor {
            id,
            core: CoreId(small(row, cpu::CORE)?),
            chip: ChipId(node),
            lgroup: LgrpId(node),
            kind: CoreKind::default(),
            isa: String::new(),
            clock_mhz: None,
            fpu: None,
            implementation: String::new(),
            brand: String::new(),
        });
    }
    let count = lgroups.len();
    let lgroup = |(at, (id, cpus)): (usize, (LgrpId, CpuSet))| Lgroup {
        id,
        cpus,
        distances: Lgroup::even_distances(at, count),
        memory_kib: None,
    };
    let lgroups = lgroups.into_iter().enumerate().map(lgroup).collect();
    Some(Topology::new(processors, Vec::new(), lgroups))
}

/// Processes, and threads with their microstates.
pub(super) fn roster(frame: &Frame) -> Roster {
    let machine = frame.rows(Entity::Machine).first();
    let load = |field| machine.and_then(|row| row.number(field));
    let loads = [load(machine::LOAD_1), load(machine::LOAD_5), load(machine::LOAD_15)];
    let mut missing = frame.missing.clone();
    let is_measured = |row: &Row| STATES.iter().any(|field| row.number(*field).is_some());
    let threads = frame.rows(Entity::Thread);
    if !threads.iter().any(is_measured) {
        missing.push("microstates: the recording was made without them".to_owned());
    }
    Roster {
        at: frame.read_at(Entity::Process).unwrap_or(frame.at),
        wall: frame.wall,
        processors: machine.and_then(|row| small(row, machine::CPUS)).unwrap_or_default(),
        memory: machine.and_then(|row| whole(row, machine::MEMORY)).map(|bytes| bytes / KIB),
        load: loads.iter().all(Option::is_some).then(|| loads.map(Option::unwrap_or_default)),
        processes: frame.rows(Entity::Process).iter().filter_map(process_entry).collect(),
        threads: threads.iter().filter_map(thread_entry).collect(),
        waits: None,
        missing,
    }
}

/// Zones and projects are recorded by name, if at all.
const NO_NUMBER: u64 = u64::MAX;

/// What `prstat` writes for it, read back.
fn doing(word: &str) -> Option<Doing> {
    Some(match word {
        "run" => Doing::Runnable,
        "wait" => Doing::Capped,
        "sleep" => Doing::Asleep,
        "stop" => Doing::Stopped,
        "idle" => Doing::Idle,
        "zombie" => Doing::Zombie,
        _ => Doing::OnCpu(CpuId(word.strip_prefix("cpu")?.parse().ok()?)),
    })
}

/// The fields of a standing: state, class, priority, nice, CPU and set.
fn standing(row: &Row, fields: [FieldId; 5], on: Option<CpuId>) -> Option<Standing> {
    let [state, class, priority, nice, set] = fields;
    let doing = doing(text(row, state)?)?;
    let cpu = match doing {
        Doing::OnCpu(cpu) => Some(cpu),
        _ => on,
    };
    #[expect(clippy::cast_possible_truncation, reason = "priorities and nice values are small; saturates")]
    Some(Standing {
        doing,
        class: word(row, class)?,
        priority: row.number(priority)? as i16,
        nice: row.number(nice).map(|nice| nice as i8),
        cpu,
        home: None,
        set: PsetId(small(row, set).unwrap_or_default()),
    })
}

fn process_entry(row: &Row) -> Option<ProcessEntry> {
    let fields = [process::STATE, process::CLASS, process::PRIORITY, process::NICE, process::SET];
    let user = small(row, process::USER)?;
    Some(ProcessEntry {
        pid: Pid(small(row, process::PID)?),
        name: text(row, process::NAME)?.to_owned(),
        began: time(row, process::BEGAN)?,
        standing: standing(row, fields, None)?,
        time: time(row, process::TIME)?,
        threads: small(row, process::THREADS)?,
        euid: user,
        uid: user,
        size: whole(row, process::SIZE).map(|bytes| bytes / KIB),
        rss: whole(row, process::RSS).map(|bytes| bytes / KIB),
        zone: Named { id: NO_NUMBER, name: text(row, process::ZONE).unwrap_or("-").to_owned() },
        task: 0,
        project: Named { id: NO_NUMBER, name: "-".to_owned() },
    })
}

fn thread_entry(row: &Row) -> Option<ThreadEntry> {
    let fields = [thread::STATE, thread::CLASS, thread::PRIORITY, thread::NICE, thread::SET];
    let mut times = [None; MICROSTATES.len()];
    for (place, field) in times.iter_mut().zip(STATES) {
        *place = time(row, field);
    }
    let is_measured = times.iter().any(Option::is_some);
    Some(ThreadEntry {
        lwp: Lwp { pid: Pid(small(row, thread::PID)?), lwp: LwpId(small(row, thread::LWP)?) },
        name: text(row, thread::NAME)?.to_owned(),
        began: time(row, thread::BEGAN)?,
        standing: standing(row, fields, small(row, thread::CPU).map(CpuId))?,
        time: time(row, thread::TIME)?,
        spent: is_measured.then(|| Spent {
            times,
            stopped: Nanos(0),
            capped: None,
            voluntary: whole(row, thread::VOLUNTARY),
            involuntary: whole(row, thread::INVOLUNTARY),
            calls: None,
            signals: whole(row, thread::SIGNALS),
        }),
        causes: None,
    })
}

/// CPU time and waiting by set.
pub(super) fn usage(frame: &Frame) -> Usage {
    let used =
        |row: &Row| Some((CpuId(small(row, cpu::ID)?), time(row, cpu::USER)? + time(row, cpu::SYSTEM)?));
    let waited = |row: &Row| {
        let waited = match (time(row, pset::WAITED), time(row, pset::PRESSED)) {
            (Some(time), _) => Waited::Threads(time),
            (None, Some(time)) => Waited::Any(time),
            (None, None) => Waited::Unknown,
        };
        Some((PsetId(small(row, pset::ID)?), waited))
    };
    Usage {
        at: frame.at,
        busy: frame.rows(Entity::Cpu).iter().filter_map(used).collect(),
        waited: frame.rows(Entity::Pset).iter().filter_map(waited).collect(),
    }
}

/// Threads that run or wait, by set; nothing where they were not listed.
pub(super) fn load(frame: &Frame) -> Option<BTreeMap<PsetId, u64>> {
    let one = |row: &Row| Some((PsetId(small(row, pset::ID)?), whole(row, pset::RUNNABLE)?));
    frame.rows(Entity::Pset).iter().map(one).collect()
}

/// The configuration of pools as far as it is recorded: `None` while pools were disabled. Pinned CPUs and comments are not recorded.
pub(super) fn pools(frame: &Frame) -> Option<PoolsState> {
    let rows = frame.rows(Entity::Pool);
    if rows.is_empty() {
        return None;
    }
    let set_ref = |id: u32| RefId::from(format!("pset_{id}"));
    let held: BTreeSet<u32> = rows.iter().filter_map(|row| small(row, pool::SET)).collect();
    let one = |row: &Row| {
        let (id, set) = (small(row, pool::ID)?, small(row, pool::SET)?);
        #[expect(clippy::cast_possible_truncation, reason = "importances are small; saturates")]
        let importance = row.number(pool::IMPORTANCE).unwrap_or(1.0) as i64;
        let node =
            PoolNode::new(text(row, pool::NAME)?, format!("pool_{id}"), set_ref(set), Some(PoolId(id)));
        let scheduler = text(row, pool::SCHEDULER).map(Keyword::from);
        Some(PoolNode { is_default: id == PoolId::DEFAULT.0, importance, scheduler, ..node })
    };
    let objectives_of = |row: &Row, field, kind: ElementKind| -> Option<Objectives> {
        text(row, field).map(|text| objectives::parse(text, kind))
    };
    let states: BTreeMap<CpuId, State> = states(frame).into_iter().collect();
    // Sets without a pool are a fence's or nobody's, unless they have a name of their own.
    let of_pools = frame.rows(Entity::Pset).iter().filter(|row| {
        small(row, pset::ID).is_some_and(|id| held.contains(&id) || id == 0)
            || row.number(pset::MIN).is_some()
    });
    let set = |row: &Row| {
        let id = small(row, pset::ID)?;
        let name = text(row, pset::NAME).unwrap_or(DEFAULT_PSET);
        let mut node = PsetNode::new(name, set_ref(id), Some(PsetId(id)));
        node.is_default = id == 0;
        node.min = whole(row, pset::MIN).unwrap_or_default();
        node.max = whole(row, pset::MAX).unwrap_or(UNBOUNDED);
        node.objectives = objectives_of(row, pset::OBJECTIVES, ElementKind::Pset);
        let cpus: CpuSet = word(row, pset::CPUS).unwrap_or_default();
        for id in cpus.iter() {
            node.add(CpuNode::new(id, states.get(&id).copied().unwrap_or(State::Unknown)));
        }
        Some(node)
    };
    let machine = frame.rows(Entity::Machine).first();
    let conf = PoolsConf {
        system: SystemNode {
            name: machine.and_then(|row| text(row, machine::NAME)).unwrap_or_default().to_owned(),
            objectives: machine.and_then(|row| objectives_of(row, machine::OBJECTIVES, ElementKind::System)),
            ..SystemNode::default()
        },
        pools: rows.iter().filter_map(one).collect(),
        psets: of_pools.filter_map(set).collect(),
    };
    Some(PoolsState { conf, keep_others: false, zones: BTreeMap::new() })
}

/// The pool of each process that is bound to a set: that of the set. `None` where several pools share one: whose a process was is not recorded.
pub(super) fn members(frame: &Frame) -> Option<BTreeMap<Pid, PoolId>> {
    let mut of: BTreeMap<u32, PoolId> = BTreeMap::new();
    for row in frame.rows(Entity::Pool) {
        let (Some(id), Some(set)) = (small(row, pool::ID), small(row, pool::SET)) else { continue };
        if set != 0 && of.insert(set, PoolId(id)).is_some() {
            return None;
        }
    }
    let one = |row: &Row| Some((Pid(small(row, process::PID)?), *of.get(&small(row, process::SET)?)?));
    Some(frame.rows(Entity::Process).iter().filter_map(one).collect())
}

/// Causes of OS noise on each CPU, and what is known of them.
pub(super) type Noises = BTreeMap<(CpuId, Cause), Noise>;

/// How often, how long, and the longest, since the recorder began to watch.
pub(super) type Noise = (Option<u64>, Option<Nanos>, Option<Nanos>);

/// OS noise on CPUs of sets; nothing where it was not watched.
pub(super) fn noises(frame: &Frame) -> Option<Noises> {
    frame.read_at(Entity::Noise)?;
    let one = |row: &Row| {
        let kind = text(row, noise::KIND)?;
        let kind = DisturbanceKind::ALL.into_iter().find(|known| known.word() == kind)?;
        let name = text(row, noise::CAUSE)?.to_owned();
        let cause = Cause { kind, name, by: None, doer: Doer::Others };
        let known = (whole(row, noise::COUNT), time(row, noise::TIME), time(row, noise::LONGEST));
        Some(((CpuId(small(row, noise::CPU)?), cause), known))
    };
    Some(frame.rows(Entity::Noise).iter().filter_map(one).collect())
}

/// Interrupts and what else is steered.
pub(super) fn interrupts(frame: &Frame) -> Vec<Interrupt> {
    let one = |row: &Row| {
        Some(Interrupt {
            id: text(row, interrupt::ID)?.to_owned(),
            name: text(row, interrupt::NAME).unwrap_or_default().to_owned(),
            kind: word(row, interrupt::KIND)?,
            allowed: word(row, interrupt::ALLOWED).unwrap_or_default(),
            effective: word(row, interrupt::EFFECTIVE),
            fixed: text(row, interrupt::FIXED).map(str::to_owned),
            count: whole(row, interrupt::COUNT),
        })
    };
    frame.rows(Entity::Interrupt).iter().filter_map(one).collect()
}
