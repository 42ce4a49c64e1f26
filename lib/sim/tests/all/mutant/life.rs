//! The facets of a mutant for running threads: those of the simulated machine, each with its defects.

use super::{Defect, Mutant};
use millpond_machine::facets::{Method, OccupancyWatch, Reclassed, Residence, Scheduled};
use millpond_machine::{
    Absent, Change, Clock, Dispatcher, Knob, Knobs, Processors, Refusal, Sampler, Step, Threads,
};
use millpond_model::{
    Class, ClassRequest, ClassTable, CpuId, CpuSet, DispatchTables, Nanos, Pid, State, WallTime,
};

impl Mutant {
    /// A change of binding also moves the threads of a process into the default class.
    pub(super) fn reset_class<T>(&self, change: &mut Change<T>, pid: Pid) {
        if !self.is(Defect::BindingResetsClass) {
            return;
        }
        for thread in self.sim.lwps(pid).unwrap_or_default() {
            let knob = Knob(format!("lwp/{}/{}/class", pid, thread.lwp.lwp));
            let before = self.sim.read(&knob).ok().flatten();
            if before.as_deref() != Some("TS 0 0") {
                change.steps.push(Step::new(knob, before, Some("TS 0 0".into())));
            }
        }
    }

    /// Whether a write restores the earlier value of a knob with such a name.
    pub(super) fn is_undone(&self, names: &[&str], knob: &Knob, value: Option<&String>) -> bool {
        let unfinished = self.sim_journal().unfinished().ok().flatten();
        let steps = unfinished.map(|operation| operation.steps).unwrap_or_default();
        names.iter().any(|name| knob.0.ends_with(name))
            && steps.iter().any(|s| s.knob == *knob && s.before.as_ref() == value)
    }

    /// Disables the caps of processes while time advances; returns the earlier values.
    fn forget_controls(&self) -> Vec<(Pid, millpond_model::ControlValues)> {
        if !self.is(Defect::CapsLeak) {
            return Vec::new();
        }
        self.sim.edit(|s| {
            let capped = s.tables.processes.iter_mut().filter(|(_, process)| process.controls.cap.is_some());
            let take = |(pid, process): (&Pid, &mut millpond_sim::tables::ProcessRecord)| {
                let held = process.controls;
                // An unlimited cap, so that the process still holds its children.
                process.controls.cap = millpond_model::CpuCap::new(1_000_000).ok();
                (*pid, held)
            };
            capped.map(take).collect()
        })
    }

    fn elsewhere(&self, cpu: CpuId, pid: Pid) -> CpuId {
        let states = self.sim.states().unwrap_or_default();
        let in_state = |runs: bool| -> CpuSet {
            states.iter().filter(|s| s.state.runs_threads() == runs).map(|s| s.cpu).collect()
        };
        let threads = self.sim.lwps(pid).unwrap_or_default();
        let reach: CpuSet = threads.iter().flat_map(|t| t.allowed.iter()).collect();
        let other = match self.defect {
            Defect::RunsWhereStopped => in_state(false).lowest(),
            Defect::RunsOutside if !threads.is_empty() => (&in_state(true) - &reach).lowest(),
            _ => None,
        };
        other.unwrap_or(cpu)
    }
}

impl Clock for Mutant {
    fn now(&self) -> Nanos {
        self.sim.now()
    }
    fn wall(&self) -> WallTime {
        self.sim.wall()
    }
    fn booted(&self) -> WallTime {
        self.sim.booted()
    }

    fn sleep_until(&self, deadline: Nanos) {
        let first = self.sim.view(|s| s.tables.next_pid);
        let held = self.forget_controls();
        self.sim.sleep_until(deadline);
        self.sim.edit(|s| {
            for (pid, caps) in held {
                if let Some(process) = s.tables.processes.get_mut(&pid) {
                    process.controls = caps;
                }
            }
        });
        if self.is(Defect::NewbornsAreFree) {
            self.sim.edit(|s| {
                let newborn = s.tables.processes.range_mut(first..);
                let threads = newborn.flat_map(|(_, process)| process.lwps.values_mut());
                threads.for_each(|lwp| (lwp.set, lwp.cpu) = (None, None));
            });
        }
    }
}

impl Sampler for Mutant {
    fn watch(&self, pids: &[Pid], method: Method) -> Result<Box<dyn OccupancyWatch + '_>, Absent> {
        Ok(Box::new(Watch { mutant: self, inner: Sampler::watch(&self.sim, pids, method)? }))
    }
}

struct Watch<'m> {
    mutant: &'m Mutant,
    inner: Box<dyn OccupancyWatch + 'm>,
}

impl OccupancyWatch for Watch<'_> {
    fn collect(&mut self) -> Result<Residence, Refusal> {
        let mut residence = self.inner.collect()?;
        if self.mutant.is(Defect::SharesBuyNothing) {
            // All threads of a CPU get the same run time.
            let all = residence.sightings.clone();
            for sighting in &mut residence.sightings {
                let beside: Vec<u64> =
                    all.iter().filter(|s| s.cpu == sighting.cpu).map(|s| s.time.0).collect();
                sighting.time.0 = beside.iter().sum::<u64>() / beside.len().max(1) as u64;
            }
        }
        for sighting in &mut residence.sightings {
            sighting.cpu = self.mutant.elsewhere(sighting.cpu, sighting.pid);
            if self.mutant.is(Defect::RunsLongerThanItsProcessor) {
                sighting.time.0 += 1;
            }
        }
        Ok(residence)
    }
    fn why_sampled(&self) -> Option<&str> {
        self.inner.why_sampled()
    }
}

impl Dispatcher for Mutant {
    fn classes(&self) -> Vec<Class> {
        self.sim.classes()
    }
    fn made_by(&self) -> String {
        self.sim.made_by()
    }
    fn ticks_per_second(&self) -> u32 {
        self.sim.ticks_per_second()
    }
    fn tables(&self) -> Result<DispatchTables, Refusal> {
        self.sim.tables()
    }
    fn live(&self) -> Result<(), Absent> {
        self.sim.live()
    }
    fn default_class(&self) -> Result<Option<Class>, Refusal> {
        self.sim.default_class()
    }
    fn scheduled(&self) -> Result<Vec<Scheduled>, Refusal> {
        self.sim.scheduled()
    }

    fn prepare_set_table(&self, table: ClassTable) -> Result<Change<()>, Refusal> {
        let mut change = self.sim.prepare_set_table(table)?;
        if self.is(Defect::TablesStay) {
            change.steps.clear();
        }
        Ok(change)
    }

    fn prepare_default_class(&self, class: Class) -> Result<Change<Option<Class>>, Refusal> {
        self.sim.prepare_default_class(class)
    }

    fn prepare_class(&self, pid: Pid, request: &ClassRequest) -> Result<Change<Reclassed>, Refusal> {
        let mut change = self.sim.prepare_class(pid, request)?;
        if self.is(Defect::ReportsAnotherClass) {
            change.outcome.to = change.outcome.from;
        }
        Ok(change)
    }
}

/// The CPU of a mutant's interrupt that never moves, even if its CPU takes no interrupts.
pub(super) fn stays_at_home(mutant: &Mutant, name: &str) -> Option<CpuSet> {
    let home = |s: &millpond_sim::SimState| {
        s.devices.iter().find(|device| device.name == name).map(|device| device.processor)
    };
    let home = mutant.sim.view(home)?;
    let state = mutant.sim.states().ok()?.into_iter().find(|s| s.cpu == home)?.state;
    (state == State::NoIntr).then(|| CpuSet::from_iter([home]))
}
