//! The facets of a mutant: those of the simulated machine, each with its defects.

use super::life::stays_at_home;
use super::{Defect, Mutant, add_member, add_processor};
use millpond_machine::facets::{
    CounterWatch, CreateOptions, Interrupt, Launch, LwpStatus, Process, ProcessorStatus, Program, Rebinding,
    StateChange, WatchOptions,
};
use millpond_machine::{
    Absent, Change, Clock, Counters, Interrupts, Knob, Knobs, Processors, Psets, Reason, Refusal, Step,
    Threads,
};
use millpond_model::{CpuId, CpuSet, LwpId, Move, Pid, Pset, PsetId, Sample, State, Topology};
use millpond_sim::{SimMachine, SimState};

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

    fn prepare_each_state(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<Result<StateChange, Refusal>>>, Refusal> {
        self.leave_a_trace(self.sim.prepare_each_state(cpus, to, forced)).map(|c| self.spoil(c))
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
            // As if every lower id were in use.
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
        self.reset_class(&mut change, pid);
        Ok(self.spoil(change))
    }

    fn prepare_start_in_default(&self, pid: Pid) -> Result<Change<()>, Refusal> {
        self.sim.prepare_start_in_default(pid)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal> {
        self.sim.launch(launch)
    }

    fn prepare_bind_cpus(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: &CpuSet,
    ) -> Result<Change<Vec<Rebinding<CpuSet>>>, Refusal> {
        self.leave_a_trace(self.sim.prepare_bind_cpus(pid, lwps, to)).map(|c| self.spoil(c))
    }
}

impl Interrupts for Mutant {
    fn list(&self) -> Result<Vec<Interrupt>, Refusal> {
        let mut list = Interrupts::list(&self.sim)?;
        if self.is(Defect::InterruptsStay) {
            list.iter_mut().for_each(|i| i.allowed = CpuSet::first(4));
        }
        if self.is(Defect::InterruptsArriveAnyway) {
            for interrupt in &mut list {
                let stays = stays_at_home(self, &interrupt.name);
                interrupt.effective = stays.or(interrupt.effective.take());
            }
        }
        Ok(list)
    }

    fn staying(&self) -> Result<Vec<String>, Refusal> {
        self.sim.staying()
    }
}

impl Counters for Mutant {
    fn since_boot(&self) -> Result<Sample, Refusal> {
        let mut sample = Counters::since_boot(&self.sim)?;
        for cpu in &mut sample.cpus {
            match self.defect {
                Defect::IdlesTooMuch => cpu.ticks.idle.0 += sample.at.0 * 2,
                Defect::LosesTime => cpu.ticks.idle.0 /= 2,
                _ => {}
            }
        }
        Ok(sample)
    }

    fn watch(&self, _: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
        Err(Absent::because("a mutant is not watched"))
    }
}
