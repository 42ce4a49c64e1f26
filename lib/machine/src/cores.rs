//! Cores by their strands that are on-line.

use crate::{Machine, Refusal};
use millpond_model::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// The cores of some CPUs of a machine, and which CPUs run threads.
#[derive(Debug)]
pub struct ActiveCores {
    /// All strands of the core of each.
    cores: BTreeMap<CpuId, CpuSet>,
    /// Asked for only where a core has several strands.
    active: CpuSet,
}

impl ActiveCores {
    /// Those of these CPUs now.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    pub fn of(machine: &dyn Machine, cpus: &[CpuId]) -> Result<ActiveCores, Refusal> {
        let processors = machine.processors()?;
        let cores = processors.cores_of(cpus)?;
        let active = if cores.values().any(|core| core.len() > 1) {
            let states = processors.states()?;
            states.iter().filter(|status| status.state.runs_threads()).map(|status| status.cpu).collect()
        } else {
            cpus.iter().copied().collect()
        };
        Ok(ActiveCores { cores, active })
    }

    /// The CPUs that run threads, where one of those that were asked about shares its core; else those that were asked about.
    #[must_use]
    pub fn active(&self) -> &CpuSet {
        &self.active
    }

    /// The on-line strands of the core of a CPU that was asked about.
    #[must_use]
    pub fn strands(&self, cpu: CpuId) -> CpuSet {
        self.cores.get(&cpu).map(|cpus| cpus & &self.active).unwrap_or_default()
    }

    /// The CPUs that were asked about, in the order of `cpus`, with the other on-line strands of their cores behind them. What does not exist stays, for
    /// the machine to refuse.
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
