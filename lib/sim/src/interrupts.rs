//! The interrupts facet: a device's interrupts go to its own CPU while that takes any, else to the next one by number that
//! does.

use crate::machine::SimMachine;
use millpond_machine::facets::{Interrupt, InterruptKind};
use millpond_machine::{Interrupts, Refusal};
use millpond_model::CpuSet;

impl Interrupts for SimMachine {
    fn list(&self) -> Result<Vec<Interrupt>, Refusal> {
        Ok(self.view(|s| {
            let allowed = s.tables.interruptible();
            let interrupt = |device: &crate::state::Device| Interrupt {
                id: device.name.clone(),
                name: device.name.clone(),
                kind: InterruptKind::Device,
                allowed: allowed.clone(),
                effective: s.tables.interrupted(device.processor).map(|cpu| CpuSet::from_iter([cpu])),
                fixed: None,
                count: None,
            };
            s.devices.iter().map(interrupt).collect()
        }))
    }

    /// All interrupts of a simulated machine can be moved.
    fn staying(&self) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }
}
