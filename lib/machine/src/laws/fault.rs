//! Fault injection: a wrapper around a machine that makes a step fail.

use super::command::Fault;
use crate::facets::Clock;
use crate::{Guard, Journal, JournalError, Knob, KnobError, Knobs, Machine, Operation, Refusal, Step, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The machine with a fault. After a kill no call of the executor reaches the machine or its journal: from their side
/// the writer no longer exists.
pub struct Faulty<'m> {
    machine: &'m dyn Machine,
    fault: Fault,
    writes_max: Option<usize>,
    meanwhile: Option<(u8, Box<dyn Fn() + 'm>)>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    /// Knobs of steps that may be refused: their refusal is not a fault.
    tolerant: RefCell<Vec<Knob>>,
    /// Whether a step has failed, so that the following steps are undo.
    failed: Cell<bool>,
    moments: Cell<usize>,
    writes: Cell<usize>,
    journal_writes: Cell<usize>,
    killed_at: RefCell<Option<String>>,
    hit: Cell<bool>,
}

impl<'m> Faulty<'m> {
    /// The initial state.
    pub fn new(machine: &'m dyn Machine, fault: Fault) -> Self {
        Faulty { machine, fault, writes_max: None, meanwhile: None, counts: Counts::default() }
    }

    /// Without a fault; another program acts at the n-th point, counted from 0.
    pub fn meanwhile(machine: &'m dyn Machine, moment: u8, event: impl Fn() + 'm) -> Self {
        let meanwhile = Some((moment, Box::new(event) as Box<dyn Fn() + 'm>));
        Faulty { meanwhile, ..Faulty::new(machine, Fault::Kill(u8::MAX)) }
    }

    /// The writer is killed after this number of writes to the machine.
    pub fn killed_after(machine: &'m dyn Machine, writes: u8) -> Self {
        let fault = Fault::Kill(u8::MAX);
        Faulty { writes_max: Some(usize::from(writes)), ..Faulty::new(machine, fault) }
    }

    /// The point at which the writer was killed.
    pub fn killed_at(&self) -> Option<String> {
        self.counts.killed_at.borrow().clone()
    }

    /// Whether the fault has occurred.
    pub fn hit(&self) -> bool {
        self.counts.hit.get()
    }

    fn dead(&self) -> bool {
        self.counts.killed_at.borrow().is_some()
    }

    /// Increments a counter, and returns whether this is the count that fails.
    fn strikes(&self, counter: &Cell<usize>, at: u8) -> bool {
        let n = counter.replace(counter.get() + 1);
        let strikes = n == usize::from(at);
        self.counts.hit.set(self.counts.hit.get() || strikes);
        strikes
    }

    fn note_tolerant(&self, steps: &[Step]) {
        let knobs = steps.iter().filter(|s| s.may_refuse).map(|s| s.knob.clone());
        self.counts.tolerant.borrow_mut().extend(knobs);
    }

    fn journal_write(&self) -> Result<(), JournalError> {
        if self.dead() {
            return Err(JournalError::Unwritable("the writer is dead".into()));
        }
        match self.fault {
            Fault::DiskFull(at) if self.strikes(&self.counts.journal_writes, at) => {
                Err(JournalError::NoSpace("no space left".into()))
            }
            _ => Ok(()),
        }
    }
}

impl Machine for Faulty<'_> {
    fn name(&self) -> &str {
        self.machine.name()
    }

    fn clock(&self) -> &dyn Clock {
        self.machine.clock()
    }

    fn journal(&self) -> &dyn Journal {
        self
    }

    crate::facets! { self:
        processors, Processors => self.machine.processors();
        psets, Psets => self.machine.psets();
        fences, Fences => self.machine.fences();
        threads, Threads => self.machine.threads();
        zones, Zones => self.machine.zones();
        pools, Pools => self.machine.pools();
        interrupts, Interrupts => self.machine.interrupts();
        counters, Counters => self.machine.counters();
        sampler, Sampler => self.machine.sampler();
        accounting, Accounting => self.machine.accounting();
        dispatcher, Dispatcher => self.machine.dispatcher();
        lgroups, Lgroups => self.machine.lgroups();
        hardware_counters, HardwareCounters => self.machine.hardware_counters();
        latency, LatencyProbe => self.machine.latency();
        disturbances, Disturbances => self.machine.disturbances();
        census, Census => self.machine.census();
        controls, Controls => self.machine.controls();
        images, Images => self.machine.images();
    }
}

impl Knobs for Faulty<'_> {
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        self.machine.read(knob)
    }

    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        if self.dead() {
            return Err(KnobError::Refused("the writer is dead".into()));
        }
        if self.writes_max == Some(self.counts.writes.get()) {
            *self.counts.killed_at.borrow_mut() = Some("repair".into());
            return self.write(knob, value);
        }
        let resistible = !self.counts.failed.get() && !self.counts.tolerant.borrow().contains(knob);
        let result = match self.fault {
            Fault::Resist(at) if resistible && self.strikes(&self.counts.writes, at) => {
                Err(KnobError::Refused("it resists".into()))
            }
            Fault::Resist(_) => self.machine.write(knob, value),
            _ => {
                self.counts.writes.set(self.counts.writes.get() + 1);
                self.machine.write(knob, value)
            }
        };
        self.counts.failed.set(self.counts.failed.get() || result.is_err());
        result
    }

    fn settle(&self) -> Result<Vec<Step>, Refusal> {
        self.machine.settle()
    }

    fn stale(&self) -> Vec<Step> {
        self.machine.stale()
    }

    fn publish(&self) -> Vec<String> {
        if self.dead() { Vec::new() } else { self.machine.publish() }
    }

    fn lock(&self) -> Result<Box<dyn Guard>, Refusal> {
        self.machine.lock()
    }

    fn boot_id(&self) -> String {
        self.machine.boot_id()
    }
}

impl Journal for Faulty<'_> {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        self.journal_write()?;
        self.note_tolerant(steps);
        self.machine.journal().begin(what, boot, steps)
    }

    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        self.journal_write()?;
        self.note_tolerant(steps);
        self.machine.journal().extend(steps)
    }

    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        self.journal_write()?;
        self.machine.journal().refused(knob)
    }

    fn commit(&self) -> Result<(), JournalError> {
        self.journal_write()?;
        self.machine.journal().commit()
    }

    fn abort(&self) -> Result<(), JournalError> {
        self.journal_write()?;
        self.machine.journal().abort()
    }

    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        self.machine.journal().unfinished()
    }

    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.machine.journal().baseline(knob)
    }

    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        self.machine.journal().baselines()
    }

    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        self.machine.journal().forget_other_boots(boot)
    }

    fn moment(&self, name: &str) {
        if self.dead() {
            return;
        }
        self.machine.journal().moment(name);
        match (&self.meanwhile, self.fault) {
            (Some((at, event)), _) if self.strikes(&self.counts.moments, *at) => event(),
            (Some(_), _) => {}
            (None, Fault::Kill(at) | Fault::KillTwice(at, _)) if self.strikes(&self.counts.moments, at) => {
                *self.counts.killed_at.borrow_mut() = Some(name.to_owned());
            }
            _ => {}
        }
    }
}
