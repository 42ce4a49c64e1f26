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
//! sender 2 ─┤╲                                wake:   the main task writes one byte that nobody takes, so that all see it
//!           ╲ ╲▶ channel 2 ─▶ receiver 2      time:   from the wake to the end of the last task
//! ```
//!
//! A task that fails must not leave the others waiting. Each process closes the ends it does not use, so the death of one
//! is an end of file or a broken pipe for the others; and the main task kills and reaps whoever is left when it returns, for whatever
//! reason. Processes die with the main task. Threads share their descriptors, so there the channels themselves are taken away.
//!
//! A task of this benchmark does as little as can be beside its reads and writes. A forked child
//! neither allocates nor locks, since other threads of the process may have held any lock at the time.

mod channel;
mod limit;
mod processes;
mod report;
mod task;
mod threads;

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

/// What to run. [`HackbenchSpec::default`] is 10 groups of 20 senders and 20 receivers, processes over unix sockets, 100 messages of 100 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HackbenchSpec {
    /// How many groups.
    pub groups: NonZeroU32,
    /// Senders per group, and receivers per group.
    pub pairs: NonZeroU32,
    /// Messages from each sender to each receiver of its group.
    pub loops: NonZeroU32,
    /// Length of a message.
    pub message_bytes: NonZeroU32,
    /// What a task is.
    pub mode: TaskMode,
    /// What a channel is.
    pub transport: Transport,
    /// When all tasks exist, take the first real-time priority for the main task until the end, so as to stay in control.
    pub fifo: bool,
}

/// What tasks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskMode {
    /// Forked processes.
    Process,
    /// Threads of the calling process.
    Thread,
}

/// What messages pass through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A pipe per receiver.
    Pipe,
    /// A pair of unix stream sockets per receiver.
    Socket,
}

/// What a task does in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Writes to every channel of the group.
    Sender,
    /// Reads one channel.
    Receiver,
}

/// A task: its role, its group and its number there, both counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// Sender or receiver.
    pub role: Role,
    /// Its group.
    pub group: u32,
    /// Which of the group's senders or receivers.
    pub index: u32,
}

/// What happens while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HackbenchEvent<'a> {
    /// All tasks exist and wait to be woken.
    Ready {
        /// How many.
        tasks: u32,
        /// Their process ids; none in thread mode.
        pids: &'a [u32],
    },
    /// They have been woken and the clock runs.
    Started,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HackbenchResult {
    /// How many tasks ran.
    pub tasks: u32,
    /// Messages that were received, counted by the receivers that came to their end.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the wake to the end of the last task.
    pub seconds: f64,
    /// The stop flag ended it: the figures are of what was done until then.
    pub stopped: bool,
}

impl Default for HackbenchSpec {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        Self {
            groups: number(10),
            pairs: number(20),
            loops: number(100),
            message_bytes: number(100),
            mode: TaskMode::Process,
            transport: Transport::Socket,
            fifo: false,
        }
    }
}

impl HackbenchSpec {
    /// All tasks: two for each pair of each group.
    pub fn tasks(&self) -> u64 {
        2 * u64::from(self.groups.get()) * u64::from(self.pairs.get())
    }

    /// All messages, when it runs to its end: pairs^2 x loops per group. Saturates.
    pub fn messages(&self) -> u64 {
        let pairs = u64::from(self.pairs.get());
        [pairs, pairs, u64::from(self.loops.get())]
            .into_iter()
            .fold(u64::from(self.groups.get()), u64::saturating_mul)
    }

    /// Descriptors that the main task must have open at once: processes take theirs with them group by group, threads share all.
    /// The four of the ready and wake pipes are among them.
    pub fn descriptors(&self) -> u64 {
        let groups = if self.mode == TaskMode::Thread { u64::from(self.groups.get()) } else { 1 };
        2 * groups * u64::from(self.pairs.get()) + 4
    }

    /// The number of tasks as the kernel can have them.
    fn tasks_checked(&self) -> Result<u32, Error> {
        // The kernel's process ids end at 2^22.
        const TASKS_MAX: u64 = 1 << 22;
        let tasks = self.tasks();
        u32::try_from(tasks)
            .ok()
            .filter(|_| tasks <= TASKS_MAX)
            .ok_or(Error::TooManyTasks { tasks, most: TASKS_MAX })
    }
}

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

/// The first FIFO priority for the calling thread, as long as it lives.
struct FifoGuard {
    former: (i32, libc::sched_param),
}

impl FifoGuard {
    fn take() -> Result<Self, Error> {
        // SAFETY: both calls take a thread id, 0 for the calling thread, and `former` is a valid place to write to.
        let former = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(0);
            if policy < 0 || libc::sched_getparam(0, &raw mut param) < 0 {
                return Err(Error::SetFifo { source: io::Error::last_os_error() });
            }
            (policy, param)
        };
        set_scheduler(libc::SCHED_FIFO, libc::sched_param { sched_priority: 1 })?;
        Ok(Self { former })
    }
}

impl Drop for FifoGuard {
    fn drop(&mut self) {
        // Going back to what it was needs no right; should it fail, there is nobody to tell from here.
        let _ = set_scheduler(self.former.0, self.former.1);
    }
}

fn set_scheduler(policy: i32, param: libc::sched_param) -> Result<(), Error> {
    // SAFETY: 0 is the calling thread and `param` lives through the call.
    let outcome = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if outcome < 0 { Err(Error::SetFifo { source: io::Error::last_os_error() }) } else { Ok(()) }
}

impl fmt::Display for TaskMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(if *self == Self::Process { "process" } else { "thread" })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(if *self == Self::Pipe { "pipe" } else { "socket" })
    }
}

/// The text was none of the words that the value can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {what} {text}: it is none of {words}")]
pub struct UnknownWord {
    what: &'static str,
    text: String,
    words: &'static str,
}

impl FromStr for TaskMode {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "process" => Ok(Self::Process),
            "thread" => Ok(Self::Thread),
            _ => Err(UnknownWord { what: "task mode", text: text.to_owned(), words: "process, thread" }),
        }
    }
}

impl FromStr for Transport {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "pipe" => Ok(Self::Pipe),
            "socket" => Ok(Self::Socket),
            _ => Err(UnknownWord { what: "transport", text: text.to_owned(), words: "pipe, socket" }),
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.role == Role::Sender { "sender" } else { "receiver" };
        write!(out, "{role} {} of group {}", self.index, self.group)
    }
}
