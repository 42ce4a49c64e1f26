//! The expected result of a change, defined independently of any machine: a small model that moves CPUs and threads between sets.

use super::observed::Observed;
use millpond_model::{
    ClassParams, ClassRequest, ClassTable, ControlHolder, ControlSetting, CpuCap, CpuId, CpuSet,
    DispatchTables, Lwp, LwpId, Pid, Pset, PsetId, SetMemory, Shares, State, Transition,
};
use std::collections::BTreeMap;
use std::fmt;

/// A change with numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create { cpus: Vec<CpuId>, shared: bool, forced: bool },
    Destroy { set: PsetId },
    Assign { set: PsetId, cpus: Vec<CpuId>, forced: bool },
    BindSet { pid: Pid, lwps: Option<Vec<LwpId>>, to: Option<PsetId> },
    BindCpu { pid: Pid, lwps: Option<Vec<LwpId>>, to: CpuSet },
    State { cpus: Vec<CpuId>, to: State, forced: bool },
    Memory { set: PsetId, to: SetMemory },
    Class { pid: Pid, request: ClassRequest },
    Table { table: ClassTable },
    Control { holder: ControlHolder, to: ControlSetting },
}

/// The part of a situation that changes affect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// Sets in order of creation, members in order of arrival.
    pub sets: Vec<(PsetId, Vec<CpuId>)>,
    /// The set that each CPU goes to at the end of its set, if that is not the default set.
    pub returns: BTreeMap<CpuId, PsetId>,
    /// The memory setting of each set, if available.
    pub memory: BTreeMap<PsetId, SetMemory>,
    /// The state of each CPU.
    pub states: BTreeMap<CpuId, State>,
    /// The bindings of each thread.
    pub threads: BTreeMap<Lwp, Binding>,
    /// The class of each process, if classes can be changed.
    pub classes: BTreeMap<Pid, ClassParams>,
    /// Shares and caps, if they can be changed: of every project and zone, and of processes that have any.
    pub controls: BTreeMap<ControlHolder, Controls>,
    /// The dispatch tables, if they can be changed.
    pub tables: Option<DispatchTables>,
}

/// Shares and a cap, if set.
pub type Controls = (Option<Shares>, Option<CpuCap>);

/// A set (the default one if unbound), and CPUs.
pub type Binding = (PsetId, CpuSet);

impl Situation {
    /// The observed situation, with the threads that `ours` accepts. Others may change by themselves.
    pub fn of(seen: &Observed, ours: impl Fn(Pid) -> bool) -> Self {
        Situation {
            sets: seen.sets.iter().map(|s| (s.id, s.members.clone())).collect(),
            returns: seen.sets.iter().flat_map(|set| set.returns.clone()).collect(),
            memory: seen.memory.iter().map(|(set, (wanted, _))| (*set, wanted.clone())).collect(),
            states: seen.processors.values().map(|p| (p.cpu, p.state)).collect(),
            threads: seen
                .threads
                .values()
                .filter(|t| ours(t.lwp.pid))
                .map(|t| (t.lwp, (t.set, t.cpus.clone())))
                .collect(),
            classes: seen.classes.iter().filter(|(pid, _)| ours(**pid)).map(|(pid, c)| (*pid, *c)).collect(),
            controls: seen
                .controls
                .iter()
                .filter(|(holder, _)| !matches!(holder, ControlHolder::Process(pid) if !ours(*pid)))
                .map(|(holder, controls)| (holder.clone(), *controls))
                .collect(),
            tables: seen.tables.clone(),
        }
    }

    /// The situation after `operation`, which was not refused.
    #[must_use]
    pub fn after(mut self, operation: &Operation) -> Self {
        match operation {
            Operation::Create { cpus, forced, .. } => {
                let taken: Vec<PsetId> = self.sets.iter().map(|(id, _)| *id).collect();
                let id = Pset::free_id(&taken);
                self.sets.push((id, Vec::new()));
                cpus.iter().for_each(|cpu| self.move_cpu(*cpu, id, *forced));
            }
            Operation::Assign { set, cpus, forced } => {
                cpus.iter().for_each(|cpu| self.move_cpu(*cpu, *set, *forced));
            }
            Operation::Destroy { set } => {
                let ended = self.sets.iter().position(|(id, _)| id == set).map(|at| self.sets.remove(at).1);
                for cpu in ended.unwrap_or_default() {
                    let to = self.returns.get(&cpu);
                    if let Some((_, members)) = self.sets.iter_mut().find(|(id, _)| Some(id) == to) {
                        members.push(cpu);
                    }
                }
                self.threads.values_mut().filter(|b| b.0 == *set).for_each(|b| b.0 = PsetId::DEFAULT);
            }
            Operation::BindSet { pid, lwps, to } => {
                self.named(*pid, lwps.as_deref()).for_each(|b| b.0 = to.unwrap_or(PsetId::DEFAULT));
            }
            Operation::BindCpu { pid, lwps, to } => {
                self.named(*pid, lwps.as_deref()).for_each(|b| b.1.clone_from(to));
            }
            Operation::Memory { set, to } => {
                self.memory.insert(*set, to.clone());
            }
            Operation::Class { pid, request } => {
                if let (Some(class), Some(tables)) = (self.classes.get_mut(pid), &self.tables)
                    && let Ok((params, _)) = request.apply(*class, tables)
                {
                    *class = params;
                }
            }
            Operation::Control { holder, to } => {
                let controls = self.controls.entry(holder.clone()).or_default();
                match to {
                    ControlSetting::CpuShares(shares) => controls.0 = *shares,
                    ControlSetting::CpuCap(cap) => controls.1 = *cap,
                }
                if matches!(holder, ControlHolder::Process(_)) && *controls == Controls::default() {
                    self.controls.remove(holder);
                }
            }
            Operation::Table { table } => {
                if let Some(tables) = &mut self.tables {
                    tables.set(table.clone());
                }
            }
            Operation::State { cpus, to, forced } => {
                for cpu in cpus {
                    let stops = self
                        .states
                        .get(cpu)
                        .is_some_and(|s| s.transition(*to, *forced) == Ok(Transition::Stop));
                    if stops && *forced {
                        self.release(*cpu);
                    }
                    self.states.insert(*cpu, *to);
                }
            }
        }
        self
    }

    fn set_of(&self, cpu: CpuId) -> PsetId {
        self.sets.iter().find(|(_, m)| m.contains(&cpu)).map_or(PsetId::DEFAULT, |(id, _)| *id)
    }

    fn move_cpu(&mut self, cpu: CpuId, to: PsetId, forced: bool) {
        if self.set_of(cpu) == to {
            return;
        }
        for (id, members) in &mut self.sets {
            members.retain(|m| *m != cpu);
            if *id == to {
                members.push(cpu);
            }
        }
        if forced {
            self.release(cpu);
        }
    }

    fn release(&mut self, cpu: CpuId) {
        self.threads.values_mut().filter(|b| b.1.contains(cpu)).for_each(|b| b.1 = CpuSet::new());
    }

    fn named<'a>(
        &'a mut self,
        pid: Pid,
        lwps: Option<&'a [LwpId]>,
    ) -> impl Iterator<Item = &'a mut Binding> + 'a {
        self.threads
            .iter_mut()
            .filter(move |(l, _)| l.pid == pid && lwps.is_none_or(|some| some.contains(&l.lwp)))
            .map(|(_, binding)| binding)
    }
}

impl Operation {
    /// The kind of change, for counting.
    #[must_use]
    pub fn sort(&self) -> &'static str {
        match self {
            Operation::Create { .. } | Operation::Destroy { .. } | Operation::Assign { .. } => {
                "changes of sets"
            }
            Operation::BindSet { .. } | Operation::BindCpu { .. } => "changes of bindings",
            Operation::State { .. } => "changes of states, interrupts following",
            Operation::Memory { .. } => "changes of the memory of sets",
            Operation::Class { .. } => "changes of classes",
            Operation::Table { .. } => "changes of dispatch tables",
            Operation::Control { .. } => "changes of shares and caps",
        }
    }

    /// Whether it names the thread.
    #[must_use]
    pub fn names(&self, lwp: Lwp) -> bool {
        match self {
            Operation::BindSet { pid, lwps, .. } | Operation::BindCpu { pid, lwps, .. } => {
                *pid == lwp.pid && lwps.as_ref().is_none_or(|l| l.contains(&lwp.lwp))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[CpuId]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let force = |forced: &bool| if *forced { ", forced" } else { "" };
        let who = |pid: &Pid, lwps: &Option<Vec<LwpId>>| match lwps {
            None => format!("process {pid}"),
            Some(l) => {
                let l: Vec<String> = l.iter().map(ToString::to_string).collect();
                format!("thread {pid}/{}", l.join(","))
            }
        };
        match self {
            Operation::Create { cpus, shared, forced } => {
                let kind = if *shared { "shared set" } else { "set" };
                write!(f, "create a {kind} of [{}]{}", list(cpus), force(forced))
            }
            Operation::Destroy { set } => write!(f, "destroy set {set}"),
            Operation::Assign { set, cpus, forced } => {
                write!(f, "assign [{}] to set {set}{}", list(cpus), force(forced))
            }
            Operation::BindSet { pid, lwps, to: Some(set) } => {
                write!(f, "bind {} to set {set}", who(pid, lwps))
            }
            Operation::BindSet { pid, lwps, to: None } => write!(f, "unbind {} from its set", who(pid, lwps)),
            Operation::BindCpu { pid, lwps, to } if to.is_empty() => {
                write!(f, "unbind {} from its CPUs", who(pid, lwps))
            }
            Operation::BindCpu { pid, lwps, to } => {
                write!(f, "bind {} to CPUs {to}", who(pid, lwps))
            }
            Operation::Memory { set, to } => write!(f, "take the memory of set {set} from {to:?}"),
            Operation::Class { pid, request } => write!(f, "put process {pid} into {request:?}"),
            Operation::Control { holder, to } => match to.value() {
                Some(value) => write!(f, "set {} of {holder} to {value}", to.control()),
                None => write!(f, "delete {} of {holder}", to.control()),
            },
            Operation::Table { table } => {
                let which = match table {
                    ClassTable::Ts(_) => "TS",
                    ClassTable::Rt(_) => "RT",
                    ClassTable::Fx(_) => "FX",
                    ClassTable::Fss(_) => "FSS",
                };
                write!(f, "replace the dispatch table of {which}")
            }
            Operation::State { cpus, to, forced } => {
                write!(f, "make [{}] {to}{}", list(cpus), force(forced))
            }
        }
    }
}
