//! Partitions: groups of CPUs that threads share, as processor sets do.

use super::cpu_mask::CpuMask;
use super::ids::{CpuIndex, PartitionId, Table};
use serde::{Deserialize, Serialize};

/// The partition of threads that are bound to no set.
pub const DEFAULT: PartitionId = PartitionId(0);
/// The partition of threads that keep aside of sets that push no thread out.
pub const ASIDE: PartitionId = PartitionId(1);
/// The partition of set 0 would be this one; those of sets 1 and up follow.
pub const SETS: u32 = 1;

/// A partition: a processor set, the default one, or another reason to share CPUs. Its queue for kernel preemption
/// comes after those of all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Partition {
    /// The CPUs that its threads may run on.
    pub cpus: CpuMask,
    /// The CPUs from whose queues its own CPUs may take threads.
    pub peers: CpuMask,
    /// The lgroups that the memory of its threads comes from; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<u32>,
}

impl Partition {
    /// One that has these CPUs to itself.
    pub fn of(cpus: CpuMask) -> Self {
        Partition { peers: cpus.clone(), cpus, memory: Vec::new() }
    }
}

/// How CPUs are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// For each CPU the partition that it belongs to.
    pub cpus: Vec<PartitionId>,
    /// For each partition the CPUs that its threads may run on: those that run any. They may be others' too.
    pub parts: Table<PartitionId, Vec<CpuIndex>>,
}
