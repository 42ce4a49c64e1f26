//! How far a simulated machine came when it ran, and words that start nothing on it.

use crate::{Lwp, Pid};

/// A thread that waits for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckThread {
    /// The thread.
    pub lwp: Lwp,
    /// The name of its process.
    pub name: String,
    /// What it waits at: `channel 3`, `barrier 3 (2 of 4 are there)`.
    pub at: String,
    /// Whether it waits at a barrier for other threads, and not for one that wakes it.
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

/// How far a machine came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing runs any more.
    Idle,
    /// The time is over.
    Due,
    /// Only these are left, and they wait for ever.
    Deadlock(Vec<StuckThread>),
    /// These never end.
    Endless(Vec<EndlessProcess>),
    /// It died, for this reason.
    Halted(String),
}

/// Words that make no workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct WorkloadError {
    /// Which word is wrong, from 0; one more than there are where one is missing.
    pub word: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub remedy: String,
}
