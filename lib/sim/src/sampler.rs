//! The sampler facet: where threads of programs ran. The simulator knows this exactly and does not sample.

use crate::kernel::{CpuIndex, Id};
use crate::machine::SimMachine;
use crate::tables::Tables;
use millpond_machine::facets::{Method, OccupancyWatch, Residence, Sighting};
use millpond_machine::{Absent, Refusal, Sampler};
use millpond_model::{CpuId, Nanos, Pid};
use std::collections::BTreeMap;

impl Sampler for SimMachine {
    fn watch(&self, pids: &[Pid], _: Method) -> Result<Box<dyn OccupancyWatch + '_>, Absent> {
        self.edit(|s| {
            s.kernel.watch(true);
            s.residence.clear();
        });
        let since = self.view(crate::SimState::now);
        Ok(Box::new(Watch { machine: self, pids: pids.to_vec(), since }))
    }
}

struct Watch<'a> {
    machine: &'a SimMachine,
    pids: Vec<Pid>,
    since: Nanos,
}

impl OccupancyWatch for Watch<'_> {
    fn collect(&mut self) -> Result<Residence, Refusal> {
        let spent = self.machine.edit(|s| std::mem::take(&mut s.residence));
        let now = self.machine.view(crate::SimState::now);
        let elapsed = now - self.since;
        self.since = now;
        Ok(self.machine.view(|s| self.residence(&s.tables, spent, elapsed)))
    }

    fn why_sampled(&self) -> Option<&str> {
        None
    }
}

impl Watch<'_> {
    /// Time of the watched programs on each CPU.
    fn residence(
        &self,
        tables: &Tables,
        spent: BTreeMap<Pid, BTreeMap<CpuIndex, u64>>,
        elapsed: Nanos,
    ) -> Residence {
        let mut by_program: BTreeMap<(Pid, CpuIndex), u64> = BTreeMap::new();
        for (pid, cpus) in spent {
            let Some(program) = self.nearest(tables, pid) else { continue };
            for (cpu, time) in cpus {
                *by_program.entry((program, cpu)).or_default() += time;
            }
        }
        let cpus: Vec<CpuId> = tables.processors.keys().copied().collect();
        let sighting = |((pid, cpu), time): ((Pid, CpuIndex), u64)| {
            let cpu = *cpus.get(cpu.place())?;
            Some(Sighting { cpu, pid, time: Nanos(time) })
        };
        Residence {
            elapsed,
            sightings: by_program.into_iter().filter_map(sighting).collect(),
            samples: None,
            alive: self.pids.iter().copied().filter(|pid| self.lives(tables, *pid)).collect(),
            unfollowed: 0,
        }
    }

    /// The process itself if it is watched, else its nearest watched ancestor.
    fn nearest(&self, tables: &Tables, pid: Pid) -> Option<Pid> {
        let parent = |pid: &Pid| tables.processes.get(pid).and_then(|p| p.parent).filter(|above| above < pid);
        std::iter::successors(Some(pid), parent).find(|pid| self.pids.contains(pid))
    }

    fn lives(&self, tables: &Tables, program: Pid) -> bool {
        tables.processes.keys().any(|pid| self.nearest(tables, *pid) == Some(program))
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.machine.edit(|s| {
            s.kernel.watch(false);
            s.residence.clear();
        });
    }
}
