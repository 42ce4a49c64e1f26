//! Partitions: groups of CPUs that threads share, such as processor sets.

use super::cpu_mask::CpuMask;
use super::ids::{CpuIndex, PartitionId, Table};
use serde::{Deserialize, Serialize};

/// The partition of threads that are bound to no set.
pub const DEFAULT: PartitionId = PartitionId(0);
/// The partition of threads that avoid shared sets, that is, sets whose CPUs other threads may use too.
pub const ASIDE: PartitionId = PartitionId(1);
/// Offset: the partition of set N is N + 1.
pub const SETS: u32 = 1;

/// A partition: a processor set, the default one, or another reason to share CPUs. The kp queues of partitions come after the
/// queues of all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partition {
    /// The CPUs that its threads may run on.
    pub cpus: CpuMask,
    /// The CPUs from whose queues its own CPUs may steal.
    pub peers: CpuMask,
    /// The lgroups of its threads' memory; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<u32>,
}

impl Partition {
    /// A partition with exclusive CPUs.
    pub fn of(cpus: CpuMask) -> Self {
        Partition { peers: cpus.clone(), cpus, memory: Vec::new() }
    }
}

/// The distribution of CPUs over partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// The partition of each CPU.
    pub cpus: Vec<PartitionId>,
    /// The CPUs that the threads of each partition may run on, without CPUs that run no threads. Partitions may overlap.
    pub parts: Table<PartitionId, Vec<CpuIndex>>,
}
