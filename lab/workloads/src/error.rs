//! Errors of loads, by the failed operation.

use crate::hackbench::Task;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A load could not run, or not to its end. Causes are chained as sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading the affinity of the calling thread failed.
    #[error("cannot read the allowed CPUs")]
    ReadAllowedCpus {
        /// The kernel's error.
        source: io::Error,
    },
    /// Starting a thread of a load failed.
    #[error("cannot start thread {index} of {of}")]
    StartThread {
        /// Its index, from 0.
        index: u32,
        /// The number of threads to start.
        of: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// Binding a thread of a probe failed.
    #[error("cannot bind a thread to CPU {cpu}")]
    Bind {
        /// The CPU.
        cpu: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// An operation that a probe times failed.
    #[error("cannot measure the machine")]
    Probe {
        /// The kernel's error.
        source: io::Error,
    },
    /// More tasks than the kernel has pids.
    #[error("cannot start {tasks} tasks: {most} is the most")]
    TooManyTasks {
        /// The requested number.
        tasks: u64,
        /// The maximum.
        most: u64,
    },
    /// The limit of open files is too low.
    #[error("cannot open {needed} file descriptors: {}", descriptor_limit(*limit))]
    Descriptors {
        /// Descriptors that the load needs in addition to the open ones.
        needed: u64,
        /// The hard limit, if there is one.
        limit: Option<u64>,
    },
    /// Opening a pipe or a pair of sockets failed.
    #[error("cannot open channel {number} of {of}")]
    OpenChannel {
        /// Its number, from 1; 0 for the pipes that tasks wait on.
        number: u64,
        /// The number of channels to open.
        of: u64,
        /// The kernel's error.
        source: io::Error,
    },
    /// Mapping memory that forked tasks share failed.
    #[error("cannot share a counter with the tasks")]
    ShareCounter {
        /// The kernel's error.
        source: io::Error,
    },
    /// Starting a task of hackbench failed.
    #[error("cannot start {task} ({of} tasks in all)")]
    StartTask {
        /// The task.
        task: Task,
        /// The number of tasks to start.
        of: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// Setting the main task's real-time class failed.
    #[error("cannot take the first FIFO priority")]
    SetFifo {
        /// The kernel's error.
        source: io::Error,
    },
    /// Waiting for tasks failed.
    #[error("cannot wait for the tasks")]
    WaitForTasks {
        /// The kernel's error.
        source: io::Error,
    },
    /// A task failed.
    #[error("cannot finish {task}: {reason}")]
    TaskFailed {
        /// The task.
        task: Task,
        /// The reason.
        reason: String,
    },
    /// A parameter of a stream is invalid.
    #[error("cannot stream {what}: {reason}")]
    BadStream {
        /// The parameter.
        what: String,
        /// Its valid range.
        reason: &'static str,
    },
    /// A stream's server could not listen.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// A listening server failed.
    #[error("cannot accept connections at {address}")]
    Accept {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// A stream's client could not connect.
    #[error("cannot connect to {address}")]
    Connect {
        /// The server's address.
        address: SocketAddr,
        /// The kernel's error, or a description of the server's behaviour.
        source: io::Error,
    },
    /// A connection failed.
    #[error("cannot {verb} the stream")]
    Stream {
        /// The operation: begin, send or receive.
        verb: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The other end of a stream failed.
    #[error("cannot finish the stream: the other end is lost, {reason}")]
    PeerLost {
        /// A description of its behaviour.
        reason: &'static str,
    },
    /// Setting up network namespaces failed.
    #[error("cannot {step}")]
    Namespace {
        /// The refused step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of a build could not be used.
    #[error("cannot use {}", path.display())]
    BuildFile {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Finding a stack, or its resident pages, failed.
    #[error("cannot look at a stack")]
    LookAtStack {
        /// The kernel's error.
        source: io::Error,
    },
    /// Mapping memory for a stack failed.
    #[error("cannot map a stack of {bytes} bytes")]
    MapStack {
        /// The size.
        bytes: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// A compiler, or the shell that replaces it, could not be started.
    #[error("cannot start {name}")]
    StartCompiler {
        /// Its name.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A compiler failed.
    #[error("cannot compile with {name}: {status}")]
    CompilerFailed {
        /// Its name.
        name: String,
        /// Its exit status.
        status: String,
    },
}

/// The limit of open files as text.
fn descriptor_limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "too many files are open".to_owned(), |limit| format!("the limit is {limit}"))
}

impl Error {
    /// A remedy for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::StartThread { .. } => {
                Some("ask for fewer threads, or raise the limit with ulimit -u".to_owned())
            }
            Self::StartTask { .. } => {
                Some("ask for fewer groups, or raise the limit with ulimit -u".to_owned())
            }
            // The process already has some open; the reserve is for them.
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
