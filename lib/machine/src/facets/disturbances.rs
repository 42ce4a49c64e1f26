//! OS noise on a set of CPUs: the data of `quiet` and `intrstat`.

use crate::{Absent, Refusal};
use millpond_model::{CpuSet, Disturbed, Nanos, Pid, PsetId, RealTimeSetting};

/// The threads that the CPUs are for. All other activity on these CPUs is OS noise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Every thread that is bound to one of these sets, now or later.
    pub sets: Vec<PsetId>,
    /// These processes and their descendants.
    pub pids: Vec<Pid>,
}

/// The object of a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedJob {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The threads that belong on them.
    pub job: Job,
    /// Stretches without the job are reported one by one from this length on.
    pub worth_telling: Nanos,
    /// Use only counts that the machine keeps anyway; start no tracing.
    pub by_counts: bool,
}

/// The facet.
pub trait Disturbances {
    /// Starts a watch.
    ///
    /// # Errors
    /// [`Absent`] if nothing runs on this machine, or it cannot be watched.
    fn watch(&self, what: &WatchedJob) -> Result<Box<dyn DisturbanceWatch + '_>, Absent>;

    /// The kernel settings that determine the latency of real-time threads.
    ///
    /// # Errors
    /// [`Absent`] without a Linux kernel.
    fn real_time_settings(&self) -> Result<Vec<RealTimeSetting>, Absent>;
}

/// A watch for the lifetime of the value.
pub trait DisturbanceWatch {
    /// Adds a process and its descendants to the job.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn join(&mut self, pid: Pid) -> Result<(), Refusal>;

    /// The observations since the watch began. Counts and totals never decrease.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn collect(&mut self) -> Result<Disturbed, Refusal>;
}
