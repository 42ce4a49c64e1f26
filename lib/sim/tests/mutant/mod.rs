//! A simulated machine behind a front that spoils one thing.

mod journal;

use crate::common::OnSim;
use journal::SpoiledJournal;
use millpond_machine::facets::{
    CounterWatch, CreateOptions, Interrupt, LwpStatus, Move, Process, ProcessorStatus, Rebinding,
    StateChange, WatchOptions,
};
use millpond_machine::{
    Absent, Change, Clock, Counters, Guard, Interrupts, Journal, Knob, KnobError, Knobs, Machine, Processors,
    Psets, Reason, Refusal, Sampler, Step, Threads, Value, Zones,
};
use millpond_model::{
    CpuId, CpuSample, CpuSet, Lwp, LwpId, Nanos, Pid, Pset, PsetId, Sample, State, Ticks, Topology,
};
use millpond_sim::{SimMachine, SimState};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What is wrong with a mutant.
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

/// The machine.
pub struct Mutant {
    sim: SimMachine,
    defect: Defect,
    /// Threads that were unbound at some time.
    freed: RefCell<BTreeSet<Lwp>>,
}

impl Mutant {
    /// Four processors on two chips, and a defect.
    pub fn new(defect: Defect) -> Self {
        let state = SimMachine::named("x4200").expect("it comes with the program").view(Clone::clone);
        let sim = SimMachine::new(state, Box::new(SpoiledJournal::new(defect)));
        Mutant { sim, defect, freed: RefCell::default() }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// The same change as prepared on a machine whose state was changed a little before.
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
                // A fifth processor makes the last one the last but one.
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
            let bound = self.sim.bound()?.into_iter().find(|t| t.cpu.is_none());
            if let Some(LwpStatus { lwp, set, .. }) = bound {
                let knob = Knob(format!("lwp/{}/{}/set", lwp.pid, lwp.lwp));
                change.steps.push(Step::new(knob, Some(set.to_string()), Some("none".into())));
            }
        }
        Ok(self.spoil(change))
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
            let bound = !t.set.is_default() || t.cpu.is_some();
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
                Defect::LastMemberIsNotUsed => !t.set.is_default() && t.cpu.is_none(),
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

/// One more processor, on-line in the default set.
fn add_processor(state: &mut SimState) {
    let record = *state.tables.processors.values().next().expect("there is one");
    let record = millpond_sim::tables::ProcessorRecord {
        state: State::OnLine,
        set: PsetId::DEFAULT,
        arrival: 0,
        ..record
    };
    state.tables.processors.insert(CpuId(99), record);
}

/// The same for the set that a processor is in.
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
        &self.sim
    }
    fn journal(&self) -> &dyn Journal {
        self.sim.journal()
    }
    fn processors(&self) -> Result<&dyn Processors, Absent> {
        Ok(self)
    }
    fn psets(&self) -> Result<&dyn Psets, Absent> {
        Ok(self)
    }
    fn threads(&self) -> Result<&dyn Threads, Absent> {
        Ok(self)
    }
    fn zones(&self) -> Result<&dyn Zones, Absent> {
        Machine::zones(&self.sim)
    }
    fn interrupts(&self) -> Result<&dyn Interrupts, Absent> {
        Ok(self)
    }
    fn counters(&self) -> Result<&dyn Counters, Absent> {
        Ok(self)
    }
    fn sampler(&self) -> Result<&dyn Sampler, Absent> {
        self.sim.sampler()
    }
}

impl Knobs for Mutant {
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        self.sim.read(knob)
    }

    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
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

impl Processors for Mutant {
    fn topology(&self) -> Result<Topology, Refusal> {
        self.sim.topology()
    }

    fn states(&self) -> Result<Vec<ProcessorStatus>, Refusal> {
        let mut states = self.sim.states()?;
        for status in &mut states {
            match self.defect {
                Defect::SinceStandsStill => status.since = self.sim.booted(),
                Defect::SinceIsAlwaysNow => status.since = self.sim.wall(),
                _ => {}
            }
        }
        Ok(states)
    }

    fn prepare_state(&self, cpu: CpuId, to: State, forced: bool) -> Result<Change<StateChange>, Refusal> {
        let prepare = |m: &SimMachine| m.prepare_state(cpu, to, forced);
        let mut change = match (self.defect, prepare(&self.sim)) {
            (Defect::StopsTheLastOfASet, Err(Refusal { reason: Reason::LastOnlineOf(_), .. })) => {
                self.prepared_on(|s| add_member(s, cpu), prepare)?
            }
            (Defect::SheltersTheLast, Err(Refusal { reason: Reason::LastInterruptible, .. })) => {
                self.prepared_on(add_processor, prepare)?
            }
            (_, result) => self.leave_a_trace(result)?,
        };
        if self.is(Defect::StoppingLeavesTheSet) && !to.runs_threads() {
            let knob = Knob(format!("processor/{cpu}/set"));
            let before = self.sim.read(&knob).ok().flatten();
            change.steps.push(Step::new(knob, before, Some("0".into())));
        }
        Ok(self.spoil(change))
    }

    fn prepare_states(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<StateChange>>, Refusal> {
        let prepare = |m: &SimMachine| m.prepare_states(cpus, to, forced);
        match prepare(&self.sim) {
            Err(Refusal { reason: Reason::LastInterruptible, .. }) if self.is(Defect::SheltersTheLast) => {
                self.prepared_on(add_processor, prepare)
            }
            result => self.leave_a_trace(result).map(|c| self.spoil(c)),
        }
    }
}

impl Psets for Mutant {
    fn list(&self) -> Result<Vec<Pset>, Refusal> {
        let mut sets = Psets::list(&self.sim)?;
        match self.defect {
            Defect::SortsMembers => sets.iter_mut().for_each(|s| s.members.sort()),
            Defect::ListsAProcessorTwice => {
                let first = sets.iter().find_map(|s| s.members.first().copied());
                if let (Some(cpu), Some(last)) = (first, sets.last_mut()) {
                    last.members.push(cpu);
                }
            }
            _ => {}
        }
        Ok(sets)
    }

    fn prepare_create(
        &self,
        cpus: &[CpuId],
        options: CreateOptions,
        forced: bool,
    ) -> Result<Change<(PsetId, Vec<Move>)>, Refusal> {
        if self.is(Defect::CountsOn) {
            // As if every lower number were taken.
            let highest = Psets::list(&self.sim)?.iter().map(|s| s.id.0).max().unwrap_or(0);
            let record = millpond_sim::tables::SetRecord { shared: false, serial: 0 };
            let fill = |s: &mut SimState| {
                (1..=highest).for_each(|id| {
                    s.tables.sets.entry(PsetId(id)).or_insert(record);
                });
            };
            return self.prepared_on(fill, |m| m.prepare_create(cpus, options, forced));
        }
        self.leave_a_trace(self.sim.prepare_create(cpus, options, forced)).map(|c| self.spoil(c))
    }

    fn prepare_assign(
        &self,
        set: PsetId,
        cpus: &[CpuId],
        forced: bool,
    ) -> Result<Change<Vec<Move>>, Refusal> {
        if self.is(Defect::TakesNamesTwice)
            && let [first, second] = cpus
            && first == second
        {
            let mut change = self.sim.prepare_assign(set, &[*second], forced)?;
            change.outcome.extend(change.outcome.clone());
            return Ok(change);
        }
        if self.is(Defect::RefusesAtWhim) && cpus.contains(&CpuId(2)) {
            return Err(Refusal::operation(Reason::LastOfDefault));
        }
        self.leave_a_trace(self.spoil_moves(|m| m.prepare_assign(set, cpus, forced)))
    }

    fn prepare_destroy(&self, set: PsetId) -> Result<Change<()>, Refusal> {
        let mut change = self.leave_a_trace(self.sim.prepare_destroy(set))?;
        let heir = Psets::list(&self.sim)?.iter().map(|s| s.id).find(|id| *id != set);
        match (self.defect, heir) {
            (Defect::DestroyGivesProcessorsAway, Some(heir)) => {
                for step in change.steps.iter_mut().filter(|s| s.knob.0.starts_with("processor/")) {
                    step.after = Some(format!("{heir} 1000"));
                }
            }
            (Defect::DestroyLeaksThreads, _) => change.steps.retain(|s| !s.knob.0.starts_with("lwp/")),
            (Defect::DestroyingLeavesAScar, _) => {
                self.sim.edit(|s| s.zones.push("scar".into()));
            }
            _ => {}
        }
        Ok(self.spoil(change))
    }
}

impl Threads for Mutant {
    fn processes(&self) -> Result<Vec<Process>, Refusal> {
        self.sim.processes()
    }
    fn lwps(&self, pid: Pid) -> Result<Vec<LwpStatus>, Refusal> {
        self.sim.lwps(pid).map(|t| self.spoil_threads(t))
    }
    fn bound(&self) -> Result<Vec<LwpStatus>, Refusal> {
        self.sim.bound().map(|t| self.spoil_threads(t))
    }

    fn prepare_bind_set(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal> {
        let mut change = self.leave_a_trace(self.sim.prepare_bind_set(pid, lwps, to))?;
        if to.is_none() {
            self.freed.borrow_mut().extend(self.sim.lwps(pid)?.iter().map(|t| t.lwp));
            if self.is(Defect::UnbindingDoesNothing) {
                change.steps.clear();
            }
        }
        Ok(self.spoil(change))
    }

    fn prepare_start_in_default(&self, pid: Pid) -> Result<Change<()>, Refusal> {
        self.sim.prepare_start_in_default(pid)
    }

    fn prepare_bind_cpu(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<CpuId>,
    ) -> Result<Change<Vec<Rebinding<CpuId>>>, Refusal> {
        self.leave_a_trace(self.sim.prepare_bind_cpu(pid, lwps, to)).map(|c| self.spoil(c))
    }
}

impl Interrupts for Mutant {
    fn list(&self) -> Result<Vec<Interrupt>, Refusal> {
        let mut list = Interrupts::list(&self.sim)?;
        if self.is(Defect::InterruptsStay) {
            list.iter_mut().for_each(|i| i.allowed = CpuSet::first(4));
        }
        Ok(list)
    }
}

impl Counters for Mutant {
    fn since_boot(&self) -> Result<Sample, Refusal> {
        let (at, wall) = (self.sim.now(), self.sim.wall());
        let factor = if self.is(Defect::IdlesTooMuch) { 2 } else { 1 };
        let ticks = Ticks { idle: Nanos(at.0 * factor), ..Ticks::default() };
        let cpu = |cpu| CpuSample { cpu, set: PsetId::DEFAULT, events: [None; 11], ticks };
        let cpus = CpuSet::first(4).iter().map(cpu).collect();
        Ok(Sample { at, wall, cpus, sets: Vec::new(), missing: Vec::new() })
    }

    fn watch(&self, _: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
        Err(Absent::because("a mutant is not watched"))
    }
}
