//! What can go wrong with a load, by the operation that failed.

use crate::hackbench::Task;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A load could not run, or not to its end. Causes are chained as sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The affinity of the calling thread.
    #[error("cannot read the allowed CPUs")]
    ReadAllowedCpus {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A thread of a load.
    #[error("cannot start thread {index} of {of}")]
    StartThread {
        /// Which one, counted from 0.
        index: u32,
        /// How many there were to be.
        of: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The affinity of a thread of a probe.
    #[error("cannot bind a thread to CPU {cpu}")]
    Bind {
        /// The CPU.
        cpu: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// What a probe times could not be done.
    #[error("cannot measure the machine")]
    Probe {
        /// The kernel's answer.
        source: io::Error,
    },
    /// More tasks than the kernel has numbers for.
    #[error("cannot start {tasks} tasks: {most} is the most")]
    TooManyTasks {
        /// How many were asked for.
        tasks: u64,
        /// How many there can be.
        most: u64,
    },
    /// The limit of open files.
    #[error("cannot open {needed} file descriptors: {}", descriptor_limit(*limit))]
    Descriptors {
        /// How many the load needs, beside those that are open already.
        needed: u64,
        /// The hard limit, if there is one.
        limit: Option<u64>,
    },
    /// A pipe or pair of sockets.
    #[error("cannot open channel {number} of {of}")]
    OpenChannel {
        /// Which one, counted from 1; 0 for the pipes that tasks wait on.
        number: u64,
        /// How many there were to be.
        of: u64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Memory that forked tasks share.
    #[error("cannot share a counter with the tasks")]
    ShareCounter {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A task of hackbench.
    #[error("cannot start {task} ({of} tasks in all)")]
    StartTask {
        /// Which one.
        task: Task,
        /// How many there were to be.
        of: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The real-time class of the main task.
    #[error("cannot take the first FIFO priority")]
    SetFifo {
        /// The kernel's answer.
        source: io::Error,
    },
    /// Waiting for tasks to be ready or to end.
    #[error("cannot wait for the tasks")]
    WaitForTasks {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A task did not come to its end.
    #[error("cannot finish {task}: {reason}")]
    TaskFailed {
        /// Which one.
        task: Task,
        /// What became of it.
        reason: String,
    },
    /// A stream's parameter.
    #[error("cannot stream {what}: {reason}")]
    BadStream {
        /// The parameter.
        what: String,
        /// What it may be.
        reason: &'static str,
    },
    /// A stream's server.
    #[error("cannot listen at {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A listening server.
    #[error("cannot accept connections at {address}")]
    Accept {
        /// Where.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A stream's client.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// The kernel's answer, or what the server did.
        source: io::Error,
    },
    /// A connection that failed.
    #[error("cannot {verb} the stream")]
    Stream {
        /// Begin, send or receive.
        verb: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The other end of a stream.
    #[error("cannot finish the stream: the other end is lost, {reason}")]
    PeerLost {
        /// What it did or did not do.
        reason: &'static str,
    },
    /// Network namespaces for a stream.
    #[error("cannot {step}")]
    Namespace {
        /// What the kernel refused.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file of a build.
    #[error("cannot use {}", path.display())]
    BuildFile {
        /// Which.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Where a stack is, or what of it is in memory.
    #[error("cannot look at a stack")]
    LookAtStack {
        /// The kernel's answer.
        source: io::Error,
    },
    /// Memory for a stack.
    #[error("cannot map a stack of {bytes} bytes")]
    MapStack {
        /// How much.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A compiler, or what stands for it.
    #[error("cannot start {name}")]
    StartCompiler {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The same, when it did not compile.
    #[error("cannot compile with {name}: {status}")]
    CompilerFailed {
        /// Its name.
        name: String,
        /// How it ended.
        status: String,
    },
}

/// What the limit of open files amounts to.
fn descriptor_limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "too many files are open".to_owned(), |limit| format!("the limit is {limit}"))
}

impl Error {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::StartThread { .. } => {
                Some("ask for fewer threads, or raise the limit with ulimit -u".to_owned())
            }
            Self::StartTask { .. } => {
                Some("ask for fewer groups, or raise the limit with ulimit -u".to_owned())
            }
            // The process has some open already, and the reserve of the run is for them.
            Self::Descriptors { needed, .. } => {
                Some(format!("raise the limit with ulimit -n {}", needed + 64))
            }
            Self::BuildFile { .. } => Some("name a directory that can be written to in TMPDIR".to_owned()),
            Self::StartCompiler { .. } => Some("name another compiler: --compiler".to_owned()),
            Self::SetFifo { .. } => Some("run as root, or with CAP_SYS_NICE".to_owned()),
            Self::Namespace { source, .. } => match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    Some("run as root, or stream over the loopback".to_owned())
                }
                Some(libc::EOPNOTSUPP) => Some("load the veth driver with modprobe veth".to_owned()),
                _ => None,
            },
            _ => None,
        }
    }
}
