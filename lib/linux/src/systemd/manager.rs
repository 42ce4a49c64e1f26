//! The requests that we make of systemd.

use millpond_machine::KnobError;
use millpond_model::{CpuSet, NodeSet};

/// The requests that we make of systemd's manager. Units are called by name.
pub(crate) trait Manager {
    /// Starts a transient slice directly below the root.
    fn start_slice(&self, unit: &str) -> Result<(), KnobError>;
    /// Starts a transient scope in a slice, with a process in it.
    fn start_scope(&self, unit: &str, slice: &str, pid: u32) -> Result<(), KnobError>;
    /// Moves a process into a unit that runs.
    fn adopt(&self, unit: &str, pid: u32) -> Result<(), KnobError>;
    /// Stops a unit, and with it whatever runs in it.
    fn stop(&self, unit: &str) -> Result<(), KnobError>;
    /// Whether it runs, or is about to run or to end.
    fn is_active(&self, unit: &str) -> Result<bool, KnobError>;
    /// The property `AllowedCPUs`; `None` when it is not set. [`KnobError::Gone`] when there is no such unit.
    fn allowed(&self, unit: &str) -> Result<Option<CpuSet>, KnobError>;
    /// Sets or resets it, for this boot.
    fn allow(&self, unit: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError>;
    /// A property that is a number; `None` when it is not set. [`KnobError::Gone`] when there is no such unit.
    fn number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError>;
    /// Sets or resets it, for this boot.
    fn set_number(&self, unit: &str, property: &str, value: Option<u64>) -> Result<(), KnobError>;
    /// Sets `AllowedMemoryNodes`, for this boot.
    fn allow_memory(&self, unit: &str, nodes: &NodeSet) -> Result<(), KnobError>;
    /// Whether a unit waits at boot until another one has started.
    fn is_started_after(&self, unit: &str, other: &str) -> Result<bool, KnobError>;
    /// Has it read the files of units again.
    fn reload(&self) -> Result<(), KnobError>;
}
