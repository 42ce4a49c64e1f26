//! hackbench: groups of tasks that pass small messages. It measures the cost of wake-ups and switches.
//!
//! # Theory
//!
//! A group has as many senders as receivers, and one channel (a pipe or a pair of unix sockets) per receiver. Every sender writes its
//! messages to every channel of its group in turn; a receiver reads until it has all its messages. Groups are independent of
//! each other. Tasks are processes, or threads of this process.
//!
//! ```text
//! sender 1 ─┬─▶ channel 1 ─▶ receiver 1       ready:  every task writes one byte, the main task reads as many as there are tasks
//! sender 2 ─┤╲                                wake:   the main task writes one byte that is never read, so that all see it
//!           ╲ ╲▶ channel 2 ─▶ receiver 2      time:   from the wake to the end of the last task
//! ```
//!
//! A failing task must not leave the others waiting. Each process closes the ends that it does not use, so the others see the death of one
//! as an end of file or a broken pipe. When the main task returns, for any reason, it kills and reaps all remaining processes.
//! Processes die with the main task. Threads share their descriptors, so for threads the channels themselves are taken away.
//!
//! A task does as little as possible besides its reads and writes. A forked child neither allocates nor locks, because
//! other threads of the process may have held any lock during the fork.

mod channel;
mod fifo;
mod limit;
mod processes;
mod report;
mod spec;
mod task;
mod threads;

pub use spec::{
    HackbenchEvent, HackbenchResult, HackbenchSpec, Role, Task, TaskMode, Transport, UnknownWord,
};

use crate::Error;
use std::sync::atomic::AtomicBool;

/// Runs the benchmark. The calling thread is the main task.
///
/// The soft limit of open files is raised during the run if that helps.
///
/// # Errors
///
/// [`Error::TooManyTasks`], [`Error::Descriptors`] (with the required number), [`Error::OpenChannel`], [`Error::StartTask`],
/// [`Error::SetFifo`], [`Error::WaitForTasks`], and [`Error::TaskFailed`] for the first task that failed. In every case all
/// tasks have ended.
pub fn run(
    spec: &HackbenchSpec,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(HackbenchEvent<'_>),
) -> Result<HackbenchResult, Error> {
    let tasks = spec.tasks_checked()?;
    let _raised = limit::RaisedLimit::for_descriptors(spec.descriptors())?;
    match spec.mode {
        TaskMode::Process => processes::run(spec, tasks, stop, on_event),
        TaskMode::Thread => threads::run(spec, tasks, stop, on_event),
    }
}
