//! State that commands change: CPUs, sets, and processes with their threads. Plain data and queries; the rules of changes are
//! elsewhere.

use crate::kernel::{LgroupAffinities, dispatch_tables};
use millpond_formats::dispadmin::{HZ_DEFAULT, default_tables};
use millpond_machine::facets::{LwpStatus, Process};
use millpond_model::pools::PoolsState;
use millpond_model::{
    Class, ClassParams, ControlValues, CpuId, CpuSet, DispatchTables, Fencing, Former, Lwp, LwpId, Pid,
    PoolId, Pset, PsetId, PsetMode, SetMemory, State, WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The changeable part of a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Every CPU of the topology.
    pub processors: BTreeMap<CpuId, ProcessorRecord>,
    /// Every set except the default one.
    pub sets: BTreeMap<PsetId, SetRecord>,
    /// Every process.
    pub processes: BTreeMap<Pid, ProcessRecord>,
    /// The next pid. Pids are never reused.
    pub next_pid: Pid,
    /// The dispatch tables, in ticks.
    #[serde(default = "dispatch_tables::standard", with = "dispatch_tables")]
    pub dispatch: Arc<DispatchTables>,
    /// The default class from the next boot on, if set.
    #[serde(default)]
    pub default_class: Option<Class>,
    /// The last committed pool configuration, while pools are enabled.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "millpond_formats::pools::record::optional"
    )]
    pub pools: Option<PoolsState>,
    /// Memory placement of sets, where set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<PsetId, SetMemory>,
    /// Fence settings of the sets that are fences.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fences: BTreeMap<PsetId, Fencing>,
    /// Projects by id.
    #[serde(default = "usual_projects")]
    pub projects: BTreeMap<u32, ProjectRecord>,
    /// Shares and caps of zones, by position, where set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub zone_controls: BTreeMap<u32, ControlValues>,
}

/// A project. Its processes refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRecord {
    /// Its name.
    pub name: String,
    /// Its current shares and cap in the global zone.
    #[serde(default, skip_serializing_if = "ControlValues::is_none")]
    pub controls: ControlValues,
    /// Its configuration, which is applied at boot and when a process enters it.
    #[serde(default, skip_serializing_if = "ControlValues::is_none")]
    pub kept: ControlValues,
}

/// A holder, identified as in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderId {
    /// A zone, by position.
    Zone(u32),
    /// A project of the global zone, by id.
    Project(u32),
    /// A process.
    Process(Pid),
}

/// The project of system processes.
pub const SYSTEM_PROJECT: u32 = 0;
/// The project of processes that the superuser starts.
pub const ROOT_PROJECT: u32 = 1;

/// The projects of a newly installed machine, as the manuals list them.
#[must_use]
pub fn usual_projects() -> BTreeMap<u32, ProjectRecord> {
    let usual = [
        (SYSTEM_PROJECT, "system"),
        (ROOT_PROJECT, "user.root"),
        (2, "noproject"),
        (3, "default"),
        (10, "group.staff"),
    ];
    let one = |(id, name): (u32, &str)| {
        let none = ControlValues::default();
        (id, ProjectRecord { name: name.to_owned(), controls: none, kept: none })
    };
    usual.into_iter().map(one).collect()
}

/// Boot-time tunables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tunables {
    /// Clock ticks per second, 1 to [`crate::kernel::HZ_MAX`].
    pub hz: u32,
    /// -1 (the initial value) or 0: the standard time-sharing table. Any other value: the table for large servers.
    pub ts_dispatch_extended: i32,
    /// 1: large shared memory segments are placed within the processor set of the thread that creates them.
    pub lgrp_mem_pset_aware: u32,
    /// Ticks for which a thread's data counts as cached after it left a CPU; default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rechoose_interval: Option<u64>,
    /// Nanoseconds for which a thread that waits on its last CPU is not stolen; default 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nosteal_nsec: Option<u64>,
    /// A wake-up by a program does not preempt a thread that began to run within this many nanoseconds, as under `millpond schedd`.
    /// Without a value it does, as in Solaris.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakeup_parity_nsec: Option<u64>,
    /// Threads of the class TS share time by the rules of Linux, in slices of this many nanoseconds. Without a value they follow the rules
    /// of Solaris.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eevdf_slice_ns: Option<u64>,
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables {
            hz: HZ_DEFAULT,
            ts_dispatch_extended: -1,
            lgrp_mem_pset_aware: 0,
            rechoose_interval: None,
            nosteal_nsec: None,
            wakeup_parity_nsec: None,
            eevdf_slice_ns: None,
        }
    }
}

impl Tunables {
    /// The dispatch tables of a machine with these tunables.
    #[must_use]
    pub fn tables(&self) -> DispatchTables {
        let extended = !matches!(self.ts_dispatch_extended, -1 | 0);
        default_tables(extended)
    }
}

/// A CPU's set and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorRecord {
    /// Its state.
    pub state: State,
    /// Time of the last state change.
    pub since: WallTime,
    /// Its set.
    pub set: PsetId,
    /// Orders the members of a set; 0 in the default set, which has no order.
    pub arrival: u64,
    /// The sets from which it was taken, most recent last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Former>,
}

/// A set. Its members are in the CPUs' records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRecord {
    /// Whether other threads may use its CPUs too.
    pub shared: bool,
    /// Orders sets by creation.
    pub serial: u64,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessRecord {
    /// Its short name.
    pub name: String,
    /// Whether it belongs to the kernel.
    pub kernel: bool,
    /// Its zone.
    pub zone: String,
    /// Its threads; at least one.
    pub lwps: BTreeMap<LwpId, LwpRecord>,
    /// The process that forked it; `None` if it was started from outside.
    #[serde(default)]
    pub parent: Option<Pid>,
    /// Its pool, which its children inherit.
    #[serde(default = "default_pool", skip_serializing_if = "is_default_pool")]
    pub pool: PoolId,
    /// Its project's id, which its children inherit.
    #[serde(default = "root_project")]
    pub project: u32,
    /// Its own shares and cap.
    #[serde(default, skip_serializing_if = "ControlValues::is_none")]
    pub controls: ControlValues,
    /// The ancestor whose shares and cap it shares, if it has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Pid>,
}

fn root_project() -> u32 {
    ROOT_PROJECT
}

fn default_pool() -> PoolId {
    PoolId::DEFAULT
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_default_pool(pool: &PoolId) -> bool {
    pool.is_default()
}

/// A thread's class and bindings. A *hard* binding prevents its CPU from being taken; a *soft* one gives way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LwpRecord {
    /// The set that it is bound to.
    pub set: Option<Bond<PsetId>>,
    /// The CPUs that it is bound to.
    pub cpu: Option<Bond<CpuSet>>,
    /// Whether it avoids shared sets.
    #[serde(default)]
    pub aside: bool,
    /// Its class and parameters.
    #[serde(default)]
    pub class: ClassParams,
    /// Its lgroup affinities, by position in the topology.
    #[serde(rename = "wish", default, skip_serializing_if = "LgroupAffinities::is_none")]
    pub affinities: LgroupAffinities,
}

/// A binding, hard or soft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bond<T> {
    /// The target.
    pub to: T,
    /// Whether it gives way.
    #[serde(default)]
    pub soft: bool,
}

impl<T> Bond<T> {
    /// A hard binding.
    pub fn hard(to: T) -> Self {
        Bond { to, soft: false }
    }
}

impl LwpRecord {
    /// Its set; the default one if unbound.
    #[must_use]
    pub fn set_id(&self) -> PsetId {
        self.set.map_or(PsetId::DEFAULT, |b| b.to)
    }

    /// Whether it is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.set.is_some() || self.cpu.is_some()
    }
}

impl Tables {
    /// Whether a set exists; the default one always does.
    #[must_use]
    pub fn has_set(&self, set: PsetId) -> bool {
        set.is_default() || self.sets.contains_key(&set)
    }

    /// The controls of a holder.
    #[must_use]
    pub fn controls_of(&self, holder: HolderId) -> ControlValues {
        match holder {
            HolderId::Zone(zone) => self.zone_controls.get(&zone).copied(),
            HolderId::Project(project) => self.projects.get(&project).map(|project| project.controls),
            HolderId::Process(pid) => self.processes.get(&pid).map(|process| process.controls),
        }
        .unwrap_or_default()
    }

    /// Adds a process with the next pid.
    pub fn add_process(&mut self, process: ProcessRecord) -> Pid {
        let pid = self.next_pid;
        self.next_pid = Pid(pid.0 + 1);
        self.processes.insert(pid, process);
        pid
    }

    /// Adds a thread to a process with its creator's bindings. `None` if the creator does not exist.
    pub fn add_thread(&mut self, creator: Lwp) -> Option<Lwp> {
        let record = self.lwp(creator)?.clone();
        let process = self.processes.get_mut(&creator.pid)?;
        let lwp = LwpId(process.lwps.keys().next_back()?.0 + 1);
        process.lwps.insert(lwp, record);
        Some(Lwp { pid: creator.pid, lwp })
    }

    /// The members of a set in order of arrival; ascending for the default set.
    #[must_use]
    pub fn members(&self, set: PsetId) -> Vec<CpuId> {
        let mut found: Vec<(u64, CpuId)> =
            self.processors.iter().filter(|(_, p)| p.set == set).map(|(id, p)| (p.arrival, *id)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// The members of a set that run threads.
    #[must_use]
    pub fn active(&self, set: PsetId) -> CpuSet {
        self.where_cpu(|p| p.set == set && p.state.runs_threads())
    }

    /// The CPUs that threads of a set may use. For the default set this includes shared sets.
    #[must_use]
    pub fn usable(&self, set: PsetId) -> CpuSet {
        let shares = |p: &ProcessorRecord| {
            set.is_default() && self.sets.get(&p.set).is_some_and(|record| record.shared)
        };
        self.where_cpu(|p| (p.set == set || shares(p)) && p.state.runs_threads())
    }

    /// The CPUs that take device interrupts.
    #[must_use]
    pub fn interruptible(&self) -> CpuSet {
        self.where_cpu(|p| p.state.takes_interrupts())
    }

    /// The CPU that takes a device's interrupts: its own, or the next one that takes any.
    #[must_use]
    pub fn interrupted(&self, own: CpuId) -> Option<CpuId> {
        let takers = self.interruptible();
        takers.iter().find(|cpu| *cpu >= own).or_else(|| takers.lowest())
    }

    /// The CPUs for which `wanted` holds.
    pub fn where_cpu(&self, wanted: impl Fn(&ProcessorRecord) -> bool) -> CpuSet {
        self.processors.iter().filter(|(_, p)| wanted(p)).map(|(id, _)| *id).collect()
    }

    /// Whether the set from which a CPU was taken still exists.
    #[must_use]
    pub fn has_former(&self, stay: &Former) -> bool {
        self.sets.get(&stay.set).is_some_and(|set| set.serial == stay.serial)
    }

    /// A set in the facet's form.
    #[must_use]
    pub fn pset(&self, id: PsetId) -> Option<Pset> {
        let record = self.sets.get(&id)?;
        let mode = if record.shared { PsetMode::Shared } else { PsetMode::Own };
        let members = self.members(id);
        let returns = |cpu: &CpuId| {
            let former = self.processors.get(cpu)?.former.clone();
            Some((*cpu, Former::last(former, |stay| self.has_former(stay))?.0.set))
        };
        let returns = members.iter().filter_map(returns).collect();
        Some(Pset { id, members, mode, breaches: Vec::new(), returns })
    }

    /// The sets in order of creation.
    #[must_use]
    pub fn psets(&self) -> Vec<Pset> {
        let mut ids: Vec<(u64, PsetId)> = self.sets.iter().map(|(id, s)| (s.serial, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|(_, id)| self.pset(id)).collect()
    }

    /// Every thread, ascending.
    pub fn lwps(&self) -> impl Iterator<Item = (Lwp, &LwpRecord)> {
        self.processes
            .iter()
            .flat_map(|(pid, p)| p.lwps.iter().map(|(lwp, r)| (Lwp { pid: *pid, lwp: *lwp }, r)))
    }

    /// A thread.
    #[must_use]
    pub fn lwp(&self, lwp: Lwp) -> Option<&LwpRecord> {
        self.processes.get(&lwp.pid)?.lwps.get(&lwp.lwp)
    }

    /// A thread, mutable.
    pub fn lwp_mut(&mut self, lwp: Lwp) -> Option<&mut LwpRecord> {
        self.processes.get_mut(&lwp.pid)?.lwps.get_mut(&lwp.lwp)
    }

    /// The CPUs where a thread may run: its CPU, or the active members of its set. An unbound thread may use all active CPUs of the
    /// default set and, unless it avoids them, of shared sets.
    #[must_use]
    pub fn allowed(&self, record: &LwpRecord) -> CpuSet {
        match (&record.cpu, record.set) {
            (Some(bond), _) => bond.to.clone(),
            (None, Some(set)) => self.active(set.to),
            (None, None) if record.aside => self.active(PsetId::DEFAULT),
            (None, None) => self.where_cpu(|p| {
                p.state.runs_threads()
                    && (p.set.is_default() || self.sets.get(&p.set).is_some_and(|s| s.shared))
            }),
        }
    }

    /// A thread in the facet's form.
    #[must_use]
    pub fn status(&self, lwp: Lwp, record: &LwpRecord) -> LwpStatus {
        let cpus = record.cpu.as_ref().map(|bond| bond.to.clone()).unwrap_or_default();
        LwpStatus { lwp, set: record.set_id(), cpus, allowed: self.allowed(record) }
    }

    /// A process in the facet's form.
    #[must_use]
    pub fn process(&self, pid: Pid) -> Option<Process> {
        let p = self.processes.get(&pid)?;
        Some(Process { pid, name: p.name.clone(), kernel: p.kernel })
    }

    /// Threads that are not in the set of their pool although it has a running CPU, with their proper binding. A set whose last CPU
    /// failed loses its threads, and gets them back with its next CPU.
    #[must_use]
    pub fn strays(&self) -> Vec<(Lwp, Option<Bond<PsetId>>)> {
        let Some(state) = &self.pools else { return Vec::new() };
        let sets = state.sets();
        let mut strays = Vec::new();
        for (pid, process) in self.processes.iter().filter(|(_, p)| !p.pool.is_default()) {
            let set = sets.get(&process.pool).copied().unwrap_or(PsetId::DEFAULT);
            let bond = Some(set).filter(|s| !s.is_default()).map(Bond::hard);
            for (id, record) in &process.lwps {
                let held = record.cpu.as_ref().is_some_and(|b| {
                    b.to.iter().any(|cpu| self.processors.get(&cpu).is_none_or(|p| p.set != set))
                });
                if record.set_id() != set && !held && !self.active(set).is_empty() {
                    strays.push((Lwp { pid: *pid, lwp: *id }, bond));
                }
            }
        }
        strays
    }
}
