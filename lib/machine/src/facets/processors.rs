//! CPUs: their topology and states.

use crate::{Change, Refusal};
use millpond_model::{CpuId, CpuSet, State, Topology, WallTime};
use std::collections::BTreeMap;

/// A CPU's state and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorStatus {
    /// Which.
    pub cpu: CpuId,
    /// Its state.
    pub state: State,
    /// Since when, on the wall.
    pub since: WallTime,
}

/// The outcome of a change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct StateChange {
    /// Which.
    #[serde(rename = "processor")]
    pub cpu: CpuId,
    /// The state it had.
    pub from: State,
    /// The state it has.
    pub to: State,
}

/// CPUs that are in use in another way than by processor sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Isolated at boot (`isolcpus=`).
    pub isolated: CpuSet,
    /// Those of partitions that other programs made.
    pub partitions: CpuSet,
    /// Those that threads are bound to.
    pub bound: CpuSet,
}

/// The facet.
pub trait Processors {
    /// Where CPUs stand. Includes those that are off-line.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn topology(&self) -> Result<Topology, Refusal>;

    /// All CPUs of the core of each of these CPUs. One that does not exist is left out, or stands alone.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn cores_of(&self, cpus: &[CpuId]) -> Result<BTreeMap<CpuId, CpuSet>, Refusal> {
        let topology = self.topology()?;
        let cores: BTreeMap<_, _> = topology.cores().into_iter().map(|core| (core.id, core.cpus)).collect();
        let core_of = |cpu: &CpuId| Some((*cpu, cores.get(&topology.processor(*cpu)?.core)?.clone()));
        Ok(cpus.iter().filter_map(core_of).collect())
    }

    /// The CPUs that should not be taken without being asked for by their numbers.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn reserved(&self) -> Result<Reserved, Refusal> {
        Ok(Reserved::default())
    }

    /// The state of each, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn states(&self) -> Result<Vec<ProcessorStatus>, Refusal>;

    /// Prepares a change of state. The rules are those of [`State::transition`]; beyond them the last
    /// CPU on-line (of the machine, and of its set), and the last that takes interrupts, stay. Threads
    /// that are bound to a CPU keep it from going off-line unless `forced`, which unbinds them.
    ///
    /// # Errors
    /// [`Refusal`] with the rule that forbids it.
    fn prepare_state(&self, cpu: CpuId, to: State, forced: bool) -> Result<Change<StateChange>, Refusal>;

    /// Prepares the same change of state for several CPUs as one operation. CPUs that already
    /// are in the state take no step.
    ///
    /// # Errors
    /// [`Refusal`] naming the first CPU whose change is forbidden.
    fn prepare_states(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<StateChange>>, Refusal>;

    /// Prepares the same change of state for several CPUs, each of which is an operation of its own, as one change. The outcome has one entry for
    /// each of `cpus`, in order: what [`Processors::prepare_state`] would say once the ones before it were done. One that is refused takes no step. The
    /// machine is read once, however many there are.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn prepare_each_state(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<Result<StateChange, Refusal>>>, Refusal>;
}
