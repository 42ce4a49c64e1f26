//! The sampler facet: where the threads of programs ran. A simulated machine need not sample: it says as many samples as
//! the time in question is worth.

use crate::machine::SimMachine;
use crate::tables::Tables;
use millpond_machine::facets::{OccupancyWatch, Residence, Sighting};
use millpond_machine::{Absent, Refusal, Sampler};
use millpond_model::{CpuId, Nanos, Pid};
use std::collections::BTreeMap;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

impl Sampler for SimMachine {
    fn watch(&self, pids: &[Pid], frequency_hz: u64) -> Result<Box<dyn OccupancyWatch + '_>, Absent> {
        self.edit(|s| {
            s.kernel.watch(true);
            s.residence.clear();
        });
        let since = self.view(crate::SimState::now);
        Ok(Box::new(Watch { machine: self, pids: pids.to_vec(), frequency_hz, since }))
    }
}

struct Watch<'a> {
    machine: &'a SimMachine,
    pids: Vec<Pid>,
    frequency_hz: u64,
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
}

impl Watch<'_> {
    /// What the watched programs spent where, as samples.
    fn residence(
        &self,
        tables: &Tables,
        spent: BTreeMap<Pid, BTreeMap<u32, u64>>,
        elapsed: Nanos,
    ) -> Residence {
        let mut by_program: BTreeMap<(Pid, u32), u64> = BTreeMap::new();
        for (pid, cpus) in spent {
            let Some(program) = self.nearest(tables, pid) else { continue };
            for (cpu, time) in cpus {
                *by_program.entry((program, cpu)).or_default() += time;
            }
        }
        let cpus: Vec<CpuId> = tables.processors.keys().copied().collect();
        let sighting = |((pid, cpu), time): ((Pid, u32), u64)| {
            let cpu = *cpus.get(cpu as usize)?;
            Some(Sighting { cpu, pid, samples: self.samples(time) })
        };
        Residence {
            elapsed,
            full: self.samples(elapsed.0),
            sightings: by_program.into_iter().filter_map(sighting).collect(),
            lost: 0,
            alive: self.pids.iter().copied().filter(|pid| self.lives(tables, *pid)).collect(),
        }
    }

    fn samples(&self, time: u64) -> u64 {
        let samples = u128::from(time) * u128::from(self.frequency_hz) / u128::from(SECOND);
        u64::try_from(samples).unwrap_or(u64::MAX)
    }

    /// The watched process that a process is, or the nearest that it descends from.
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
