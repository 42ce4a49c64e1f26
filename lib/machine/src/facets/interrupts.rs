//! Device interrupts, and other work that is moved away from sheltered CPUs.

use crate::Refusal;
use millpond_model::CpuSet;

millpond_model::words! {
    /// The kind of work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum InterruptKind {
        /// An interrupt line or message of a device.
        Device = "interrupt",
        /// The default IRQ affinity.
        Default = "default",
        /// The unbound workqueue cpumask.
        UnboundWork = "work",
        /// RPS/XPS masks.
        PacketSteering = "packets",
    }
    else millpond_model::ParseIdError, |text| millpond_model::ParseIdError { text, noun: "kind of interrupt" }
}

/// An interrupt or similar work with a CPU mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// The machine's name for it (`24`, `default`, `eth0/rx-0`).
    pub id: String,
    /// Its source (`eth0-rx-0`).
    pub name: String,
    /// Its kind.
    pub kind: InterruptKind,
    /// The allowed CPUs.
    pub allowed: CpuSet,
    /// The effective CPUs, if known.
    pub effective: Option<CpuSet>,
    /// The reason why it cannot be moved, if so.
    pub fixed: Option<String>,
    /// The number of occurrences since boot on all CPUs, if counted.
    pub count: Option<u64>,
}

/// The facet. Sheltering CPUs is a change of their state: see [`crate::Processors::prepare_state`].
pub trait Interrupts {
    /// All interrupts and similar work.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn list(&self) -> Result<Vec<Interrupt>, Refusal>;

    /// Interrupts that sheltered CPUs still take, a line each with the name and the reason.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn staying(&self) -> Result<Vec<String>, Refusal>;
}
