//! OS noise on a set of CPUs, as plain data: its kinds, its sources, how often and how long.

use crate::{CpuId, CpuSet, Nanos, Pid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

crate::words! {
    /// What sort of disturbance.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum DisturbanceKind {
        /// The interrupt of a device.
        Device = "device",
        /// Another CPU wants something done.
        Ipi = "ipi",
        /// The CPU's own clock.
        Tick = "tick",
        /// What interrupts left to be done later.
        Softirq = "softirq",
        /// A timer that a program set.
        Timer = "timer",
        /// Work of the kernel, by the function that does it.
        Worker = "worker",
        /// A thread of the kernel.
        Kthread = "kthread",
        /// A thread that is not the job's.
        Task = "task",
        /// A page of the job that was not there.
        Fault = "fault",
        /// Time that the hypervisor took.
        Steal = "steal",
        /// What hardware does that no setting can hold off.
        Hardware = "hardware",
    }
}

/// The source of the noise.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Doer {
    /// Neither of these.
    #[default]
    Others,
    /// The job's own.
    Job,
    /// The program that measures.
    Watcher,
}

/// What it was that disturbed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Cause {
    /// What sort.
    pub kind: DisturbanceKind,
    /// Which of its sort: a device, a function, a thread.
    pub name: String,
    /// The thread that sent it, or that it is for, where that is known and is not the name itself.
    pub by: Option<String>,
    /// The source.
    pub doer: Doer,
}

/// One cause on one CPU. What cannot be told is `None`, never 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// Where.
    pub cpu: CpuId,
    /// What.
    pub cause: Cause,
    /// A process behind it, where there is one.
    pub pid: Option<Pid>,
    /// How often.
    pub count: Option<u64>,
    /// How long in all: its own time, without what interrupted it, so that no moment is in two totals.
    pub total: Option<Nanos>,
    /// The longest single one.
    pub longest: Option<Nanos>,
    /// When that began, on the machine's clock.
    pub longest_at: Option<Nanos>,
}

/// Time in which a CPU neither ran the job nor was idle, in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Where.
    pub cpu: CpuId,
    /// When it began, on the machine's clock.
    pub at: Nanos,
    /// How long it was.
    pub length: Nanos,
    /// Its longest part.
    pub cause: Cause,
}

/// What was seen from the beginning of a watch until now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// When the watch began, on the machine's clock.
    pub began: Nanos,
    /// When this was read.
    pub at: Nanos,
    /// The CPUs that are watched.
    pub cpus: CpuSet,
    /// One for each cause and CPU.
    pub rows: Vec<Disturbance>,
    /// The stretches that were worth telling and ended since this was read last.
    pub stretches: Vec<Stretch>,
    /// The stretches that go on at this moment, with what they have been until now.
    pub going_on: Vec<Stretch>,
    /// What was seen and could not be kept, each as a sentence with its number.
    pub lost: Vec<String>,
    /// What cannot be seen here, each with the reason.
    pub missing: Vec<String>,
    /// No stretch is told, and of a cause not always the longest: a limit on time can be broken, and not kept.
    pub has_unknown_lengths: bool,
    /// How it is seen: in a few words.
    pub source: String,
    /// What the kernel was started with and is set to.
    pub settings: KernelSettings,
}

/// What a kernel was started with and is set to that decides what disturbs a CPU. Empty and unknown where there is no such kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// Where the tick stops while one thread runs alone.
    pub nohz_full: CpuSet,
    /// CPUs with RCU callbacks that run elsewhere.
    pub rcu_nocbs: CpuSet,
    /// Where no load is balanced, since boot.
    pub isolated: CpuSet,
    /// The CPUs of isolated partitions, where none is balanced either; `None` where the kernel has no partitions.
    pub isolated_partitions: Option<CpuSet>,
    /// Whether the watchdog by hardware counters is on.
    pub nmi_watchdog: Option<bool>,
    /// Whether any watchdog is on.
    pub watchdog: Option<bool>,
    /// How often each CPU's statistics are brought together, in seconds.
    pub stat_interval_s: Option<u64>,
}

/// How often one cause interrupted each CPU since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptCount {
    /// The label of its row: a number for a device, letters for the kernel's own.
    pub label: String,
    /// The cause, in the kernel's words: `Local timer interrupts`, or a device (`virtio0-input.0`).
    pub name: String,
    /// Whether the kernel itself causes it, and not a device that could be steered.
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
