//! Programs that are started as children of this process, bound before their first instruction.

use millpond_model::{CpuSet, Nanos, Pid, PsetId};
use std::ffi::OsString;

/// A program to start, and its placement.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Its name or path, and its arguments. On a simulated machine a workload and its options.
    pub words: &'a [OsString],
    /// Its placement and mode.
    pub mode: LaunchMode,
}

/// Placement and mode of a program; inherited by its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchMode {
    /// Bound to a set, with the terminal and the process group of the caller. It gets SIGTERM when the value is dropped.
    Foreground(PsetId),
    /// Bound to a set, in its own process group; its output is captured. It is killed when the value is dropped, or when the caller is killed.
    Captured(PsetId),
    /// On these CPUs, in the lowest class (`SCHED_IDLE`) and in a session with the lowest weight: it gets only CPU time that no other thread uses.
    /// Its output is discarded. It is killed when the value is dropped, and gets SIGTERM when the caller is killed.
    Background(CpuSet),
}

/// A started program.
pub trait Program {
    /// The process.
    fn pid(&self) -> Pid;

    /// Notes for the user about its binding.
    fn notes(&self) -> &[String];

    /// Whether it has ended by itself.
    fn has_ended(&self) -> bool;

    /// Asks it to end.
    fn terminate(&self);

    /// Its exit. A running program is killed first, and in any case the rest of its process group.
    fn exit(&mut self) -> ProgramExit;

    /// The CPU time of its process group, including terminated children that were waited for.
    fn cpu_time(&self) -> Nanos;
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramExit {
    /// Its exit status; 128 + N after signal N.
    pub status: u8,
    /// Its standard output, if captured.
    pub output: String,
    /// The reason of a failure: the last line of its captured messages, or the status as text. `None` for status 0.
    pub failure: Option<String>,
}
