//! Hardware event counters for a CPU or a thread: the data of `cpustat` and `cputrack`.
//!
//! A *set* has one event for each counter, counted at the same time. Of several sets one counts at a time.
//! Readings are cumulated since their set was started; the caller computes differences.

use crate::{Absent, Refusal};
use millpond_model::{Counted, CpuId, Lwp, Nanos, Pid};
use std::ffi::OsString;

/// An event on a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The number of the counter, as users count them.
    pub counter: u32,
    /// The name of the event, which [`HardwareCounters::capable`] accepts.
    pub event: String,
    /// Whether it counts in user mode. Software events of the kernel count in any mode.
    pub user: bool,
    /// Whether it counts in kernel mode.
    pub sys: bool,
}

/// The kind of events in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Names with the same meaning on every machine.
    Generic,
    /// Names specific to this machine.
    Platform,
    /// Software events of the kernel.
    Software,
}

/// Events that the same counters can measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventList {
    /// Their kind.
    pub kind: EventKind,
    /// The counters, as a bitmask.
    pub counters: u32,
    /// The names.
    pub names: Vec<String>,
}

/// The counters and events of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The name of the hardware counters.
    pub name: String,
    /// All named events.
    pub events: Vec<EventList>,
    /// Names of attributes.
    pub attributes: Vec<String>,
    /// A reference to further documentation, as a sentence.
    pub reference: String,
    /// The name of the CPU register that counts cycles or time, if any.
    pub cpu_tick: Option<String>,
    /// The name of the corresponding count for a thread.
    pub lwp_tick: Option<String>,
}

/// A CPU's counters at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuReading {
    /// The CPU.
    pub cpu: CpuId,
    /// The time on the machine's monotonic clock.
    pub at: Nanos,
    /// The cycle register.
    pub tick: u64,
    /// The counters, or as half a sentence why they can no longer be read. Lost counters of a CPU stay lost.
    pub counted: Result<Counted, String>,
}

/// A thread's counters at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LwpReading {
    /// The thread.
    pub lwp: Lwp,
    /// Cycles, or time, that the thread ran.
    pub tick: u64,
    /// The counters.
    pub counted: Counted,
}

/// Events to follow beyond the threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Follow {
    /// Child processes.
    pub forks: bool,
    /// The program after an exec.
    pub execs: bool,
}

/// The processes whose threads are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tracked {
    /// A running process.
    Process(Pid),
    /// A program to start: its name and its arguments.
    Program(Vec<OsString>),
}

/// An event of tracked processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// The deadline passed or a signal arrived; the caller checks the time, and whether the program was asked to stop.
    Due,
    /// A thread existed when tracking began, or another thread of its process created it.
    Began {
        /// The thread.
        lwp: Lwp,
        /// Whether another thread created it.
        created: bool,
    },
    /// A thread ended, with its last reading.
    Ended(LwpReading),
    /// A thread could not be counted, with the reason as text.
    NotCounted {
        /// The thread.
        lwp: Lwp,
        /// The reason.
        why: String,
    },
    /// A thread started another process.
    Forked {
        /// The thread.
        lwp: Lwp,
        /// The process.
        child: Pid,
    },
    /// A process executed another program. Its counters restart.
    Became {
        /// The thread that called exec, the only one left.
        lwp: Lwp,
        /// The last readings of its former threads.
        before: Vec<LwpReading>,
        /// The file of the new program, if known.
        image: Option<String>,
        /// Whether the process is followed into it.
        followed: bool,
    },
    /// A process ended.
    Exited {
        /// The process.
        pid: Pid,
    },
    /// No tracked process is left.
    Over,
}

/// The facet.
pub trait HardwareCounters {
    /// Whether the hardware has usable counters.
    ///
    /// # Errors
    /// [`Absent`] with the reason. Software events of the kernel may still be available.
    fn hardware(&self) -> Result<(), Absent>;

    /// The counters and events of the machine.
    fn interface(&self) -> Interface;

    /// The counters, as a bitmask, that can measure an event given by name or code. `None` for an unknown event.
    fn capable(&self, event: &str) -> Option<u32>;

    /// Opens counters on CPUs for sets of events. Counting starts with [`CpuCounting::start`].
    ///
    /// # Errors
    /// [`Refusal`]: no hardware counters, no permission, more events than counters, events that cannot be combined or belong to CPUs of
    /// another type, an off-line CPU.
    fn count_cpus(&self, cpus: &[CpuId], sets: &[Vec<Wanted>]) -> Result<Box<dyn CpuCounting + '_>, Refusal>;

    /// Counts in threads from now on, without following their children and without affecting them. Threads that have ended are
    /// omitted.
    ///
    /// # Errors
    /// [`Refusal`]: no hardware counters, no permission.
    fn count_lwps(&self, lwps: &[Lwp], set: &[Wanted]) -> Result<Box<dyn LwpCounting + '_>, Refusal>;

    /// Starts following threads, and counts from their start or from now on. The first set counts. Existing threads are reported
    /// one by one as [`Happening::Began`].
    ///
    /// # Errors
    /// [`Refusal`], as above, and: no such process, a program that cannot be started. Then nothing was started.
    fn track(
        &self,
        whose: &Tracked,
        sets: &[Vec<Wanted>],
        follow: Follow,
    ) -> Result<Box<dyn Tracking + '_>, Refusal>;
}

/// Counters of CPUs for the lifetime of the value.
pub trait CpuCounting {
    /// Starts a set from zero, and stops all others.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot start it.
    fn start(&mut self, set: usize) -> Result<(), Refusal>;

    /// The counters of the active set for every CPU, in the order of the request.
    fn read(&mut self) -> Vec<CpuReading>;
}

/// Counters of threads for the lifetime of the value.
pub trait LwpCounting {
    /// The counters of every thread, including ended ones as far as they can still be read, in the order of the request.
    fn read(&mut self) -> Vec<LwpReading>;
}

/// Followed threads. After a drop they continue unobserved.
pub trait Tracking {
    /// The first process.
    fn pid(&self) -> Pid;

    /// Waits until an event, or until `deadline` of the machine's clock.
    ///
    /// # Errors
    /// [`Refusal`] if the machine reports no more events.
    fn next(&mut self, deadline: Nanos) -> Result<Happening, Refusal>;

    /// Starts a set from zero in every thread, and stops all others.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot start it.
    fn start(&mut self, set: usize) -> Result<(), Refusal>;

    /// The counters of the active set for every thread, ascending.
    fn read(&mut self) -> Vec<LwpReading>;
}
