//! A wrapper around a simulated machine that adds one defect.

mod facets;
mod journal;
mod lgroups;
mod life;

use crate::common::OnSim;
use journal::SpoiledJournal;
use millpond_machine::facets::LwpStatus;
use millpond_machine::{
    Change, Clock, Guard, Journal, Knob, KnobError, Knobs, Machine, Reason, Refusal, Step, Threads, Value,
};
use millpond_model::{CpuId, Lwp, Move, Pid, PsetId, State};
use millpond_sim::{SimMachine, SimState};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The defect of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    None,
    DestroyGivesProcessorsAway,
    DestroyLeaksThreads,
    AcceptsLastOfDefault,
    ListsAProcessorTwice,
    SortsMembers,
    CountsOn,
    StoppingLeavesTheSet,
    SinceStandsStill,
    SinceIsAlwaysNow,
    ChildrenAreFree,
    UnbindingDoesNothing,
    UnbindingLeavesAMask,
    OthersIntrude,
    BoundEscape,
    LastMemberIsNotUsed,
    StopsTheLastOfASet,
    SheltersTheLast,
    InterruptsStay,
    IdlesTooMuch,
    LosesTime,
    LosesAProcessorOfANode,
    MemoryComesFromElsewhere,
    ForgetsMemory,
    RunsLongerThanItsProcessor,
    RunsWhereStopped,
    RunsOutside,
    InterruptsArriveAnyway,
    BindingResetsClass,
    UndoForgetsClasses,
    UndoForgetsControls,
    SharesBuyNothing,
    CapsLeak,
    ReportsAnotherClass,
    TablesStay,
    NewbornsAreFree,
    AssignsNothing,
    ReportsAnotherSet,
    UnbindsBystanders,
    RefusesAtWhim,
    TakesNamesTwice,
    RefusalLeavesATrace,
    JournalForgetsTheUnfinished,
    JournalForgetsTheFinished,
    DestroyingLeavesAScar,
    KeepsBaselines,
}

/// A simulated machine with a defect.
pub struct Mutant {
    sim: SimMachine,
    defect: Defect,
    /// Threads that have been unbound.
    freed: RefCell<BTreeSet<Lwp>>,
}

impl Mutant {
    /// Four CPUs on two chips, and a defect.
    pub fn new(defect: Defect) -> Self {
        let state = SimMachine::named("x4200").expect("it comes with the program").view(Clone::clone);
        let sim = SimMachine::new(state, Box::new(SpoiledJournal::new(defect)));
        Mutant { sim, defect, freed: RefCell::default() }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// The same change, prepared on a slightly changed machine.
    fn prepared_on<T>(
        &self,
        edit: impl FnOnce(&mut SimState),
        prepare: impl FnOnce(&SimMachine) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let other = SimMachine::load(&self.sim.save()).expect("it was saved just now");
        other.edit(edit);
        prepare(&other)
    }

    fn spoil<T>(&self, mut change: Change<T>) -> Change<T> {
        if self.is(Defect::KeepsBaselines) {
            change.steps = change.steps.into_iter().map(Step::keeping).collect();
        }
        change
    }

    fn spoil_moves(
        &self,
        prepare: impl Fn(&SimMachine) -> Result<Change<Vec<Move>>, Refusal>,
    ) -> Result<Change<Vec<Move>>, Refusal> {
        let mut change = match prepare(&self.sim) {
            Err(Refusal { reason: Reason::LastOfDefault, .. }) if self.is(Defect::AcceptsLastOfDefault) => {
                // With a fifth CPU, the last CPU is no longer the last one.
                self.prepared_on(add_processor, prepare)?
            }
            other => other?,
        };
        if self.is(Defect::AssignsNothing) {
            change.steps.clear();
        }
        if self.is(Defect::ReportsAnotherSet) {
            change.outcome.iter_mut().for_each(|m| m.from = PsetId(m.from.0 + 1));
        }
        if self.is(Defect::UnbindsBystanders) && !change.steps.is_empty() {
            let bound = self.sim.bound()?.into_iter().find(|t| t.cpus.is_empty());
            if let Some(LwpStatus { lwp, set, .. }) = bound {
                let knob = Knob(format!("lwp/{}/{}/set", lwp.pid, lwp.lwp));
                change.steps.push(Step::new(knob, Some(set.to_string()), Some("none".into())));
            }
        }
        Ok(self.spoil(change))
    }

    fn sim_journal(&self) -> &dyn Journal {
        self.sim.journal()
    }

    fn leave_a_trace<T>(&self, result: Result<T, Refusal>) -> Result<T, Refusal> {
        if result.is_err() && self.is(Defect::RefusalLeavesATrace) {
            self.sim.edit(|s| s.devices[0].processor = CpuId(3 - s.devices[0].processor.0));
        }
        result
    }

    fn spoil_threads(&self, mut threads: Vec<LwpStatus>) -> Vec<LwpStatus> {
        let all = self.sim.view(|s| s.topology.cpus());
        for t in &mut threads {
            let bound = !t.set.is_default() || !t.cpus.is_empty();
            let spoiled = match self.defect {
                Defect::OthersIntrude => !bound,
                Defect::BoundEscape => bound,
                _ => false,
            };
            if spoiled {
                t.allowed = all.clone();
            }
            let narrowed = match self.defect {
                Defect::UnbindingLeavesAMask => !bound && self.freed.borrow().contains(&t.lwp),
                Defect::LastMemberIsNotUsed => !t.set.is_default() && t.cpus.is_empty(),
                _ => false,
            };
            if narrowed && t.allowed.len() > 1 {
                let last = t.allowed.highest().expect("there are two");
                t.allowed.remove(last);
            }
        }
        threads
    }
}

/// Adds a CPU, on-line in the default set.
fn add_processor(state: &mut SimState) {
    let record = state.tables.processors.values().next().expect("there is one").clone();
    let record = millpond_sim::tables::ProcessorRecord {
        state: State::OnLine,
        set: PsetId::DEFAULT,
        arrival: 0,
        ..record
    };
    state.tables.processors.insert(CpuId(99), record);
}

/// Adds a CPU to the set of another one.
fn add_member(state: &mut SimState, beside: CpuId) {
    add_processor(state);
    let set = state.tables.processors[&beside].set;
    if let Some(record) = state.tables.processors.get_mut(&CpuId(99)) {
        (record.set, record.arrival) = (set, 1000);
    }
}

impl OnSim for Mutant {
    fn sim(&self) -> &SimMachine {
        &self.sim
    }

    fn sound(&self) -> Result<(), String> {
        Ok(())
    }

    fn fork(&self, parent: Lwp) -> Option<Pid> {
        if self.is(Defect::ChildrenAreFree) {
            return Some(self.sim.spawn("orphan", 1));
        }
        self.sim.fork(parent)
    }
}

impl Machine for Mutant {
    fn name(&self) -> &str {
        "mutant"
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn journal(&self) -> &dyn Journal {
        self.sim.journal()
    }

    millpond_machine::facets! { self:
        processors, Processors => Ok(self);
        psets, Psets => Ok(self);
        fences, Fences => self.sim.fences();
        threads, Threads => Ok(self);
        zones, Zones => Machine::zones(&self.sim);
        pools, Pools => Machine::pools(&self.sim);
        interrupts, Interrupts => Ok(self);
        counters, Counters => Ok(self);
        sampler, Sampler => Ok(self);
        accounting, Accounting => Machine::accounting(&self.sim);
        dispatcher, Dispatcher => Ok(self);
        lgroups, Lgroups => Ok(self);
        hardware_counters, HardwareCounters => Machine::hardware_counters(&self.sim);
        latency, LatencyProbe => self.sim.latency();
        disturbances, Disturbances => self.sim.disturbances();
        census, Census => self.sim.census();
        controls, Controls => self.sim.controls();
        images, Images => self.sim.images();
    }
}

impl Knobs for Mutant {
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        self.sim.read(knob)
    }

    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        if self.is(Defect::UndoForgetsClasses) && self.is_undone(&["/class"], knob, value) {
            return Ok(());
        }
        if self.is(Defect::UndoForgetsControls) && self.is_undone(&["/cpu-shares", "/cpu-cap"], knob, value) {
            return Ok(());
        }
        let result = self.sim.write(knob, value);
        let words: Vec<&str> = knob.0.split('/').collect();
        match (self.defect, words.as_slice()) {
            (Defect::DestroyLeaksThreads, ["set", id]) if value.is_none() => {
                self.sim
                    .edit(|s| s.tables.sets.remove(&id.parse().expect("it was written by the simulator")));
                Ok(())
            }
            (Defect::AcceptsLastOfDefault, ["processor", id, "set"]) if result.is_err() => {
                let place = value.and_then(|v| v.split_once(' ')).expect("it goes to a set");
                self.sim.edit(|s| {
                    let id = id.parse().expect("it was written by the simulator");
                    let record = s.tables.processors.get_mut(&id).expect("it exists");
                    record.set = place.0.parse().expect("it was written by the simulator");
                    record.arrival = place.1.parse().expect("it was written by the simulator");
                });
                Ok(())
            }
            _ => result,
        }
    }

    fn settle(&self) -> Result<Vec<Step>, Refusal> {
        if self.is(Defect::DestroyLeaksThreads) { Ok(Vec::new()) } else { self.sim.settle() }
    }

    fn lock(&self) -> Result<Box<dyn Guard>, Refusal> {
        self.sim.lock()
    }

    fn boot_id(&self) -> String {
        self.sim.boot_id()
    }
}
