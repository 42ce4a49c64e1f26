//! Cores with their on-line strands.

use crate::{Machine, Refusal};
use millpond_model::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// The cores of some CPUs, and the active CPUs of the machine.
#[derive(Debug)]
pub struct ActiveCores {
    /// All strands of the core of each CPU.
    cores: BTreeMap<CpuId, CpuSet>,
    /// The active CPUs; read only if a core has several strands.
    active: CpuSet,
}

impl ActiveCores {
    /// The cores of these CPUs now.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
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

    /// The active CPUs if one of the given CPUs shares its core; else the given CPUs.
    #[must_use]
    pub fn active(&self) -> &CpuSet {
        &self.active
    }

    /// The on-line strands of the core of a given CPU.
    #[must_use]
    pub fn strands(&self, cpu: CpuId) -> CpuSet {
        self.cores.get(&cpu).map(|cpus| cpus & &self.active).unwrap_or_default()
    }

    /// The given CPUs, in the order of `cpus`, followed by the other on-line strands of their cores. A CPU that does not exist stays in the
    /// list, so that the machine refuses it.
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
