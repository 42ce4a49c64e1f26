//! The state of a machine at one moment, through its facets.

use super::subject::{Subject, Times};
use crate::facets::{Interrupt, LwpStatus, ProcessorStatus};
use crate::{Knob, Reason, Refusal, Value};
use millpond_model::{
    ClassParams, ControlHolder, CpuCap, CpuId, CpuSet, DispatchTables, LgrpId, Lwp, LwpId, Pid, Pset, PsetId,
    SetMemory, Shares, State,
};
use std::collections::{BTreeMap, BTreeSet};

/// The observed state.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Every CPU.
    pub processors: BTreeMap<CpuId, ProcessorStatus>,
    /// Every set but the default one, in order of creation.
    pub sets: Vec<Pset>,
    /// Every user thread.
    pub threads: BTreeMap<Lwp, LwpStatus>,
    /// Kernel processes.
    pub kernel: BTreeSet<Pid>,
    /// The class of each user process, if classes can be changed.
    pub classes: BTreeMap<Pid, ClassParams>,
    /// Shares and caps, if they can be changed.
    pub controls: BTreeMap<ControlHolder, (Option<Shares>, Option<CpuCap>)>,
    /// The dispatch tables, if they can be changed.
    pub tables: Option<DispatchTables>,
    /// The nodes, ascending; and for each set its memory setting and the resulting nodes, if there are lgroups.
    pub nodes: Vec<LgrpId>,
    pub memory: BTreeMap<PsetId, (SetMemory, BTreeSet<LgrpId>)>,
    /// Interrupts and similar work, if visible.
    pub interrupts: Vec<Interrupt>,
    /// The journal's baselines.
    pub baselines: BTreeMap<Knob, Option<Value>>,
    /// The snapshot of the subject with times.
    pub snapshot: String,
}

impl Observed {
    /// Reads everything.
    ///
    /// # Errors
    /// A sentence if something cannot be read.
    pub fn of<S: Subject + ?Sized>(subject: &S) -> Result<Self, String> {
        let machine = subject.machine();
        let say = |what: &str| {
            let what = what.to_owned();
            move |refusal: Refusal| format!("cannot look at {what}: {refusal}")
        };
        let absent = |refusal: crate::Absent| refusal.to_string();
        let states = machine.processors().map_err(absent)?.states().map_err(say("processors"))?;
        let sets = machine.psets().map_err(absent)?.list().map_err(say("sets"))?;
        let facet = machine.threads().map_err(absent)?;
        let (mut threads, mut kernel) = (BTreeMap::new(), BTreeSet::new());
        for process in facet.processes().map_err(say("processes"))? {
            if process.kernel {
                kernel.insert(process.pid);
                continue;
            }
            match facet.lwps(process.pid) {
                Ok(lwps) => threads.extend(lwps.into_iter().map(|l| (l.lwp, l))),
                // Foreign processes start and end during the reading.
                Err(Refusal { reason: Reason::NoSuchProcess, .. }) => {}
                Err(refusal) => return Err(say("threads")(refusal)),
            }
        }
        let interrupts = match machine.interrupts() {
            Ok(facet) => facet.list().map_err(say("interrupts"))?,
            Err(_) => Vec::new(),
        };
        let (mut classes, mut tables) = (BTreeMap::new(), None);
        if subject.abilities().classes {
            let facet = machine.dispatcher().map_err(absent)?;
            let scheduled = facet.scheduled().map_err(say("classes"))?;
            classes.extend(scheduled.into_iter().filter(|s| !s.kernel).map(|s| (s.pid, s.params)));
            tables = Some(facet.tables().map_err(say("dispatch tables"))?);
        }
        let mut controls = BTreeMap::new();
        if subject.abilities().controls {
            let facet = machine.controls().map_err(absent)?;
            let listed = facet.list().map_err(say("shares and caps"))?;
            controls.extend(listed.into_iter().map(|one| (one.holder, (one.shares, one.cap))));
        }
        let (mut nodes, mut memory) = (Vec::new(), BTreeMap::new());
        if subject.abilities().lgroups {
            let facet = machine.lgroups().map_err(absent)?;
            nodes.extend_from_slice(facet.tree().map_err(say("lgroups"))?.nodes());
            for set in &sets {
                memory.insert(set.id, facet.set_memory(set.id).map_err(say("the memory of sets"))?);
            }
        }
        Ok(Observed {
            processors: states.into_iter().map(|s| (s.cpu, s)).collect(),
            sets,
            threads,
            kernel,
            classes,
            controls,
            tables,
            nodes,
            memory,
            interrupts,
            baselines: machine.journal().baselines(),
            snapshot: subject.snapshot(Times::Shown)?,
        })
    }

    /// The set that a CPU is in.
    pub fn set_of(&self, cpu: CpuId) -> PsetId {
        self.sets.iter().find(|s| s.members.contains(&cpu)).map_or(PsetId::DEFAULT, |s| s.id)
    }

    /// A set by number.
    pub fn set(&self, id: PsetId) -> Option<&Pset> {
        self.sets.iter().find(|s| s.id == id)
    }

    /// Every CPU.
    pub fn cpus(&self) -> CpuSet {
        self.processors.keys().copied().collect()
    }

    /// Members of a set, also of the default one.
    pub fn members(&self, set: PsetId) -> CpuSet {
        self.processors.keys().copied().filter(|cpu| self.set_of(*cpu) == set).collect()
    }

    /// Every active CPU.
    pub fn active(&self) -> CpuSet {
        self.where_state(State::runs_threads)
    }

    /// Every CPU whose state is accepted.
    pub fn where_state(&self, wanted: impl Fn(State) -> bool) -> CpuSet {
        self.processors.values().filter(|p| wanted(p.state)).map(|p| p.cpu).collect()
    }

    /// The active members of a set, also of the default one.
    pub fn active_in(&self, set: PsetId) -> CpuSet {
        &self.members(set) & &self.active()
    }

    /// Threads that are bound to a set.
    pub fn bound_to_set(&self, set: PsetId) -> impl Iterator<Item = &LwpStatus> {
        self.threads.values().filter(move |t| t.set == set)
    }

    /// Threads that are bound to a CPU.
    pub fn bound_to_cpu(&self, cpu: CpuId) -> impl Iterator<Item = &LwpStatus> {
        self.threads.values().filter(move |t| t.cpus.contains(cpu))
    }

    /// The threads of a process, ascending.
    pub fn lwps(&self, pid: Pid) -> Vec<LwpId> {
        self.threads.keys().filter(|l| l.pid == pid).map(|l| l.lwp).collect()
    }

    /// Every user process.
    pub fn processes(&self) -> BTreeSet<Pid> {
        self.threads.keys().map(|l| l.pid).collect()
    }

    /// The CPUs that some thread of a process may use.
    pub fn reach(&self, pid: Pid) -> CpuSet {
        let threads = self.threads.range(Lwp { pid, lwp: LwpId(0) }..).take_while(|(l, _)| l.pid == pid);
        threads.flat_map(|(_, t)| t.allowed.iter()).collect()
    }

    /// A process number that no process has.
    pub fn nobody(&self) -> Pid {
        let last = self.threads.keys().map(|l| l.pid.0).max().unwrap_or(0);
        Pid(last.saturating_add(1_000_000))
    }
}
