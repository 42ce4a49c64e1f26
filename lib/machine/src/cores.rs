//! Cores by their strands that are on-line.

use crate::{Machine, Refusal};
use millpond_model::{CoreId, CpuId, CpuSet, Topology};
use std::collections::BTreeMap;

/// The cores of a machine, and which of its CPUs run threads.
#[derive(Debug)]
pub struct ActiveCores {
    topology: Topology,
    cpus: BTreeMap<CoreId, CpuSet>,
    active: CpuSet,
}

impl ActiveCores {
    /// Those of a machine now.
    ///
    /// # Errors
    /// [`Refusal`] when it cannot be read.
    pub fn of(machine: &dyn Machine) -> Result<ActiveCores, Refusal> {
        let processors = machine.processors()?;
        let states = processors.states()?;
        let active =
            states.iter().filter(|status| status.state.runs_threads()).map(|status| status.cpu).collect();
        let topology = processors.topology()?;
        let cpus = topology.cores().into_iter().map(|core| (core.id, core.cpus)).collect();
        Ok(ActiveCores { topology, cpus, active })
    }

    /// The CPUs that run threads.
    #[must_use]
    pub fn active(&self) -> &CpuSet {
        &self.active
    }

    /// The on-line strands of a CPU's core.
    #[must_use]
    pub fn strands(&self, cpu: CpuId) -> CpuSet {
        let core = self.topology.processor(cpu).and_then(|processor| self.cpus.get(&processor.core));
        core.map(|cpus| cpus & &self.active).unwrap_or_default()
    }

    /// CPUs with the other on-line strands of their cores behind them. What does not exist stays, for the machine to refuse.
    #[must_use]
    pub fn whole(&self, cpus: &[CpuId]) -> Vec<CpuId> {
        let mut all = cpus.to_vec();
        let mut named: CpuSet = cpus.iter().copied().collect();
        for &cpu in cpus {
            all.extend(self.strands(cpu).iter().filter(|strand| named.insert(*strand)));
        }
        all
    }
}
