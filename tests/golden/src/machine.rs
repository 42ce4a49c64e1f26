//! The machine of a transcript: a simulated machine to which faults can be applied.

use jiff::tz::TimeZone;
use millpond_machine::{
    Clock, Guard, HardwareCounters, Journal, JournalError, Knob, KnobError, Knobs, Machine, MemoryJournal,
    Operation, Refusal, Step, Value,
};
use millpond_model::{CpuId, Pid};
use millpond_session::Session;
use millpond_sim::SimMachine;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The pending faults.
#[derive(Default)]
pub(crate) struct Mischief {
    /// The journal's disk is full.
    pub full: Cell<bool>,
    /// The process that ends at a moment of the next change.
    pub exits: RefCell<Option<(String, Pid)>>,
    /// The error of every write.
    pub refuses: RefCell<Option<KnobError>>,
    /// The CPU that goes off-line while its events are counted.
    pub goes: Cell<Option<CpuId>>,
    /// The percentage of the time in which hardware counters count; `None` for all of it.
    pub counts: Cell<Option<u64>>,
}

/// A simulated machine with faults.
#[derive(Clone)]
pub struct Stage {
    sim: Rc<SimMachine>,
    journal: Rc<StageJournal>,
    pub(crate) mischief: Rc<Mischief>,
}

struct StageJournal {
    memory: MemoryJournal,
    mischief: Rc<Mischief>,
    sim: Rc<SimMachine>,
}

impl Stage {
    /// Creates the machine.
    #[must_use]
    pub fn new(sim: SimMachine) -> Self {
        let (sim, mischief) = (Rc::new(sim), Rc::new(Mischief::default()));
        let journal = StageJournal {
            memory: MemoryJournal::default(),
            mischief: Rc::clone(&mischief),
            sim: Rc::clone(&sim),
        };
        Stage { sim, journal: Rc::new(journal), mischief }
    }

    /// The machine itself.
    #[must_use]
    pub fn sim(&self) -> &Rc<SimMachine> {
        &self.sim
    }

    /// A session on it, in universal time.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::with(Box::new(self.clone()), Rc::clone(&self.sim)).in_zone(TimeZone::UTC)
    }
}

impl Machine for Stage {
    fn name(&self) -> &str {
        self.sim.name()
    }

    fn clock(&self) -> &dyn Clock {
        self.sim.clock()
    }

    fn journal(&self) -> &dyn Journal {
        &*self.journal
    }

    millpond_machine::facets! { self:
        processors, Processors => self.sim.processors();
        psets, Psets => self.sim.psets();
        fences, Fences => self.sim.fences();
        threads, Threads => self.sim.threads();
        zones, Zones => self.sim.zones();
        pools, Pools => self.sim.pools();
        interrupts, Interrupts => self.sim.interrupts();
        counters, Counters => self.sim.counters();
        sampler, Sampler => self.sim.sampler();
        accounting, Accounting => self.sim.accounting();
        dispatcher, Dispatcher => self.sim.dispatcher();
        lgroups, Lgroups => self.sim.lgroups();
        hardware_counters, HardwareCounters => self.sim.hardware_counters().map(|_| self as &dyn HardwareCounters);
        latency, LatencyProbe => self.sim.latency();
        disturbances, Disturbances => self.sim.disturbances();
        census, Census => self.sim.census();
        controls, Controls => self.sim.controls();
        images, Images => self.sim.images();
    }
}

impl Knobs for Stage {
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        self.sim.read(knob)
    }

    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        match &*self.mischief.refuses.borrow() {
            Some(error) => Err(error.clone()),
            None => self.sim.write(knob, value),
        }
    }

    fn settle(&self) -> Result<Vec<Step>, Refusal> {
        self.sim.settle()
    }

    fn called(&self, knob: &Knob) -> String {
        self.sim.called(knob)
    }

    fn lock(&self) -> Result<Box<dyn Guard>, Refusal> {
        self.sim.lock()
    }

    fn boot_id(&self) -> String {
        self.sim.boot_id()
    }
}

impl StageJournal {
    fn space(&self) -> Result<(), JournalError> {
        if self.mischief.full.get() {
            Err(JournalError::NoSpace("journal: No space left on device".into()))
        } else {
            Ok(())
        }
    }
}

impl Journal for StageJournal {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        self.space()?;
        self.memory.begin(what, boot, steps)
    }

    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        self.space()?;
        self.memory.extend(steps)
    }

    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        self.memory.refused(knob)
    }

    fn commit(&self) -> Result<(), JournalError> {
        self.memory.commit()
    }

    fn abort(&self) -> Result<(), JournalError> {
        self.memory.abort()
    }

    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        self.memory.unfinished()
    }

    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.memory.baseline(knob)
    }

    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        self.memory.baselines()
    }

    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        self.memory.forget_other_boots(boot)
    }

    fn moment(&self, name: &str) {
        let due = self.mischief.exits.borrow().as_ref().is_some_and(|(moment, _)| moment == name);
        if let Some((_, pid)) = due.then(|| self.mischief.exits.take()).flatten() {
            self.sim.exit(pid);
        }
    }
}
