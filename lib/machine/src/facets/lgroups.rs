//! Locality groups: CPUs and memory by distance, homes of threads, and memory of sets.

use crate::{Change, Refusal};
use millpond_model::{Affinity, CpuSet, LgroupTree, LgrpId, Lwp, LwpId, Pid, PsetId, SetMemory};
use std::collections::{BTreeMap, BTreeSet};

/// Memory of a node, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Installed memory.
    pub installed_kib: u64,
    /// Free memory. The rest is allocated.
    pub free_kib: u64,
}

/// The present state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub node: LgrpId,
    /// Its CPUs that run threads.
    pub cpus: CpuSet,
    /// Its memory; `None` if it has none, or it is unknown.
    pub memory: Option<NodeMemory>,
    /// Running and runnable threads there, in thousandths; `None` without CPUs.
    pub load_milli: Option<u64>,
}

/// The CPUs and nodes that a process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// CPUs.
    pub cpus: CpuSet,
    /// Nodes whose memory it may use.
    pub nodes: BTreeSet<LgrpId>,
}

/// A thread with its home and its affinities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homed {
    /// The thread.
    pub lwp: Lwp,
    /// The node that is its home.
    pub home: LgrpId,
    /// The nodes that it prefers; no preference for others.
    pub affinities: BTreeMap<LgrpId, Affinity>,
}

/// The note if memory of a set should be local and no CPU of the set has local memory.
#[must_use]
pub fn nothing_near(set: PsetId) -> String {
    format!("set {set} has no CPU with memory beside it: its memory comes from anywhere until it has one")
}

/// The facet.
pub trait Lgroups {
    /// The nodes and their distances, as the tree of lgroups.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn tree(&self) -> Result<LgroupTree, Refusal>;

    /// Every node, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn nodes(&self) -> Result<Vec<NodeStatus>, Refusal>;

    /// The CPUs and nodes that the caller may use.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn own_reach(&self) -> Result<Reach, Refusal>;

    /// The threads of a process, ascending, with their homes.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such process.
    fn homes(&self, pid: Pid) -> Result<Vec<Homed>, Refusal>;

    /// Resident memory of a process by node, in KiB. Nodes with none may be omitted.
    ///
    /// # Errors
    /// [`Refusal`]: no such process, a kernel thread, no permission, a machine without this information.
    fn pages(&self, pid: Pid) -> Result<BTreeMap<LgrpId, u64>, Refusal>;

    /// The memory setting of a set, and the nodes that it means now.
    ///
    /// # Errors
    /// [`Refusal`] if the set does not exist.
    fn set_memory(&self, set: PsetId) -> Result<(SetMemory, BTreeSet<LgrpId>), Refusal>;

    /// Prepares another memory setting for a set. It applies to future allocations and, as far as the machine can move it, to present
    /// memory. It ends with the set. The outcome is the former setting.
    ///
    /// # Errors
    /// [`Refusal`]: no such set, the default set, a node that does not exist or has no memory, no permission.
    fn prepare_set_memory(&self, set: PsetId, to: SetMemory) -> Result<Change<SetMemory>, Refusal>;

    /// Prepares new homes for threads of a process, one of `homes` for each in rotation, with a strong affinity for the home and no other
    /// affinity. The outcome is the former state of the threads.
    ///
    /// # Errors
    /// [`Refusal`]: no such process or thread, a kernel thread, no permission, a home without CPUs that the thread may use.
    fn prepare_homes(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        homes: &[LgrpId],
    ) -> Result<Change<Vec<Homed>>, Refusal>;

    /// Prepares affinities for threads of a process. Nodes that are not named keep their affinities. The outcome is the former state of the
    /// threads.
    ///
    /// # Errors
    /// As for [`Lgroups::prepare_homes`], and for an affinity that the machine does not support.
    fn prepare_affinities(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        affinities: &BTreeMap<LgrpId, Affinity>,
    ) -> Result<Change<Vec<Homed>>, Refusal>;
}
