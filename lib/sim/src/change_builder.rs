//! Builds a change on a copy of the tables. Each step is applied to the copy while it is prepared, by the code that will execute it.
//! So each rule is checked in the state that the earlier steps produce.

use crate::kernel::LgroupAffinities;
use crate::knob_values::{TableName, affinities_value, control_value, memory_value, row_values};
use crate::knobs::{
    self, Name, aside_value, bond_value, default_class_value, place_value, pools_value, set_value,
    state_value,
};
use crate::tables::{Bond, HolderId, SetRecord, Tables};
use millpond_machine::facets::StateChange;
use millpond_machine::{Change, Reason, Refusal, Step, Subject, Value};
use millpond_model::pools::PoolsState;
use millpond_model::{
    Class, ClassParams, ClassTable, ControlSetting, CpuId, CpuSet, Fencing, Former, Lwp, Move, Pid, PoolId,
    PsetId, SetMemory, State, Transition, TransitionError, WallTime,
};

/// A change under construction.
pub struct ChangeBuilder {
    /// The tables after the steps so far.
    pub tables: Tables,
    steps: Vec<Step>,
}

impl ChangeBuilder {
    /// Starts from the present tables.
    #[must_use]
    pub fn of(tables: &Tables) -> Self {
        ChangeBuilder { tables: tables.clone(), steps: Vec::new() }
    }

    /// Number of steps so far.
    #[must_use]
    pub fn steps_so_far(&self) -> usize {
        self.steps.len()
    }

    /// The finished change.
    pub fn finish<T>(self, what: impl Into<String>, outcome: T) -> Change<T> {
        Change::new(what, self.steps, outcome)
    }

    /// The steps only.
    #[must_use]
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// Creates or removes a set.
    pub fn set(&mut self, id: PsetId, record: Option<SetRecord>) -> Result<(), Refusal> {
        if record.is_none() {
            self.memory(id, &SetMemory::All)?;
            self.fence(id, None)?;
        }
        self.step(Name::Set(id), record.map(set_value), false)
    }

    /// Makes a set a fence, or an ordinary set.
    pub fn fence(&mut self, id: PsetId, fence: Option<&Fencing>) -> Result<(), Refusal> {
        // Cannot fail: every key is a string or a number.
        let value = fence.map(|fence| serde_json::to_string(fence).unwrap_or_default());
        self.step(Name::SetFence(id), value, false)
    }

    /// Refuses a fence, which may not be changed by its set id.
    pub fn check_no_fence(&self, set: PsetId) -> Result<(), Refusal> {
        match self.tables.fences.get(&set) {
            Some(fence) => Err(Refusal::new(Subject::Pset(set), Reason::IsFence(fence.name.clone()))),
            None => Ok(()),
        }
    }

    /// Sets the memory placement of a set.
    pub fn memory(&mut self, id: PsetId, to: &SetMemory) -> Result<(), Refusal> {
        self.step(Name::SetMemory(id), memory_value(to), false)
    }

    /// Sets the lgroup affinities of a thread.
    pub fn prefer(&mut self, lwp: Lwp, affinities: LgroupAffinities) -> Result<(), Refusal> {
        self.step(Name::LwpLgroups(lwp), Some(affinities_value(affinities)), false)
    }

    /// Binds a thread to a set, or to none. With `may_vanish`, the thread may end before the step is applied.
    pub fn bind_set(&mut self, lwp: Lwp, to: Option<Bond<PsetId>>, may_vanish: bool) -> Result<(), Refusal> {
        self.step(Name::LwpSet(lwp), Some(bond_value(to)), may_vanish)
    }

    /// Binds a thread to a CPU, or to none.
    pub fn bind_cpu(&mut self, lwp: Lwp, to: Option<Bond<CpuSet>>, may_vanish: bool) -> Result<(), Refusal> {
        self.step(Name::LwpCpu(lwp), Some(bond_value(to)), may_vanish)
    }

    /// Makes a thread avoid shared sets.
    pub fn keep_aside(&mut self, lwp: Lwp) -> Result<(), Refusal> {
        self.step(Name::LwpAside(lwp), Some(aside_value(true)), true)
    }

    /// Puts a thread into a class with these parameters.
    pub fn reclass(&mut self, lwp: Lwp, to: &ClassParams) -> Result<(), Refusal> {
        self.step(Name::LwpClass(lwp), Some(to.to_string()), false)
    }

    /// Replaces a dispatch table, row by row.
    pub fn set_table(&mut self, table: &ClassTable) -> Result<(), Refusal> {
        let name = TableName::of(table);
        for (level, row) in (0..).zip(row_values(table)) {
            self.step(Name::DispatchRow(name, level), Some(row), false)?;
        }
        Ok(())
    }

    /// Sets the default class from the next boot on.
    pub fn set_default_class(&mut self, class: Class) -> Result<(), Refusal> {
        self.step(Name::DefaultClass, Some(default_class_value(Some(class))), false)
    }

    /// Moves a process into a pool. It may end before the step is applied.
    pub fn pool(&mut self, pid: Pid, to: PoolId) -> Result<(), Refusal> {
        self.step(Name::ProcessPool(pid), Some(to.to_string()), true)
    }

    /// Sets the shares or the cap of a holder.
    pub fn control(&mut self, holder: HolderId, to: ControlSetting) -> Result<(), Refusal> {
        self.step(Name::Control(holder, to.control()), control_value(to), false)
    }

    /// Replaces the pool configuration.
    pub fn pools(&mut self, to: Option<&PoolsState>) -> Result<(), Refusal> {
        self.step(Name::Pools, to.map(pools_value), false)
    }

    /// Puts a CPU at the end of a set, without checking rules.
    pub fn place(&mut self, cpu: CpuId, to: PsetId) -> Result<(), Refusal> {
        self.place_after(cpu, to, &[])
    }

    fn place_after(&mut self, cpu: CpuId, to: PsetId, former: &[Former]) -> Result<(), Refusal> {
        let last = self.tables.processors.values().map(|p| p.arrival).max().unwrap_or(0);
        self.step(Name::ProcessorSet(cpu), Some(place_value(to, last + 1, former)), false)
    }

    /// Returns a CPU of a removed set to its former position in the set that it came from, or else to the default set.
    pub fn place_back(
        &mut self,
        cpu: CpuId,
        may_take: impl Fn(PsetId, usize) -> bool,
    ) -> Result<(), Refusal> {
        let former = self.tables.processors.get(&cpu).map(|p| p.former.clone()).unwrap_or_default();
        let is_there = |stay: &Former| {
            self.tables.has_former(stay) && may_take(stay.set, self.tables.members(stay.set).len())
        };
        match Former::last(former, is_there) {
            Some((stay, before)) => {
                let value = place_value(stay.set, stay.place, &before);
                self.step(Name::ProcessorSet(cpu), Some(value), false)
            }
            None => self.place(cpu, PsetId::DEFAULT),
        }
    }

    /// Moves a CPU by the rules. It must be active. It may not be the last active CPU of the default set or of a set with hard-bound
    /// threads. Threads with a hard binding to it prevent the move unless `forced`. Soft bindings give way.
    pub fn move_cpu(&mut self, cpu: CpuId, to: PsetId, forced: bool) -> Result<Move, Refusal> {
        let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
        let Some(record) = self.tables.processors.get(&cpu).cloned() else {
            return refuse(self.no_such_processor());
        };
        let from = record.set;
        if from == to {
            return Ok(Move { cpu, from, to });
        }
        if let Some(fence) = self.tables.fences.get(&from) {
            return refuse(Reason::IsFence(fence.name.clone()));
        }
        if !record.state.runs_threads() {
            return refuse(Reason::NotActive(record.state));
        }
        let mut loosened = Vec::new();
        if self.is_last(&self.tables.active(from), cpu) {
            if from.is_default() {
                return refuse(Reason::LastOfDefault);
            }
            if self.bound_to_set(from, false).next().is_some() {
                return refuse(Reason::LastOfBusy(from));
            }
            loosened = self.bound_to_set(from, true).collect();
        }
        self.release_cpu(cpu, forced)?;
        for lwp in loosened {
            self.bind_set(lwp, None, true)?;
        }
        let former = self.tables.sets.get(&from).map(|set| {
            let left = Former { set: from, serial: set.serial, place: record.arrival };
            Former::followed(record.former, left, to)
        });
        self.place_after(cpu, to, &former.unwrap_or_default())?;
        Ok(Move { cpu, from, to })
    }

    /// Changes a CPU's state by the rules of [`State::transition`] and the rules for the last CPU.
    pub fn change_state(
        &mut self,
        cpu: CpuId,
        to: State,
        forced: bool,
        now: WallTime,
    ) -> Result<StateChange, Refusal> {
        let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
        let Some(record) = self.tables.processors.get(&cpu).cloned() else {
            return refuse(self.no_such_processor());
        };
        let from = record.state;
        let shelter_would_be_last = self.is_last(&self.tables.interruptible(), cpu);
        match from.transition(to, forced) {
            Err(TransitionError::NeedsForce) => {
                let refusal = Refusal::new(Subject::Processor(cpu), Reason::NeedsForce);
                return Err(refusal.hint("add -F to force the change"));
            }
            Err(TransitionError::Impossible { from, to }) => return refuse(Reason::Transition { from, to }),
            Ok(Transition::Nothing) => return Ok(StateChange { cpu, from, to }),
            Ok(
                Transition::AdmitInterrupts | Transition::Mark | Transition::Start { then_shelter: false },
            ) => {}
            Ok(Transition::ShelterFromInterrupts | Transition::Start { then_shelter: true }) => {
                if shelter_would_be_last {
                    return refuse(Reason::LastInterruptible);
                }
            }
            Ok(Transition::Stop) => {
                if self.is_last(&self.tables.where_cpu(|p| p.state.runs_threads()), cpu) {
                    return refuse(Reason::LastOnline);
                }
                if self.is_last(&self.tables.active(record.set), cpu) {
                    return refuse(if record.set.is_default() {
                        Reason::LastOfDefault
                    } else {
                        Reason::LastOnlineOf(record.set)
                    });
                }
                if shelter_would_be_last {
                    return refuse(Reason::LastInterruptible);
                }
                self.release_cpu(cpu, forced)?;
                if from == State::NoIntr {
                    let admitted = state_value(State::OnLine, now);
                    self.step(Name::ProcessorState(cpu), Some(admitted), false)?;
                }
            }
        }
        self.step(Name::ProcessorState(cpu), Some(state_value(to, now)), false)?;
        Ok(StateChange { cpu, from, to })
    }

    /// The reason for an unknown CPU.
    #[must_use]
    pub fn no_such_processor(&self) -> Reason {
        Reason::NoSuchProcessor { present: self.tables.where_cpu(|_| true) }
    }

    /// Threads with a soft or hard binding to a set.
    pub fn bound_to_set(&self, set: PsetId, soft: bool) -> impl Iterator<Item = Lwp> + '_ {
        let bond = Bond { to: set, soft };
        self.tables.lwps().filter(move |(_, r)| r.set == Some(bond)).map(|(lwp, _)| lwp)
    }

    /// Unbinds the threads that are bound to a CPU; hard bindings only if forced.
    pub fn release_cpu(&mut self, cpu: CpuId, forced: bool) -> Result<(), Refusal> {
        let bound: Vec<(Lwp, bool)> = self
            .tables
            .lwps()
            .filter_map(|(lwp, r)| r.cpu.as_ref().filter(|b| b.to.contains(cpu)).map(|b| (lwp, b.soft)))
            .collect();
        let firm: Vec<Lwp> = bound.iter().filter(|(_, soft)| !soft).map(|(lwp, _)| *lwp).collect();
        if !firm.is_empty() && !forced {
            let refusal = Refusal::new(Subject::Processor(cpu), Reason::BoundThreads(firm));
            return Err(refusal.hint("unbind them with pbind -u, or add -F to break their bindings"));
        }
        for (lwp, _) in bound {
            self.bind_cpu(lwp, None, true)?;
        }
        Ok(())
    }

    fn is_last(&self, of: &CpuSet, cpu: CpuId) -> bool {
        of.is_subset(&CpuSet::from_iter([cpu]))
    }

    /// Adds a step, unless it changes nothing, and applies it to the copy.
    fn step(&mut self, name: Name, after: Option<Value>, may_refuse: bool) -> Result<(), Refusal> {
        let before = knobs::read(&self.tables, name);
        if before == after {
            return Ok(());
        }
        knobs::write(&mut self.tables, name, after.as_ref())
            .map_err(|error| error.into_refusal(Subject::Operation, &name.called()))?;
        let step = Step::new(name.knob(), before, after);
        self.steps.push(if may_refuse { step.tolerant() } else { step });
        Ok(())
    }
}
