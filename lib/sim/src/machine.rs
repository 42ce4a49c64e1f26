//! The simulated machine: constructors, clock, lock, and births and ends of processes and threads.

use crate::change_builder::ChangeBuilder;
use crate::daemon::Daemon;
use crate::description::DescriptionError;
use crate::kernel::Program;
use crate::knobs::{self, Name};
use crate::state::{self, LoadError, SimState};
use crate::tables::{LwpRecord, Tunables};
use crate::workloads::Load;
use crate::{catalogue, description};
use millpond_machine::{
    Absent, Clock, Guard, Journal, Knob, KnobError, Knobs, Machine, MemoryJournal, Reason, Refusal, Step,
    Subject, Value,
};
use millpond_model::{ControlValues, CpuId, Lwp, LwpId, Nanos, Pid, PsetId, Topology, WallTime};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A simulated machine.
pub struct SimMachine {
    name: String,
    state: RefCell<SimState>,
    journal: Box<dyn Journal>,
    writing: Rc<Cell<bool>>,
    pub(crate) daemon: RefCell<Option<Rc<dyn Daemon>>>,
}

/// An error in opening a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The program has no machine of that name.
    #[error("there is no simulated machine `{name}` (there are {})", catalogue::NAMES.join(", "))]
    NoSuchMachine {
        /// The name.
        name: String,
    },
    /// A machine file is wrong.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A saved machine is wrong.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl SimMachine {
    /// The machine with this state and journal.
    #[must_use]
    pub fn new(state: SimState, journal: Box<dyn Journal>) -> Self {
        SimMachine {
            name: state.name.clone(),
            state: RefCell::new(state),
            journal,
            writing: Rc::new(Cell::new(false)),
            daemon: RefCell::new(None),
        }
    }

    /// One of the machines that are part of the program, freshly booted: see [`catalogue::NAMES`].
    ///
    /// # Errors
    /// [`SimError`] for an unknown name.
    pub fn named(name: &str) -> Result<Self, SimError> {
        let text = catalogue::text(name).ok_or_else(|| SimError::NoSuchMachine { name: name.to_owned() })?;
        Self::described(text, &format!("{name}.json"))
    }

    /// The machine of a machine file, freshly booted. `origin` names the file in messages.
    ///
    /// # Errors
    /// [`SimError::Description`] with the place.
    pub fn described(text: &str, origin: &str) -> Result<Self, SimError> {
        let state = description::parse(text, origin)?;
        Ok(Self::new(state, Box::new(MemoryJournal::default())))
    }

    /// A machine with the topology of another one (`like-host`).
    #[must_use]
    pub fn like(topology: Topology) -> Self {
        let hardware = description::hardware::like(&topology);
        let state = SimState::booted("like-host", topology, hardware, state::BOOTED, Tunables::default());
        Self::new(state, Box::new(MemoryJournal::default()))
    }

    /// The machine as text, for a later [`SimMachine::load`].
    #[must_use]
    pub fn save(&self) -> String {
        self.view(SimState::save)
    }

    /// Restores a saved machine.
    ///
    /// # Errors
    /// [`SimError::Load`] when the text is not a saved machine.
    pub fn load(text: &str) -> Result<Self, SimError> {
        Ok(Self::new(SimState::load(text)?, Box::new(MemoryJournal::default())))
    }

    /// Reads the state.
    pub fn view<T>(&self, look: impl FnOnce(&SimState) -> T) -> T {
        look(&self.state.borrow())
    }

    /// Changes the state directly, without the writer, as another program would: for tests and set-up.
    pub fn edit<T>(&self, change: impl FnOnce(&mut SimState) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let outcome = change(&mut state);
        state.apply_tables();
        outcome
    }

    /// Starts a process with one unbound running thread for each program.
    pub fn start(&self, name: &str, programs: Vec<Program>) -> Pid {
        self.edit(|s| s.start(name, programs))
    }

    /// Starts a workload as a process with the workload's name. It ends after its run time, if that is limited.
    pub fn start_load(&self, load: &Load) -> Pid {
        self.edit(|s| {
            let pid = s.prepare(&load.name);
            s.execute_load(pid, load);
            pid
        })
    }

    /// Starts an unbound process with this many threads in the global zone. They sleep for ever.
    pub fn spawn(&self, name: &str, threads: u32) -> Pid {
        self.edit(|s| s.tables.add_process(state::process(name, false, "global", threads.max(1))))
    }

    /// A thread forks: the child has one thread with its parent's bindings. `None` if the thread does not exist.
    pub fn fork(&self, parent: Lwp) -> Option<Pid> {
        self.edit(|s| {
            let lwp = s.tables.lwp(parent)?.clone();
            let mut child = s.tables.processes.get(&parent.pid)?.clone();
            child.lwps = [(LwpId(1), lwp)].into_iter().collect();
            child.parent = Some(parent.pid);
            if !child.controls.is_none() {
                (child.controls, child.held_by) = (ControlValues::default(), Some(parent.pid));
            }
            Some(s.tables.add_process(child))
        })
    }

    /// A thread creates another one in its process, with the same bindings. `None` if the thread does not exist.
    pub fn add_thread(&self, creator: Lwp) -> Option<Lwp> {
        self.edit(|s| s.tables.add_thread(creator))
    }

    /// Ends a process. `false` if it does not exist or belongs to the kernel.
    pub fn exit(&self, pid: Pid) -> bool {
        self.edit(|s| {
            let ours = s.tables.processes.get(&pid).is_some_and(|p| !p.kernel);
            ours && s.tables.processes.remove(&pid).is_some()
        })
    }

    /// Makes the bindings of a thread soft: they give way. No command can, as on Solaris; programs could. `false` if the thread
    /// does not exist.
    pub fn soften(&self, lwp: Lwp) -> bool {
        self.edit(|s| match s.tables.lwp_mut(lwp) {
            None => false,
            Some(record) => {
                record.set = record.set.map(|b| crate::tables::Bond { soft: true, ..b });
                record.cpu = record.cpu.take().map(|b| crate::tables::Bond { soft: true, ..b });
                true
            }
        })
    }

    pub(crate) fn builder(&self) -> ChangeBuilder {
        self.view(|s| ChangeBuilder::of(&s.tables))
    }
}

/// Refuses an operation that names a CPU twice.
pub(crate) fn named_twice(cpus: &[CpuId]) -> Result<(), Refusal> {
    let mut seen = millpond_model::CpuSet::new();
    match cpus.iter().find(|cpu| !seen.insert(**cpu)) {
        Some(cpu) => Err(Refusal::new(Subject::Processor(*cpu), Reason::NamedTwice)),
        None => Ok(()),
    }
}

impl Machine for SimMachine {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn journal(&self) -> &dyn Journal {
        &*self.journal
    }

    millpond_machine::facets! { self:
        processors, Processors => Ok(self);
        psets, Psets => Ok(self);
        fences, Fences => Ok(self);
        threads, Threads => Ok(self);
        zones, Zones => Ok(self);
        pools, Pools => Ok(self);
        interrupts, Interrupts => Ok(self);
        counters, Counters => Ok(self);
        sampler, Sampler => Ok(self);
        accounting, Accounting => Ok(self);
        dispatcher, Dispatcher => Ok(self);
        lgroups, Lgroups => Ok(self);
        hardware_counters, HardwareCounters => Ok(self);
        latency, LatencyProbe => {
            Err(Absent::with_help(
                "a simulated machine runs no probe of ours",
                "its workload latstat measures there (millpond experiment e6)",
            ))
        };
        disturbances, Disturbances => Ok(self);
        census, Census => Ok(self);
        controls, Controls => Ok(self);
        images, Images => Err(Absent::because("what runs on a simulated machine has no memory"));
    }
}

impl Knobs for SimMachine {
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        let name = knob.0.parse()?;
        Ok(self.view(|s| knobs::read(&s.tables, name)))
    }

    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        let name = knob.0.parse()?;
        self.edit(|s| knobs::write(&mut s.tables, name, value))
    }

    /// Removes stale bindings: a thread that was created or bound during a change may still be bound to a removed set, or to a CPU
    /// where it may not run.
    fn settle(&self) -> Result<Vec<Step>, Refusal> {
        let lost = self.view(|s| {
            let t = &s.tables;
            let in_vain = |set: PsetId| !t.has_set(set) || t.active(set).is_empty();
            let lost_set = |r: &LwpRecord| r.set.is_some_and(|b| in_vain(b.to));
            let lost_cpu = |r: &LwpRecord| {
                let set = if lost_set(r) { PsetId::DEFAULT } else { r.set_id() };
                let runs = |cpu: CpuId| {
                    t.processors.get(&cpu).is_some_and(|p| p.set == set && p.state.runs_threads())
                };
                r.cpu.as_ref().is_some_and(|b| !b.to.iter().all(runs))
            };
            let found = t.lwps().map(|(lwp, r)| (lwp, lost_set(r), lost_cpu(r)));
            found.filter(|(_, set, cpu)| *set || *cpu).collect::<Vec<_>>()
        });
        let strays = self.view(|s| s.tables.strays());
        if lost.is_empty() && strays.is_empty() {
            return Ok(Vec::new());
        }
        let mut builder = self.builder();
        for (lwp, set, cpu) in lost {
            if cpu {
                builder.bind_cpu(lwp, None, true)?;
            }
            if set {
                builder.bind_set(lwp, None, true)?;
            }
        }
        for (lwp, bond) in strays {
            builder.bind_set(lwp, bond, true)?;
        }
        Ok(builder.into_steps())
    }

    fn called(&self, knob: &Knob) -> String {
        knob.0.parse().map_or_else(|_| knob.to_string(), Name::called)
    }

    fn lock(&self) -> Result<Box<dyn Guard>, Refusal> {
        if self.writing.replace(true) {
            return Err(Refusal::operation(Reason::Busy(None)));
        }
        Ok(Box::new(Writing(Rc::clone(&self.writing))))
    }

    fn boot_id(&self) -> String {
        self.view(|s| s.boot.clone())
    }
}

/// Held by the writer.
struct Writing(Rc<Cell<bool>>);

impl Guard for Writing {}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Clock for SimMachine {
    fn now(&self) -> Nanos {
        self.view(SimState::now)
    }

    fn wall(&self) -> WallTime {
        self.view(SimState::wall)
    }

    fn booted(&self) -> WallTime {
        self.view(|s| s.booted)
    }

    fn sleep_until(&self, deadline: Nanos) {
        self.pass_until(deadline);
    }
}
