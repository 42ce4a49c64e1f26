//! Device interrupts, and everything else that is steered away from sheltered CPUs.

use crate::Refusal;
use millpond_model::CpuSet;

millpond_model::words! {
    /// What sort of thing is steered.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum InterruptKind {
        /// An interrupt line or message of a device.
        Device = "interrupt",
        /// Where interrupts that are requested later will go.
        Default = "default",
        /// Work that the kernel does in threads bound to no CPU.
        UnboundWork = "work",
        /// Network packets that are handed on to, or sent from, chosen CPUs.
        PacketSteering = "packets",
    }
    else millpond_model::ParseIdError, |text| millpond_model::ParseIdError { text, noun: "kind of interrupt" }
}

/// One thing that can be steered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// The machine's name for it (`24`, `default`, `eth0/rx-0`).
    pub id: String,
    /// Its source (`eth0-rx-0`).
    pub name: String,
    /// What sort.
    pub kind: InterruptKind,
    /// Where it may go.
    pub allowed: CpuSet,
    /// Where it goes now, where that is known.
    pub effective: Option<CpuSet>,
    /// Why it cannot be moved, if so.
    pub fixed: Option<String>,
    /// How often it came since boot, to all CPUs together, where that is counted.
    pub count: Option<u64>,
}

/// The facet. Sheltering CPUs is a change of their state: see [`crate::Processors::prepare_state`].
pub trait Interrupts {
    /// Everything that can or could be steered.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn list(&self) -> Result<Vec<Interrupt>, Refusal>;

    /// What comes to sheltered CPUs all the same, a line for each that names it and says why.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn staying(&self) -> Result<Vec<String>, Refusal>;
}
