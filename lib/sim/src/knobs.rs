//! Knobs: the names and values through which the executor changes a simulated machine.
//!
//! | Knob | Value |
//! |---|---|
//! | `set/1` | `exclusive 4` or `shared 4`: its enforcement, and its number in the order of creation |
//! | `processor/3/set` | `0`, or `1 17`: its set, and its number in the order of arrival |
//! | `processor/3/state` | `on-line since 1732090442`: seconds of the wall clock |
//! | `lwp/204/1/set` | `none`, `1` or `1 soft` |
//! | `lwp/204/1/cpu` | `none`, `3`, `1-3,5` or `3 soft` |
//! | `lwp/204/1/class` | `TS 0 -10`: its class and parameters |
//! | `dispatch/TS/12` | `16 2 51 0 51`, for RT and FX `8` or `infinite`: a row of a table, quanta in ticks |
//! | `dispatch/default` | `none` or `FX` |
//! | `pools` | the last committed pool configuration, as JSON; absent while pools are disabled |
//! | `process/204/pool` | `0`: its pool |
//! | `set/1/memory` | `local`, or `0,1`: the lgroups of its memory; absent if not set |
//! | `lwp/204/1/lgroups` | `none`, `strong 0`, `weak 1,2`, `strong 0 weak 1`: its lgroup affinities |
//! | `zone/1/cpu-shares`, `project/100/cpu-cap`, `process/204/cpu-cap` | `20`: shares, or percent of one CPU; absent if not set |
//! | `lwp/204/1/aside` | `no`, or `yes`: it avoids shared sets |
//!
//! The values include order and time, so that restoring a value restores everything. A write checks the rules that must hold at
//! every moment of a change. The rules for its end are checked during preparation.

use crate::knob_values::{
    TableName, affinities_value, control_value, memory_value, parse_affinities, parse_control,
    parse_control_name, parse_memory, read_row, write_row,
};
use crate::tables::{Bond, HolderId, SetRecord, Tables};
use millpond_formats::pools::record::Record;
use millpond_machine::{Knob, KnobError, Value};
use millpond_model::pools::PoolsState;
use millpond_model::{
    Class, ClassParams, Control, ControlSetting, CpuId, CpuSet, Former, Lwp, LwpId, Pid, PsetId, State,
    WallTime,
};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A parsed knob name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// Whether a set exists.
    Set(PsetId),
    /// The memory placement of a set.
    SetMemory(PsetId),
    /// The fence settings of a set.
    SetFence(PsetId),
    /// The set that a CPU is in.
    ProcessorSet(CpuId),
    /// The state of a CPU.
    ProcessorState(CpuId),
    /// The set that a thread is bound to.
    LwpSet(Lwp),
    /// The CPUs that a thread is bound to.
    LwpCpu(Lwp),
    /// Whether a thread avoids shared sets.
    LwpAside(Lwp),
    /// The lgroup affinities of a thread.
    LwpLgroups(Lwp),
    /// The class and parameters of a thread.
    LwpClass(Lwp),
    /// A row of a dispatch table.
    DispatchRow(TableName, u8),
    /// The default class from the next boot on.
    DefaultClass,
    /// The configuration of pools.
    Pools,
    /// The pool of a process.
    ProcessPool(Pid),
    /// The shares or the cap of a zone, a project or a process.
    Control(HolderId, Control),
}

impl Name {
    /// The executor's form of the name.
    #[must_use]
    pub fn knob(self) -> Knob {
        Knob(self.to_string())
    }

    /// The name in messages.
    #[must_use]
    pub fn called(self) -> String {
        match self {
            Name::Set(set) => format!("processor set {set}"),
            Name::SetMemory(set) => format!("the memory of processor set {set}"),
            Name::SetFence(set) => format!("the fence of processor set {set}"),
            Name::LwpLgroups(lwp) => format!("the affinities of thread {lwp}"),
            Name::ProcessorSet(cpu) => format!("the set of CPU {cpu}"),
            Name::ProcessorState(cpu) => format!("the state of CPU {cpu}"),
            Name::LwpSet(lwp) => format!("the set of thread {lwp}"),
            Name::LwpCpu(lwp) => format!("the CPU of thread {lwp}"),
            Name::LwpAside(lwp) => format!("the place of thread {lwp}"),
            Name::LwpClass(lwp) => format!("the class of thread {lwp}"),
            Name::DispatchRow(table, level) => format!("level {level} of the dispatch table of {table}"),
            Name::DefaultClass => "the default class".to_owned(),
            Name::Pools => "the configuration of pools".to_owned(),
            Name::ProcessPool(pid) => format!("the pool of process {pid}"),
            Name::Control(HolderId::Zone(zone), control) => format!("{control} of zone {zone}"),
            Name::Control(HolderId::Project(project), control) => format!("{control} of project {project}"),
            Name::Control(HolderId::Process(pid), control) => format!("{control} of process {pid}"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Set(set) => write!(f, "set/{set}"),
            Name::SetMemory(set) => write!(f, "set/{set}/memory"),
            Name::SetFence(set) => write!(f, "set/{set}/fence"),
            Name::LwpLgroups(lwp) => write!(f, "lwp/{}/{}/lgroups", lwp.pid, lwp.lwp),
            Name::ProcessorSet(cpu) => write!(f, "processor/{cpu}/set"),
            Name::ProcessorState(cpu) => write!(f, "processor/{cpu}/state"),
            Name::LwpSet(lwp) => write!(f, "lwp/{}/{}/set", lwp.pid, lwp.lwp),
            Name::LwpCpu(lwp) => write!(f, "lwp/{}/{}/cpu", lwp.pid, lwp.lwp),
            Name::LwpAside(lwp) => write!(f, "lwp/{}/{}/aside", lwp.pid, lwp.lwp),
            Name::LwpClass(lwp) => write!(f, "lwp/{}/{}/class", lwp.pid, lwp.lwp),
            Name::DispatchRow(table, level) => write!(f, "dispatch/{table}/{level}"),
            Name::DefaultClass => f.write_str("dispatch/default"),
            Name::Pools => f.write_str("pools"),
            Name::ProcessPool(pid) => write!(f, "process/{pid}/pool"),
            Name::Control(HolderId::Zone(zone), control) => write!(f, "zone/{zone}/{control}"),
            Name::Control(HolderId::Project(project), control) => write!(f, "project/{project}/{control}"),
            Name::Control(HolderId::Process(pid), control) => write!(f, "process/{pid}/{control}"),
        }
    }
}

impl FromStr for Name {
    type Err = KnobError;

    fn from_str(text: &str) -> Result<Self, KnobError> {
        parse_name(text).ok_or_else(|| KnobError::Unknown(text.to_owned()))
    }
}

fn parse_name(text: &str) -> Option<Name> {
    let words: Vec<&str> = text.split('/').collect();
    let lwp =
        |pid: &str, lwp: &str| Some(Lwp { pid: pid.parse::<Pid>().ok()?, lwp: lwp.parse::<LwpId>().ok()? });
    match *words.as_slice() {
        ["set", set] => Some(Name::Set(set.parse().ok()?)),
        ["set", set, "memory"] => Some(Name::SetMemory(set.parse().ok()?)),
        ["set", set, "fence"] => Some(Name::SetFence(set.parse().ok()?)),
        ["lwp", pid, id, "lgroups"] => Some(Name::LwpLgroups(lwp(pid, id)?)),
        ["processor", cpu, "set"] => Some(Name::ProcessorSet(cpu.parse().ok()?)),
        ["processor", cpu, "state"] => Some(Name::ProcessorState(cpu.parse().ok()?)),
        ["lwp", pid, id, "set"] => Some(Name::LwpSet(lwp(pid, id)?)),
        ["lwp", pid, id, "cpu"] => Some(Name::LwpCpu(lwp(pid, id)?)),
        ["lwp", pid, id, "aside"] => Some(Name::LwpAside(lwp(pid, id)?)),
        ["lwp", pid, id, "class"] => Some(Name::LwpClass(lwp(pid, id)?)),
        ["pools"] => Some(Name::Pools),
        ["process", pid, "pool"] => Some(Name::ProcessPool(pid.parse().ok()?)),
        [kind, number, control] if parse_control_name(control).is_some() => {
            let holder = match kind {
                "zone" => HolderId::Zone(number.parse().ok()?),
                "project" => HolderId::Project(number.parse().ok()?),
                "process" => HolderId::Process(number.parse().ok()?),
                _ => return None,
            };
            Some(Name::Control(holder, parse_control_name(control)?))
        }
        ["dispatch", "default"] => Some(Name::DefaultClass),
        ["dispatch", table, level] => Some(Name::DispatchRow(table.parse().ok()?, level.parse().ok()?)),
        _ => None,
    }
}

/// The value of a CPU's set.
#[must_use]
pub fn place_value(set: PsetId, arrival: u64, former: &[Former]) -> Value {
    if set.is_default() {
        return "0".into();
    }
    let before = former.iter().map(|stay| format!(" {} {} {}", stay.set, stay.serial, stay.place));
    format!("{set} {arrival}{}", before.collect::<String>())
}

/// The value of a CPU's state.
#[must_use]
pub fn state_value(state: State, since: WallTime) -> Value {
    format!("{state} since {}", since.0)
}

/// The value of a set.
#[must_use]
pub fn set_value(record: SetRecord) -> Value {
    format!("{} {}", if record.shared { "shared" } else { "exclusive" }, record.serial)
}

/// The value of a binding.
pub fn bond_value<T: fmt::Display>(bond: Option<Bond<T>>) -> Value {
    match bond {
        None => "none".into(),
        Some(Bond { to, soft: false }) => to.to_string(),
        Some(Bond { to, soft: true }) => format!("{to} soft"),
    }
}

/// The value of whether a thread avoids shared sets.
#[must_use]
pub fn aside_value(aside: bool) -> Value {
    if aside { "yes".into() } else { "no".into() }
}

/// The value of the default class.
#[must_use]
pub fn default_class_value(class: Option<Class>) -> Value {
    class.map_or_else(|| "none".into(), |class| class.word().into())
}

/// The value of the pool configuration.
#[must_use]
pub fn pools_value(state: &PoolsState) -> Value {
    // Cannot fail: every key is a string or a number.
    serde_json::to_string(&Record::from(state)).unwrap_or_default()
}

/// The present value; `None` if the set, CPU or thread does not exist.
#[must_use]
pub fn read(tables: &Tables, name: Name) -> Option<Value> {
    match name {
        Name::Set(set) => tables.sets.get(&set).map(|s| set_value(*s)),
        Name::SetMemory(set) => tables.memory.get(&set).and_then(memory_value),
        // Cannot fail: every key is a string or a number.
        Name::SetFence(set) => {
            tables.fences.get(&set).map(|fence| serde_json::to_string(fence).unwrap_or_default())
        }
        Name::LwpLgroups(lwp) => tables.lwp(lwp).map(|l| affinities_value(l.affinities)),
        Name::ProcessorSet(cpu) => {
            tables.processors.get(&cpu).map(|p| place_value(p.set, p.arrival, &p.former))
        }
        Name::ProcessorState(cpu) => tables.processors.get(&cpu).map(|p| state_value(p.state, p.since)),
        Name::LwpSet(lwp) => tables.lwp(lwp).map(|l| bond_value(l.set)),
        Name::LwpCpu(lwp) => tables.lwp(lwp).map(|l| bond_value(l.cpu.clone())),
        Name::LwpAside(lwp) => tables.lwp(lwp).map(|l| aside_value(l.aside)),
        Name::LwpClass(lwp) => tables.lwp(lwp).map(|l| l.class.to_string()),
        Name::DispatchRow(table, level) => read_row(&tables.dispatch, table, level),
        Name::DefaultClass => Some(default_class_value(tables.default_class)),
        Name::Pools => tables.pools.as_ref().map(pools_value),
        Name::ProcessPool(pid) => tables.processes.get(&pid).map(|p| p.pool.to_string()),
        Name::Control(holder, control) => control_value(tables.controls_of(holder).setting(control)),
    }
}

/// Sets a value.
///
/// # Errors
/// [`KnobError`]; nothing changes.
pub fn write(tables: &mut Tables, name: Name, value: Option<&Value>) -> Result<(), KnobError> {
    match (name, value) {
        (Name::Set(set), None) => remove_set(tables, set),
        (Name::Set(set), Some(value)) => {
            let record = parse_set(value).filter(|_| !set.is_default()).ok_or_else(|| malformed(value))?;
            tables.sets.insert(set, record);
            Ok(())
        }
        (Name::Pools, value) => {
            let parse = |value: &Value| serde_json::from_str::<Record>(value).map_err(|_| malformed(value));
            tables.pools = value.map(parse).transpose()?.map(PoolsState::from);
            Ok(())
        }
        (Name::SetFence(set), None) => {
            tables.fences.remove(&set);
            Ok(())
        }
        (Name::SetFence(set), Some(value)) => {
            let fence = serde_json::from_str(value).map_err(|_| malformed(value))?;
            if set.is_default() || !tables.has_set(set) {
                return Err(KnobError::Refused(format!("there is no processor set {set}")));
            }
            tables.fences.insert(set, fence);
            Ok(())
        }
        (Name::SetMemory(set), None) => {
            tables.memory.remove(&set);
            Ok(())
        }
        (Name::SetMemory(set), Some(value)) => {
            let memory = parse_memory(value).ok_or_else(|| malformed(value))?;
            if set.is_default() || !tables.has_set(set) {
                return Err(KnobError::Refused(format!("there is no processor set {set}")));
            }
            tables.memory.insert(set, memory);
            Ok(())
        }
        (Name::Control(holder, control), value) => {
            let parse = |value: &Value| parse_control(control, value).ok_or_else(|| malformed(value));
            write_control(tables, holder, value.map_or(Ok(ControlSetting::unset(control)), parse)?)
        }
        (_, None) => Err(KnobError::Refused(format!("{name} cannot be removed"))),
        (Name::ProcessorSet(cpu), Some(value)) => write_place(tables, cpu, value),
        (Name::ProcessorState(cpu), Some(value)) => write_state(tables, cpu, value),
        (Name::LwpSet(lwp), Some(value)) => {
            let bond = parse_bond::<PsetId>(value).ok_or_else(|| malformed(value))?;
            if let Some(bond) = bond.filter(|b| b.to.is_default() || !tables.has_set(b.to)) {
                return Err(KnobError::Refused(format!("there is no processor set {}", bond.to)));
            }
            writable(tables, lwp)?.set = bond;
            Ok(())
        }
        (Name::LwpCpu(lwp), Some(value)) => {
            let bond = parse_bond::<CpuSet>(value).ok_or_else(|| malformed(value))?;
            let no_such = |cpu: &CpuId| !tables.processors.contains_key(cpu);
            if let Some(cpu) = bond.as_ref().and_then(|b| b.to.iter().find(no_such)) {
                return Err(KnobError::Refused(format!("there is no CPU {cpu}")));
            }
            writable(tables, lwp)?.cpu = bond;
            Ok(())
        }
        (Name::LwpLgroups(lwp), Some(value)) => {
            writable(tables, lwp)?.affinities = parse_affinities(value).ok_or_else(|| malformed(value))?;
            Ok(())
        }
        (Name::LwpAside(lwp), Some(value)) => {
            let aside = [false, true].into_iter().find(|aside| aside_value(*aside) == *value);
            writable(tables, lwp)?.aside = aside.ok_or_else(|| malformed(value))?;
            Ok(())
        }
        (Name::LwpClass(lwp), Some(value)) => {
            let class: ClassParams = value.parse().map_err(|_| malformed(value))?;
            if class == ClassParams::Sys {
                return Err(KnobError::Refused("no thread enters SYS".into()));
            }
            writable(tables, lwp)?.class = class;
            Ok(())
        }
        (Name::DispatchRow(table, level), Some(value)) => {
            write_row(Arc::make_mut(&mut tables.dispatch), table, level, value)
                .ok_or_else(|| malformed(value))
        }
        (Name::ProcessPool(pid), Some(value)) => {
            let process = tables.processes.get_mut(&pid).filter(|p| !p.kernel).ok_or(KnobError::Gone)?;
            process.pool = value.parse().map_err(|_| malformed(value))?;
            Ok(())
        }
        (Name::DefaultClass, Some(value)) => {
            tables.default_class = match value.as_str() {
                "none" => None,
                word => Some(word.parse().map_err(|_| malformed(value))?),
            };
            Ok(())
        }
    }
}

fn write_control(tables: &mut Tables, holder: HolderId, to: ControlSetting) -> Result<(), KnobError> {
    match holder {
        HolderId::Zone(zone) => {
            let values = tables.zone_controls.entry(zone).or_default();
            values.set(to);
            if values.is_none() {
                tables.zone_controls.remove(&zone);
            }
        }
        HolderId::Project(project) => {
            tables.projects.get_mut(&project).ok_or(KnobError::Gone)?.controls.set(to);
        }
        HolderId::Process(pid) => {
            let process = tables.processes.get_mut(&pid).filter(|p| !p.kernel).ok_or(KnobError::Gone)?;
            process.controls.set(to);
        }
    }
    Ok(())
}

fn malformed(value: &str) -> KnobError {
    KnobError::Refused(format!("`{value}` is no value for it"))
}

fn writable(tables: &mut Tables, lwp: Lwp) -> Result<&mut crate::tables::LwpRecord, KnobError> {
    if tables.processes.get(&lwp.pid).is_some_and(|p| p.kernel) {
        return Err(KnobError::Refused("it is a kernel thread".into()));
    }
    tables.lwp_mut(lwp).ok_or(KnobError::Gone)
}

fn remove_set(tables: &mut Tables, set: PsetId) -> Result<(), KnobError> {
    if tables.processors.values().any(|p| p.set == set) {
        return Err(KnobError::Refused("it still has CPUs".into()));
    }
    if tables.lwps().any(|(_, l)| l.set_id() == set) {
        return Err(KnobError::Refused("threads are still bound to it".into()));
    }
    if tables.memory.contains_key(&set) {
        return Err(KnobError::Refused("its memory is still confined".into()));
    }
    tables.sets.remove(&set);
    Ok(())
}

fn write_place(tables: &mut Tables, cpu: CpuId, value: &str) -> Result<(), KnobError> {
    let (set, arrival, former) = parse_place(value).ok_or_else(|| malformed(value))?;
    if !tables.has_set(set) {
        return Err(KnobError::Refused(format!("there is no processor set {set}")));
    }
    let before = tables.processors.get(&cpu).ok_or(KnobError::Gone)?;
    keep_default_running(tables, cpu, before.state, set)?;
    if let Some(record) = tables.processors.get_mut(&cpu) {
        (record.set, record.arrival, record.former) = (set, arrival, former);
    }
    Ok(())
}

fn write_state(tables: &mut Tables, cpu: CpuId, value: &str) -> Result<(), KnobError> {
    let (state, since) = parse_state(value).ok_or_else(|| malformed(value))?;
    let before = tables.processors.get(&cpu).ok_or(KnobError::Gone)?;
    keep_default_running(tables, cpu, state, before.set)?;
    if let Some(record) = tables.processors.get_mut(&cpu) {
        (record.state, record.since) = (state, since);
    }
    Ok(())
}

/// Refuses a value that leaves the default set without a running CPU. System threads are there at every moment.
fn keep_default_running(tables: &Tables, cpu: CpuId, state: State, set: PsetId) -> Result<(), KnobError> {
    let others = tables.processors.iter().filter(|(id, _)| **id != cpu);
    let runs = |state: State, set: PsetId| set.is_default() && state.runs_threads();
    if runs(state, set) || others.into_iter().any(|(_, p)| runs(p.state, p.set)) {
        Ok(())
    } else {
        Err(KnobError::Refused("it is the last one in the default set".into()))
    }
}

fn parse_set(value: &str) -> Option<SetRecord> {
    let (word, serial) = value.split_once(' ')?;
    let shared = match word {
        "shared" => true,
        "exclusive" => false,
        _ => return None,
    };
    Some(SetRecord { shared, serial: serial.parse().ok()? })
}

fn parse_place(value: &str) -> Option<(PsetId, u64, Vec<Former>)> {
    if value == "0" {
        return Some((PsetId::DEFAULT, 0, Vec::new()));
    }
    let mut words = value.split(' ');
    let set: PsetId = words.next()?.parse().ok()?;
    let arrival = words.next()?.parse().ok()?;
    let mut former = Vec::new();
    while let Some(set) = words.next() {
        former.push(Former {
            set: set.parse().ok()?,
            serial: words.next()?.parse().ok()?,
            place: words.next()?.parse().ok()?,
        });
    }
    (!set.is_default()).then_some((set, arrival, former))
}

fn parse_state(value: &str) -> Option<(State, WallTime)> {
    let (state, since) = value.split_once(" since ")?;
    Some((state.parse().ok()?, WallTime(since.parse().ok()?)))
}

/// `None`: invalid text. `Some(None)`: no binding.
fn parse_bond<T: FromStr>(value: &str) -> Option<Option<Bond<T>>> {
    if value == "none" {
        return Some(None);
    }
    let (to, soft) = match value.strip_suffix(" soft") {
        Some(to) => (to, true),
        None => (value, false),
    };
    Some(Some(Bond { to: to.parse().ok()?, soft }))
}
