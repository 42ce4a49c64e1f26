//! The interface to systemd's manager.

use millpond_machine::KnobError;
use millpond_model::{CpuSet, NodeSet};

/// Requests to systemd's manager. Units are identified by name.
pub(crate) trait Manager {
    /// Starts a transient slice directly below the root.
    fn start_slice(&self, unit: &str) -> Result<(), KnobError>;
    /// Starts a transient scope in a slice, with a process in it.
    fn start_scope(&self, unit: &str, slice: &str, pid: u32) -> Result<(), KnobError>;
    /// Moves a process into a running unit.
    fn adopt(&self, unit: &str, pid: u32) -> Result<(), KnobError>;
    /// Stops a unit and all its processes.
    fn stop(&self, unit: &str) -> Result<(), KnobError>;
    /// Whether a unit is active, activating or deactivating.
    fn is_active(&self, unit: &str) -> Result<bool, KnobError>;
    /// The property `AllowedCPUs`; `None` when it is not set. [`KnobError::Gone`] when the unit does not exist.
    fn allowed(&self, unit: &str) -> Result<Option<CpuSet>, KnobError>;
    /// Sets or resets `AllowedCPUs`, for this boot.
    fn allow(&self, unit: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError>;
    /// A numeric property; `None` when it is not set. [`KnobError::Gone`] when the unit does not exist.
    fn number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError>;
    /// Sets or resets a numeric property, for this boot.
    fn set_number(&self, unit: &str, property: &str, value: Option<u64>) -> Result<(), KnobError>;
    /// Sets `AllowedMemoryNodes`, for this boot.
    fn allow_memory(&self, unit: &str, nodes: &NodeSet) -> Result<(), KnobError>;
    /// Whether a unit is ordered after another one.
    fn is_started_after(&self, unit: &str, other: &str) -> Result<bool, KnobError>;
    /// Makes systemd reload the unit files.
    fn reload(&self) -> Result<(), KnobError>;
}
