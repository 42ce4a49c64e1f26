//! hackbench: groups of tasks that pass small messages, for the cost of wake-ups and switches.
//!
//! # Theory
//!
//! A group has as many senders as receivers, and one channel (a pipe or a pair of unix sockets) per receiver. Every sender writes its
//! messages to every channel of its group in turn; a receiver reads until it has had all that is meant for it. Groups know
//! nothing of each other. Tasks are processes, or threads of this process.
//!
//! ```text
//! sender 1 ─┬─▶ channel 1 ─▶ receiver 1       ready:  every task writes one byte, the main task reads as many as there are tasks
//! sender 2 ─┤╲                                wake:   the main task writes one byte that is never read, so that all see it
//!           ╲ ╲▶ channel 2 ─▶ receiver 2      time:   from the wake to the end of the last task
//! ```
//!
//! A task that fails must not leave the others waiting. Each process closes the ends it does not use, so the death of one
//! is an end of file or a broken pipe for the others; and the main task kills and reaps all that are left when it returns, for whatever
//! reason. Processes die with the main task. Threads share their descriptors, so there the channels themselves are taken away.
//!
//! A task of this benchmark does as little as can be beside its reads and writes. A forked child
//! neither allocates nor locks, since other threads of the process may have held any lock at the time.

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
/// The soft limit of open files is raised for the time of the run when that helps.
///
/// # Errors
///
/// [`Error::TooManyTasks`], [`Error::Descriptors`] (says how many are needed), [`Error::OpenChannel`], [`Error::StartTask`],
/// [`Error::SetFifo`], [`Error::WaitForTasks`], and [`Error::TaskFailed`] for the first task that did not come to its end. In every case all
/// tasks are gone.
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
