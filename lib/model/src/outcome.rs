//! How far a run of a simulated machine came, and errors in the words of a workload.

use crate::{Lwp, Pid};

/// A thread that waits forever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckThread {
    /// The thread.
    pub lwp: Lwp,
    /// The name of its process.
    pub name: String,
    /// The object that it waits at: `channel 3`, `barrier 3 (2 of 4 are there)`.
    pub at: String,
    /// Whether it waits at a barrier for other threads, instead of for a wake-up.
    pub at_barrier: bool,
}

/// A process that never ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndlessProcess {
    /// Its number.
    pub pid: Pid,
    /// Its name.
    pub name: String,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No process is left.
    Idle,
    /// The requested time is reached.
    Due,
    /// Only these threads are left, and they wait forever.
    Deadlock(Vec<StuckThread>),
    /// These processes never end.
    Endless(Vec<EndlessProcess>),
    /// The machine halted, for this reason.
    Halted(String),
}

/// Invalid words for a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct WorkloadError {
    /// The index of the invalid word; the number of words if one is missing.
    pub word: usize,
    /// The error.
    pub what: String,
    /// A remedy.
    pub remedy: String,
}
