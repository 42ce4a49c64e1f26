//! Counters of hardware's events, for a CPU or for a thread: what `cpustat` and `cputrack` show.
//!
//! A *set* is what is counted at one time: an event for each counter. Of several sets one counts, and the others rest until it is
//! their turn. Readings are cumulated since their set was started; a caller that wants differences takes them.

use crate::{Absent, Refusal};
use millpond_model::{Counted, CpuId, Lwp, Nanos, Pid};
use std::ffi::OsString;

/// An event on a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The number of the counter, as users count them.
    pub counter: u32,
    /// The event's name, one that [`HardwareCounters::capable`] knows.
    pub event: String,
    /// Whether it counts in user mode. Events of the kernel itself count in any mode.
    pub user: bool,
    /// Whether it counts in the kernel.
    pub sys: bool,
}

/// What sort of events a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Names that mean the same on every machine.
    Generic,
    /// Names of this machine.
    Platform,
    /// Events that the kernel counts by itself, without any hardware.
    Software,
}

/// Events that the same counters can measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventList {
    /// What sort.
    pub kind: EventKind,
    /// The counters, as bits of a mask.
    pub counters: u32,
    /// The names.
    pub names: Vec<String>,
}

/// What can be counted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// What the hardware's counters are called.
    pub name: String,
    /// Every event that has a name.
    pub events: Vec<EventList>,
    /// Names of attributes.
    pub attributes: Vec<String>,
    /// Where more is said, a sentence.
    pub reference: String,
    /// The name of the register that counts cycles, or time, on a CPU; where there is one.
    pub cpu_tick: Option<String>,
    /// The name of what counts so for a thread.
    pub lwp_tick: Option<String>,
}

/// A CPU's counters at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuReading {
    /// Which.
    pub cpu: CpuId,
    /// When, on the machine's monotonic clock.
    pub at: Nanos,
    /// The register that counts cycles.
    pub tick: u64,
    /// The counters, or why they cannot be read any more, as half a sentence. A CPU whose counters are lost stays so.
    pub counted: Result<Counted, String>,
}

/// A thread's counters at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LwpReading {
    /// Which.
    pub lwp: Lwp,
    /// Cycles, or time, that the thread ran.
    pub tick: u64,
    /// The counters.
    pub counted: Counted,
}

/// What is followed beside the threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Follow {
    /// Children.
    pub forks: bool,
    /// The next program that the process becomes.
    pub execs: bool,
}

/// The processes whose threads are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tracked {
    /// Those of a process that runs already.
    Process(Pid),
    /// Those of a program that is started for it: its name and its arguments.
    Program(Vec<OsString>),
}

/// What becomes of the processes that are tracked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// The time is over, or a signal came before: the caller looks at the time, and whether the program was asked to stop.
    Due,
    /// A thread was there when tracking began, or it was started by another one of its process.
    Began {
        /// Which.
        lwp: Lwp,
        /// Whether another one started it.
        created: bool,
    },
    /// A thread ended, with its last reading.
    Ended(LwpReading),
    /// A thread could not be counted, with the reason in words.
    NotCounted {
        /// Which.
        lwp: Lwp,
        /// Why.
        why: String,
    },
    /// A thread started another process.
    Forked {
        /// The thread.
        lwp: Lwp,
        /// The process.
        child: Pid,
    },
    /// A process became another program. Its counters start anew.
    Became {
        /// The thread that did it, and is the only one that is left.
        lwp: Lwp,
        /// The last readings of the threads that it had.
        before: Vec<LwpReading>,
        /// The file of the new program, where it can be told.
        image: Option<String>,
        /// Whether the process is followed into it.
        followed: bool,
    },
    /// A process ended.
    Exited {
        /// Which.
        pid: Pid,
    },
    /// No tracked process is left.
    Over,
}

/// The facet.
pub trait HardwareCounters {
    /// Whether the hardware has counters that we may use.
    ///
    /// # Errors
    /// [`Absent`] with the reason. Events of the kernel itself may be there all the same.
    fn hardware(&self) -> Result<(), Absent>;

    /// What can be counted.
    fn interface(&self) -> Interface;

    /// Which counters, as bits of a mask, can measure an event: named, or by its code. `None` for one that is not known here.
    fn capable(&self, event: &str) -> Option<u32>;

    /// Opens counters on CPUs for sets of events. Nothing counts until [`CpuCounting::start`].
    ///
    /// # Errors
    /// [`Refusal`]: no hardware counters, no rights, more events than counters, events that do not go together or belong to CPUs of
    /// another type, a CPU that is off-line.
    fn count_cpus(&self, cpus: &[CpuId], sets: &[Vec<Wanted>]) -> Result<Box<dyn CpuCounting + '_>, Refusal>;

    /// Counts in threads from now on, without following their children. Nothing of it changes what they do. Those that are gone already are
    /// left out.
    ///
    /// # Errors
    /// [`Refusal`]: no hardware counters, no rights.
    fn count_lwps(&self, lwps: &[Lwp], set: &[Wanted]) -> Result<Box<dyn LwpCounting + '_>, Refusal>;

    /// Begins to follow threads, and counts from their beginning or from now on. The first set counts. The threads that are there are told
    /// one by one, as [`Happening::Began`].
    ///
    /// # Errors
    /// [`Refusal`], as above, and: no such process, a program that cannot be started. Nothing was started then.
    fn track(
        &self,
        whose: &Tracked,
        sets: &[Vec<Wanted>],
        follow: Follow,
    ) -> Result<Box<dyn Tracking + '_>, Refusal>;
}

/// Counters of CPUs. They end with the value.
pub trait CpuCounting {
    /// Starts a set from zero, and stops every other one.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot start it.
    fn start(&mut self, set: usize) -> Result<(), Refusal>;

    /// The counters of the set that counts, of every CPU, in the order in which they were named.
    fn read(&mut self) -> Vec<CpuReading>;
}

/// Counters of threads. They end with the value.
pub trait LwpCounting {
    /// The counters of every thread, those that have ended included as far as they can still be read, in the order in which they were named.
    fn read(&mut self) -> Vec<LwpReading>;
}

/// Threads that are followed. Dropping it lets them go on alone.
pub trait Tracking {
    /// The process that it began with.
    fn pid(&self) -> Pid;

    /// Waits until something happens, or until `deadline` of the machine's clock.
    ///
    /// # Errors
    /// [`Refusal`] when the machine does not tell any more.
    fn next(&mut self, deadline: Nanos) -> Result<Happening, Refusal>;

    /// Starts a set from zero in every thread, and stops every other one.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot start it.
    fn start(&mut self, set: usize) -> Result<(), Refusal>;

    /// The counters of the set that counts, of every thread, ascending.
    fn read(&mut self) -> Vec<LwpReading>;
}
