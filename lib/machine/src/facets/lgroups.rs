//! Locality groups: CPUs and memory by distance, and the groups of threads and sets.

use crate::{Change, Refusal};
use millpond_model::{Affinity, CpuSet, LgroupTree, LgrpId, Lwp, LwpId, Pid, PsetId, SetMemory};
use std::collections::{BTreeMap, BTreeSet};

/// Memory of a node, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// What is there.
    pub installed_kib: u64,
    /// What is free. The rest is allocated.
    pub free_kib: u64,
}

/// A node as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Which.
    pub node: LgrpId,
    /// Its CPUs that run threads.
    pub cpus: CpuSet,
    /// Its memory; `None` where it has none, or none is known.
    pub memory: Option<NodeMemory>,
    /// How many threads run or wait for a CPU there, in thousandths; `None` where it has no CPUs.
    pub load_milli: Option<u64>,
}

/// What a process may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// CPUs.
    pub cpus: CpuSet,
    /// Nodes whose memory it may use.
    pub nodes: BTreeSet<LgrpId>,
}

/// A thread and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homed {
    /// Which.
    pub lwp: Lwp,
    /// The node that is its home.
    pub home: LgrpId,
    /// The nodes that it prefers; others it does not.
    pub affinities: BTreeMap<LgrpId, Affinity>,
}

/// What is said where a set's memory should be near it, and none is.
#[must_use]
pub fn nothing_near(set: PsetId) -> String {
    format!("set {set} has no CPU with memory beside it: its memory comes from anywhere until it has one")
}

/// The facet.
pub trait Lgroups {
    /// The nodes and how far they are from one another, as the tree that follows from that.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn tree(&self) -> Result<LgroupTree, Refusal>;

    /// Every node, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn nodes(&self) -> Result<Vec<NodeStatus>, Refusal>;

    /// What the caller may use.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn own_reach(&self) -> Result<Reach, Refusal>;

    /// The threads of a process, ascending, with their homes.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such process.
    fn homes(&self, pid: Pid) -> Result<Vec<Homed>, Refusal>;

    /// Memory that a process has mapped and that is there, by node, in KiB. Nodes with none of it may be left out.
    ///
    /// # Errors
    /// [`Refusal`]: no such process, a kernel thread, no rights, a machine that does not tell.
    fn pages(&self, pid: Pid) -> Result<BTreeMap<LgrpId, u64>, Refusal>;

    /// Where the memory of a set comes from: what was asked for, and the nodes that this means now.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such set.
    fn set_memory(&self, set: PsetId) -> Result<(SetMemory, BTreeSet<LgrpId>), Refusal>;

    /// Prepares that the memory of what is bound to a set comes from elsewhere: what it takes from now on, and, as far as the machine can, what
    /// it has. It ends with the set. The outcome is what was asked for before.
    ///
    /// # Errors
    /// [`Refusal`]: no such set, the default set, a node that does not exist or has no memory, no rights.
    fn prepare_set_memory(&self, set: PsetId, to: SetMemory) -> Result<Change<SetMemory>, Refusal>;

    /// Prepares new homes for threads of a process, in turn one of `homes` for each, with the strong affinity that goes with it and no other one. The
    /// outcome is how the threads were before.
    ///
    /// # Errors
    /// [`Refusal`]: no such process or thread, a kernel thread, no rights, a home without CPUs that the thread may use.
    fn prepare_homes(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        homes: &[LgrpId],
    ) -> Result<Change<Vec<Homed>>, Refusal>;

    /// Prepares what threads of a process prefer. Nodes that are not named keep what they have. The outcome is how the threads were
    /// before.
    ///
    /// # Errors
    /// As for [`Lgroups::prepare_homes`], and for a preference that the machine does not know.
    fn prepare_affinities(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        affinities: &BTreeMap<LgrpId, Affinity>,
    ) -> Result<Change<Vec<Homed>>, Refusal>;
}
