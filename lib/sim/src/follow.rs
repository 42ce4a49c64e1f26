//! The kernel follows the tables: what commands change becomes what threads do.

use crate::interrupts::target;
use crate::kernel::{
    ASIDE, Arrangement, DEFAULT, Executed, Hardware, Kernel, Layout, News, Program, SETS, Start, Tunables,
};
use crate::kernel::{CpuIndex, Id, PartitionId, Table, ThreadId};
use crate::state::{DeviceKind, Note, SimState};
use crate::tables::{self, ControlValues, LwpRecord, ProcessRecord, ProcessorRecord, Tables};
use millpond_model::{CpuId, CpuSet, DispatchTables, Lgroup, Lwp, LwpId, Pid, PsetId, SetMemory, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// How the processors of a topology stand, for the kernel: indices ascend with numbers.
#[must_use]
pub fn layout(topology: &Topology, hardware: Hardware) -> Layout {
    let lgroup = |id| topology.lgroups().iter().position(|l| l.id == id).unwrap_or(0);
    let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Layout {
        cpus: topology.processors().iter().map(|p| (index(lgroup(p.lgroup)), p.core.0)).collect(),
        distances: topology.lgroups().iter().map(|l| l.distances.clone()).collect(),
        hardware,
    }
}

/// The partition of a set.
pub(crate) fn part_of(set: PsetId) -> PartitionId {
    if set.is_default() { DEFAULT } else { PartitionId(SETS + set.0) }
}

/// The index of a processor in the kernel.
fn index_of(topology: &Topology, cpu: CpuId) -> Option<CpuIndex> {
    let at = topology.processors().iter().position(|p| p.id == cpu)?;
    Some(CpuIndex::at(at))
}

/// The partitions of threads that are bound to several processors: those after the last set's, one for each set and choice of its processors.
type Choices = BTreeMap<(PsetId, CpuSet), PartitionId>;

fn choices(tables: &Tables) -> Choices {
    let several = |record: &LwpRecord| {
        let bond = record.cpu.as_ref().filter(|bond| bond.to.len() > 1)?;
        Some((record.set_id(), bond.to.clone()))
    };
    let wanted: BTreeSet<_> = tables.lwps().filter_map(|(_, record)| several(record)).collect();
    let numbers = (first_choice(tables).0..).map(PartitionId);
    wanted.into_iter().zip(numbers).collect()
}

/// The first partition after those of the sets.
fn first_choice(tables: &Tables) -> PartitionId {
    let last = tables.sets.keys().next_back().map_or(DEFAULT, |set| part_of(*set)).max(ASIDE);
    PartitionId(last.0 + 1)
}

/// Where a thread may run, in the kernel's words.
fn confinement(
    topology: &Topology,
    choices: &Choices,
    record: &LwpRecord,
) -> (PartitionId, Option<CpuIndex>) {
    let part = match record.set {
        Some(set) => part_of(set.to),
        None if record.aside => ASIDE,
        None => DEFAULT,
    };
    let Some(bond) = &record.cpu else { return (part, None) };
    match choices.get(&(record.set_id(), bond.to.clone())) {
        Some(choice) => (*choice, None),
        None => (part, bond.to.lowest().and_then(|cpu| index_of(topology, cpu))),
    }
}

/// How the tables share out the processors of a topology.
fn arrangement(topology: &Topology, tables: &Tables, choices: &Choices) -> Arrangement {
    let places = || topology.processors().iter().map(|p| tables.processors.get(&p.id));
    let where_cpu = |wanted: &dyn Fn(PsetId) -> bool| -> Vec<CpuIndex> {
        let runs = |p: &ProcessorRecord| p.state.runs_threads() && wanted(p.set);
        (0u32..).zip(places()).filter(|(_, p)| p.is_some_and(runs)).map(|(at, _)| CpuIndex(at)).collect()
    };
    let shared = |set: PsetId| tables.sets.get(&set).is_some_and(|s| s.shared);
    let count = first_choice(tables).place() + choices.len();
    let mut parts: Table<PartitionId, Vec<CpuIndex>> = vec![Vec::new(); count].into();
    parts[DEFAULT] = where_cpu(&|set| set.is_default() || shared(set));
    parts[ASIDE] = where_cpu(&|set| set.is_default());
    for set in tables.sets.keys() {
        parts[part_of(*set)] = where_cpu(&|other| other == *set);
    }
    for ((_, cpus), part) in choices {
        parts[*part] = cpus.iter().filter_map(|cpu| index_of(topology, cpu)).collect();
    }
    Arrangement { cpus: places().map(|p| p.map_or(DEFAULT, |p| part_of(p.set))).collect(), parts }
}

impl SimState {
    /// Lets the kernel do what the tables say. Whoever changes the tables calls it.
    pub fn follow(&mut self) {
        if *self.kernel.tables() != self.tables.dispatch {
            self.kernel.set_tables(self.tables.dispatch.clone());
        }
        let choices = choices(&self.tables);
        self.kernel.arrange(&arrangement(&self.topology, &self.tables, &choices));
        self.route();
        self.place_memory(&choices);
        let mut ended = Vec::new();
        for (thread, lwp) in &self.threads {
            match self.tables.lwp(*lwp) {
                Some(record) => {
                    let (part, cpu) = confinement(&self.topology, &choices, record);
                    self.kernel.confine(*thread, part, cpu);
                    self.kernel.prefer(*thread, record.wish);
                    self.kernel.set_params(*thread, record.class);
                }
                None => ended.push(*thread),
            }
        }
        for thread in ended {
            self.kernel.end(thread);
        }
        self.hold();
        self.hear();
    }

    /// Memory comes from where the tables let it.
    fn place_memory(&mut self, choices: &Choices) {
        let known = self.kernel.parts();
        let of_choice =
            |part: PartitionId| choices.iter().find(|(_, p)| **p == part).map(|((set, _), _)| *set);
        for part in known {
            let set = of_choice(part).or(part.0.checked_sub(SETS).map(PsetId));
            let lgroups = set.map(|set| self.memory_lgroups(set)).unwrap_or_default();
            self.kernel.confine_memory(part, &lgroups);
        }
    }

    /// Where the memory of a set comes from, by places in the topology; none for anywhere.
    pub(crate) fn memory_lgroups(&self, set: PsetId) -> Vec<u32> {
        let Some(memory) = self.tables.memory.get(&set) else { return Vec::new() };
        let active = self.tables.active(set);
        let meant = |l: &Lgroup| match memory {
            SetMemory::All => false,
            SetMemory::Local => !l.cpus.is_disjoint(&active),
            SetMemory::Nodes(nodes) => nodes.contains(&l.id),
        };
        let has_memory = |l: &Lgroup| l.memory_kib.is_none_or(|kib| kib > 0);
        let lgroups = (0u32..).zip(self.topology.lgroups());
        lgroups.filter(|(_, l)| meant(l) && has_memory(l)).map(|(at, _)| at).collect()
    }

    /// Interrupts go where the tables let them.
    fn route(&mut self) {
        let allowed = self.tables.interruptible();
        let index =
            |cpu: Option<CpuId>| cpu.and_then(|cpu| index_of(&self.topology, cpu)).unwrap_or(CpuIndex(0));
        let network = self.devices.iter().find(|device| device.kind == DeviceKind::Network);
        let network = index(network.and_then(|device| target(&allowed, device.processor)));
        let clock = index(allowed.lowest());
        self.kernel.route(network, clock);
    }

    /// Lets time pass until `until`, in nanoseconds since boot, and everything happen that is due. A machine that died
    /// gets older and does nothing.
    pub fn advance(&mut self, until: u64) {
        while self.halted.is_none() && self.kernel.now() < until {
            self.go_on(until);
        }
        self.kernel.grow_old(until);
    }

    /// Lets time pass until `until`, or until the first instant at which a thread is born or ends, and hears of it.
    pub(crate) fn go_on(&mut self, until: u64) {
        let end = self.ends.values().copied().min().unwrap_or(u64::MAX);
        if let Err(halt) = self.kernel.advance(until.min(end).min(self.load.due())) {
            self.halted = Some(halt);
        }
        self.hear();
        if self.kernel.now() >= self.load.due() {
            let spent = self.run_and_waited();
            self.load.go_on(self.kernel.now(), spent);
        }
        if self.kernel.now() >= end {
            self.end_due();
        }
    }

    /// Processes end whose time is over.
    fn end_due(&mut self) {
        let now = self.kernel.now();
        let due: Vec<Pid> = self.ends.iter().filter(|(_, end)| **end <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            self.ends.remove(&pid);
            self.tables.processes.remove(&pid);
        }
        self.follow();
    }

    /// What became of threads by itself, and where they ran, goes into the tables.
    fn hear(&mut self) {
        for (thread, cpus) in self.kernel.take_seen() {
            let Some(lwp) = self.threads.get(&thread) else { continue };
            let here = self.residence.entry(lwp.pid).or_default();
            for (cpu, spent) in cpus {
                *here.entry(cpu).or_default() += spent;
            }
        }
        self.put_down();
        for news in self.kernel.take_news() {
            match news {
                News::Born { parent, child } => self.born(parent, child),
                News::Ended { thread, done, executed } => self.ended(thread, done, executed),
            }
        }
    }

    fn born(&mut self, parent: ThreadId, child: ThreadId) {
        let Some(parent) = self.threads.get(&parent).copied() else { return };
        let Some(process) = self.tables.processes.get(&parent.pid) else { return };
        let record = process.lwps.get(&parent.lwp).cloned().unwrap_or_default();
        let lwps = BTreeMap::from([(LwpId(1), record)]);
        let held_by = if process.controls.is_none() { process.held_by } else { Some(parent.pid) };
        let controls = ControlValues::default();
        let process = ProcessRecord { lwps, parent: Some(parent.pid), controls, held_by, ..process.clone() };
        let pid = self.tables.add_process(process);
        self.threads.insert(child, Lwp { pid, lwp: LwpId(1) });
        if let Some(notes) = self.notes.as_mut() {
            notes.push(Note::Born { parent, child: pid });
        }
    }

    fn ended(&mut self, thread: ThreadId, done: u64, executed: Executed) {
        let Some(lwp) = self.threads.remove(&thread) else { return };
        self.keep_used(lwp.pid, executed.user.saturating_add(executed.sys));
        if let Some(notes) = self.notes.as_mut() {
            notes.push(Note::Ended { lwp, executed });
        }
        if done > 0 {
            let sum = self.operations.entry(lwp.pid).or_default();
            *sum = sum.saturating_add(done);
        }
        if let Some(process) = self.tables.processes.get_mut(&lwp.pid) {
            process.lwps.remove(&lwp.lwp);
            if process.lwps.is_empty() {
                self.tables.processes.remove(&lwp.pid);
            }
        }
    }

    /// The operations that the threads of a process noted as done, those included that have ended.
    #[must_use]
    pub fn operations(&self, pid: Pid) -> u64 {
        let living = self.threads.iter().filter(|(_, lwp)| lwp.pid == pid);
        let living: u64 = living.map(|(thread, _)| self.kernel.thread(*thread).done).sum();
        living.saturating_add(self.operations.get(&pid).copied().unwrap_or(0))
    }

    /// Starts a process, a thread of the default class for each program, unbound. It runs when time passes.
    pub fn start(&mut self, name: &str, programs: Vec<Program>) -> Pid {
        let mut process = crate::state::process(name, false, "global", 1);
        process.lwps.values_mut().for_each(|lwp| lwp.class = self.start_class);
        let pid = self.tables.add_process(process);
        self.execute(pid, programs);
        pid
    }

    /// A process executes these programs from now on, a thread for each: in the class, with the bindings of its first thread.
    pub(crate) fn execute(&mut self, pid: Pid, programs: Vec<Program>) {
        let Some(process) = self.tables.processes.get_mut(&pid) else { return };
        let record = process.lwps.values().next().cloned().unwrap_or_default();
        let class = record.class;
        process.lwps =
            programs.iter().zip((1u32..).map(LwpId)).map(|(_, lwp)| (lwp, record.clone())).collect();
        for (program, lwp) in programs.into_iter().zip((1u32..).map(LwpId)) {
            let thread = self.kernel.start(Start::new(self.kernel.entry(class), program));
            self.threads.insert(thread, Lwp { pid, lwp });
        }
    }
}

/// A new kernel for processors that stand so, all of them in the default set.
#[must_use]
pub fn kernel(
    topology: &Topology,
    hardware: Hardware,
    dispatch: DispatchTables,
    tuned: &tables::Tunables,
) -> Kernel {
    let mem_pset_aware = tuned.lgrp_mem_pset_aware == 1;
    let usual = Tunables::default();
    let tunables = Tunables {
        hz: tuned.hz,
        mem_pset_aware,
        rechoose_interval: tuned.rechoose_interval.unwrap_or(usual.rechoose_interval),
        nosteal_nsec: tuned.nosteal_nsec.unwrap_or(usual.nosteal_nsec),
        ..usual
    };
    Kernel::new(&layout(topology, hardware), dispatch, tunables)
}
