//! Parameters, events and results of hackbench.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The parameters. [`HackbenchSpec::default`] is 10 groups of 20 senders and 20 receivers, processes over unix sockets, 100 messages of 100 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HackbenchSpec {
    /// Number of groups.
    pub groups: NonZeroU32,
    /// Senders per group, and receivers per group.
    pub pairs: NonZeroU32,
    /// Messages from each sender to each receiver of its group.
    pub loops: NonZeroU32,
    /// Length of a message.
    pub message_bytes: NonZeroU32,
    /// The kind of tasks.
    pub mode: TaskMode,
    /// The kind of channels.
    pub transport: Transport,
    /// When all tasks exist, give the main task the first real-time priority until the end, so that it stays in control.
    pub fifo: bool,
}

/// The kind of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskMode {
    /// Forked processes.
    Process,
    /// Threads of the calling process.
    Thread,
}

/// The kind of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A pipe per receiver.
    Pipe,
    /// A pair of unix stream sockets per receiver.
    Socket,
}

/// The role of a task in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Writes to every channel of the group.
    Sender,
    /// Reads one channel.
    Receiver,
}

/// A task: its role, its group and its number in the group, both from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// Sender or receiver.
    pub role: Role,
    /// Its group.
    pub group: u32,
    /// Its number among the group's senders or receivers.
    pub index: u32,
}

/// An event during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum HackbenchEvent<'a> {
    /// All tasks exist and wait for the start.
    Ready {
        /// The number of tasks.
        tasks: u32,
        /// Their process ids; empty in thread mode.
        pids: &'a [u32],
    },
    /// They have been woken and the measured time begins.
    Started,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HackbenchResult {
    /// The number of tasks.
    pub tasks: u32,
    /// Received messages, counted by the receivers that finished.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the wake to the end of the last task.
    pub seconds: f64,
    /// Whether the stop flag ended it; then the figures cover the time until the stop.
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
    /// Number of tasks: two for each pair of each group.
    pub fn tasks(&self) -> u64 {
        2 * u64::from(self.groups.get()) * u64::from(self.pairs.get())
    }

    /// Number of messages of a complete run: pairs^2 x loops per group. Saturates.
    pub fn messages(&self) -> u64 {
        let pairs = u64::from(self.pairs.get());
        [pairs, pairs, u64::from(self.loops.get())]
            .into_iter()
            .fold(u64::from(self.groups.get()), u64::saturating_mul)
    }

    /// Descriptors that the main task must have open at once: for processes those of one group at a time, for threads those of all
    /// groups. This includes the four of the ready and wake pipes.
    pub fn descriptors(&self) -> u64 {
        let groups = if self.mode == TaskMode::Thread { u64::from(self.groups.get()) } else { 1 };
        2 * groups * u64::from(self.pairs.get()) + 4
    }

    /// The number of tasks, if the kernel has enough pids.
    pub(super) fn tasks_checked(&self) -> Result<u32, Error> {
        // The kernel's process ids end at 2^22.
        const TASKS_MAX: u64 = 1 << 22;
        let tasks = self.tasks();
        u32::try_from(tasks)
            .ok()
            .filter(|_| tasks <= TASKS_MAX)
            .ok_or(Error::TooManyTasks { tasks, most: TASKS_MAX })
    }
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

/// The text is not one of the valid words.
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
