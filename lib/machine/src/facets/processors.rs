//! CPUs: their topology and states.

use crate::{Change, Refusal};
use millpond_model::{CpuId, CpuSet, State, Topology, WallTime};
use std::collections::BTreeMap;

/// The state of a CPU, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorStatus {
    /// The CPU.
    pub cpu: CpuId,
    /// Its state.
    pub state: State,
    /// The wall-clock time of the last change.
    pub since: WallTime,
}

/// A changed state of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct StateChange {
    /// The CPU.
    #[serde(rename = "processor")]
    pub cpu: CpuId,
    /// The old state.
    pub from: State,
    /// The new state.
    pub to: State,
}

/// CPUs that are used by other mechanisms than processor sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Isolated at boot (`isolcpus=`).
    pub isolated: CpuSet,
    /// CPUs of partitions of other programs.
    pub partitions: CpuSet,
    /// CPUs with bound threads.
    pub bound: CpuSet,
}

/// The facet.
pub trait Processors {
    /// The topology, including off-line CPUs.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn topology(&self) -> Result<Topology, Refusal>;

    /// All CPUs of the core of each of these CPUs. A CPU that does not exist is omitted, or listed alone.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn cores_of(&self, cpus: &[CpuId]) -> Result<BTreeMap<CpuId, CpuSet>, Refusal> {
        let topology = self.topology()?;
        let cores: BTreeMap<_, _> = topology.cores().into_iter().map(|core| (core.id, core.cpus)).collect();
        let core_of = |cpu: &CpuId| Some((*cpu, cores.get(&topology.processor(*cpu)?.core)?.clone()));
        Ok(cpus.iter().filter_map(core_of).collect())
    }

    /// The CPUs that should not be taken unless requested by number.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn reserved(&self) -> Result<Reserved, Refusal> {
        Ok(Reserved::default())
    }

    /// The state of each CPU, ascending.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn states(&self) -> Result<Vec<ProcessorStatus>, Refusal>;

    /// Prepares a change of state. The rules are those of [`State::transition`]. In addition, the last on-line CPU (of the machine, and of
    /// its set) and the last CPU that takes interrupts cannot leave their state. Threads that are bound to a CPU keep it from going
    /// off-line unless `forced`, which unbinds them.
    ///
    /// # Errors
    /// [`Refusal`] with the violated rule.
    fn prepare_state(&self, cpu: CpuId, to: State, forced: bool) -> Result<Change<StateChange>, Refusal>;

    /// Prepares the same change of state for several CPUs as one operation. CPUs that are already in this state take no step.
    ///
    /// # Errors
    /// [`Refusal`] for the first CPU whose change is not allowed.
    fn prepare_states(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<StateChange>>, Refusal>;

    /// Prepares the same change of state for several CPUs, each of which is an operation of its own, as one change. The outcome has one
    /// entry for each of `cpus`, in order: the result of [`Processors::prepare_state`] after the changes of the earlier ones. A refused CPU
    /// takes no step. The machine is read once, independent of the number of CPUs.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn prepare_each_state(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<Result<StateChange, Refusal>>>, Refusal>;
}
