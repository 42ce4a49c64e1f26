//! OS noise on a set of CPUs as plain data: kinds, sources, counts and durations.

use crate::{CpuId, CpuSet, Nanos, Pid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

crate::words! {
    /// The kind of a disturbance.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum DisturbanceKind {
        /// A device interrupt.
        Device = "device",
        /// An inter-processor interrupt.
        Ipi = "ipi",
        /// The CPU's timer interrupt.
        Tick = "tick",
        /// A softirq.
        Softirq = "softirq",
        /// A timer of a program.
        Timer = "timer",
        /// A kernel worker, by the function that it executes.
        Worker = "worker",
        /// A kernel thread.
        Kthread = "kthread",
        /// A thread that is not the job's.
        Task = "task",
        /// A page fault of the job.
        Fault = "fault",
        /// Time taken by the hypervisor.
        Steal = "steal",
        /// Hardware activity that no setting prevents (SMI).
        Hardware = "hardware",
    }
}

/// The source of the noise.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Doer {
    /// Neither the job nor the measuring program.
    #[default]
    Others,
    /// The job's own.
    Job,
    /// The program that measures.
    Watcher,
}

/// The cause of a disturbance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Cause {
    /// Its kind.
    pub kind: DisturbanceKind,
    /// The device, function or thread.
    pub name: String,
    /// The thread that sent it or that it is for, if known and different from the name.
    pub by: Option<String>,
    /// Its origin.
    pub doer: Doer,
}

/// One cause on one CPU. Unknown values are `None`, never 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// The CPU.
    pub cpu: CpuId,
    /// The cause.
    pub cause: Cause,
    /// A related process, if any.
    pub pid: Option<Pid>,
    /// The number of occurrences.
    pub count: Option<u64>,
    /// The total duration, excluding interruptions, so that no moment is counted twice.
    pub total: Option<Nanos>,
    /// The duration of the longest occurrence.
    pub longest: Option<Nanos>,
    /// Its start time on the machine's clock.
    pub longest_at: Option<Nanos>,
}

/// A continuous time in which a CPU neither ran the job nor was idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The CPU.
    pub cpu: CpuId,
    /// The start time on the machine's clock.
    pub at: Nanos,
    /// The duration.
    pub length: Nanos,
    /// The cause of its longest part.
    pub cause: Cause,
}

/// Observations from the beginning of a watch until now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// The start of the watch on the machine's clock.
    pub began: Nanos,
    /// The time of this reading.
    pub at: Nanos,
    /// The watched CPUs.
    pub cpus: CpuSet,
    /// One row per cause and CPU.
    pub rows: Vec<Disturbance>,
    /// The reported stretches that ended since the last reading.
    pub stretches: Vec<Stretch>,
    /// The stretches in progress, with their length so far.
    pub going_on: Vec<Stretch>,
    /// Observations that could not be kept, each as a sentence with a number.
    pub lost: Vec<String>,
    /// What cannot be observed here, each with the reason.
    pub missing: Vec<String>,
    /// Whether stretches are not reported, and the longest occurrence of a cause is not always known. A time limit can then be shown to be
    /// exceeded, but not to be kept.
    pub has_unknown_lengths: bool,
    /// The method of observation in a few words.
    pub source: String,
    /// Boot parameters and settings of the kernel.
    pub settings: KernelSettings,
}

/// Boot parameters and settings of a kernel that determine OS noise. Empty and unknown if there is no Linux kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// CPUs on which the tick stops while a single thread runs.
    pub nohz_full: CpuSet,
    /// CPUs whose RCU callbacks run elsewhere.
    pub rcu_nocbs: CpuSet,
    /// CPUs without load balancing since boot.
    pub isolated: CpuSet,
    /// The CPUs of isolated partitions, where none is balanced either; `None` where the kernel has no partitions.
    pub isolated_partitions: Option<CpuSet>,
    /// Whether the watchdog by hardware counters is on.
    pub nmi_watchdog: Option<bool>,
    /// Whether any lockup watchdog is on.
    pub watchdog: Option<bool>,
    /// The interval at which per-CPU statistics are merged, in seconds.
    pub stat_interval_s: Option<u64>,
}

/// The number of interrupts by one cause on each CPU since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptCount {
    /// The label of its row: a number for a device, letters for interrupts of the kernel.
    pub label: String,
    /// The cause as the kernel names it: `Local timer interrupts`, or a device (`virtio0-input.0`).
    pub name: String,
    /// Whether the kernel itself causes it, and not a device with an adjustable affinity.
    pub is_internal: bool,
    /// The counts, by CPU.
    pub counts: BTreeMap<CpuId, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_word() {
        let words: std::collections::BTreeSet<_> =
            DisturbanceKind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), DisturbanceKind::ALL.len());
        for kind in DisturbanceKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.word()));
        }
    }
}
