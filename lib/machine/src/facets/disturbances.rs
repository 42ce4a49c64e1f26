//! OS noise on a set of CPUs: what `quiet` and `intrstat` show.

use crate::{Absent, Refusal};
use millpond_model::{CpuSet, Disturbed, Nanos, Pid, PsetId, RealTimeSetting};

/// The threads that the CPUs are for. Everything else that runs there is OS noise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Every thread that is bound to one of these sets, now or later.
    pub sets: Vec<PsetId>,
    /// These processes, and what descends from them.
    pub pids: Vec<Pid>,
}

/// What to watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedJob {
    /// Where.
    pub cpus: CpuSet,
    /// The threads that belong there.
    pub job: Job,
    /// Stretches without the job are told one by one from this length on.
    pub worth_telling: Nanos,
    /// Only by what the machine counts anyway: nothing is started to watch it.
    pub by_counts: bool,
}

/// The facet.
pub trait Disturbances {
    /// Begins to watch.
    ///
    /// # Errors
    /// [`Absent`] when nothing goes on here, or it cannot be watched.
    fn watch(&self, what: &WatchedJob) -> Result<Box<dyn DisturbanceWatch + '_>, Absent>;

    /// The settings of the kernel that decide how late a real-time thread may run.
    ///
    /// # Errors
    /// [`Absent`] where no such kernel is.
    fn real_time_settings(&self) -> Result<Vec<RealTimeSetting>, Absent>;
}

/// Watching that goes on for as long as the value lives.
pub trait DisturbanceWatch {
    /// From now on this process, and what descends from it, belongs to the job, too.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn join(&mut self, pid: Pid) -> Result<(), Refusal>;

    /// What was seen since the watch began. Counts and totals only grow from one time to the next.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn collect(&mut self) -> Result<Disturbed, Refusal>;
}
