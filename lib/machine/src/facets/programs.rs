//! Programs that are started as children of this process, bound before their first instruction.

use millpond_model::{CpuSet, Nanos, Pid, PsetId};
use std::ffi::OsString;

/// A program, and where it runs.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Its name, or the path of its file, and its arguments. On a simulated machine a workload and its options.
    pub words: &'a [OsString],
    /// Where and how.
    pub mode: LaunchMode,
}

/// Where and how a program runs. What it starts inherits that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchMode {
    /// Bound to a set, with our terminal and in our process group. It is asked to end when the value is dropped.
    Foreground(PsetId),
    /// Bound to a set, in a process group of its own, its output kept. It is killed when the value is dropped, or we are killed.
    Captured(PsetId),
    /// On these CPUs, in the class below all others (`SCHED_IDLE`) and in a session of the least weight: it gets the CPU time that no other thread wants.
    /// Its output is lost. It is killed when the value is dropped, and asked to end when we are killed.
    Background(CpuSet),
}

/// A program that was started.
pub trait Program {
    /// The process.
    fn pid(&self) -> Pid;

    /// What the user should know of its binding.
    fn notes(&self) -> &[String];

    /// Whether it has ended by itself.
    fn has_ended(&self) -> bool;

    /// Asks it to end.
    fn terminate(&self);

    /// How it ended. One that runs is killed first, and what is left of its process group in any case.
    fn exit(&mut self) -> ProgramExit;

    /// The CPU time of its process group, terminated children that were waited for included.
    fn cpu_time(&self) -> Nanos;
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramExit {
    /// Its status; 128 + N where signal N ended it.
    pub status: u8,
    /// Its standard output, where that was kept.
    pub output: String,
    /// Why it failed: the last line of its messages, where these were kept, or the status in words. `None` for status 0.
    pub failure: Option<String>,
}
