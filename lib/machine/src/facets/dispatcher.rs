//! The dispatcher: scheduling classes, their tables, and the class and parameters of processes.

use crate::{Absent, Change, Refusal};
use millpond_model::{Clamped, Class, ClassParams, ClassRequest, ClassTable, DispatchTables, Nanos, Pid};
use schemars::JsonSchema;
use serde::Serialize;

/// The numbers by which a process can be selected, if the machine has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessIds {
    /// Its parent.
    pub ppid: Option<u32>,
    /// Its process group.
    pub pgid: Option<u32>,
    /// Its session.
    pub sid: Option<u32>,
    /// Its effective user.
    pub uid: Option<u32>,
    /// Its effective group.
    pub gid: Option<u32>,
    /// Its zone; 0 is the global one.
    pub zoneid: Option<u32>,
    /// Its project.
    pub projid: Option<u32>,
}

/// A process with its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// Its number.
    pub pid: Pid,
    /// Whether it is part of the kernel; its class then cannot be changed.
    pub kernel: bool,
    /// The parameters of its most favoured thread in the class of the first thread.
    pub params: ClassParams,
    /// The numbers by which it can be selected.
    pub ids: ProcessIds,
}

/// The outcome of a change of class or parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclassed {
    /// The process.
    pub pid: Pid,
    /// The former parameters.
    pub from: ClassParams,
    /// The new parameters.
    pub to: ClassParams,
    /// A requested priority above the limit.
    pub clamped: Option<Clamped>,
}

/// Options for the start of a class scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Whether it schedules all threads except RT, instead of only threads that were put into a class.
    pub whole: bool,
    /// The waiting time after which a thread runs for a tick regardless of its level; `None` for never.
    pub rescue: Option<Nanos>,
    /// Whether the parent of a new process drops by a level and lets the child run first, as in Solaris.
    pub parent_pays: bool,
    /// A wake-up by a program does not preempt a thread that began to run within this time; 0: it does, as in Solaris.
    pub parity: Nanos,
    /// The kernel ends a scheduler that leaves a thread waiting for so long.
    pub timeout: Nanos,
    /// Whether to count threads that begin to run while a better one waits for the same CPU.
    pub audit: bool,
}

/// Why a scheduler ended that this process did not stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerEnd {
    /// Whether it may be restarted at once: CPUs changed, or it was asked to end.
    pub may_restart: bool,
    /// The reason in one line: `a thread waited for too long: victim[177] failed to run for 2.432s`.
    pub why: String,
    /// The report of the kernel by line: the location, and the state of CPUs and threads.
    pub detail: Vec<String>,
}

/// A scheduler for the classes, started by this process. When the value is dropped or the process ends in any way, all threads return to the
/// scheduler of the kernel.
pub trait ClassScheduler {
    /// The reason of its end; `None` while it runs.
    fn end(&self) -> Option<SchedulerEnd>;

    /// Updates it to the present processor sets.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn refresh(&mut self) -> Result<(), Refusal>;
}

/// A property of a machine that matters to a scheduler for the classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchedulerCheck {
    /// The property: `isolcpus`.
    pub name: String,
    /// Its effect on the scheduler.
    pub outcome: SchedulerOutcome,
    /// Its present value, in words.
    pub is: String,
    /// A remedy, if one is known.
    pub remedy: Option<String>,
}

/// The effect of a [`SchedulerCheck`] on the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerOutcome {
    /// No obstacle.
    Good,
    /// The property has no effect on threads that this scheduler runs.
    Ignored,
    /// The kernel may end the scheduler because of it.
    Ends,
    /// No scheduler can be started.
    Prevents,
    /// Unknown.
    Unknown,
}

/// Counts of a dispatcher level since the scheduler was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelCounts {
    /// The level, 0 to 99; -1 is for threads that run only on idle CPUs.
    pub level: i8,
    /// CPU time of threads at this level. The last run of a thread before it sleeps is counted when it wakes up.
    pub ran: Nanos,
    /// The number of times that a thread began to run at this level.
    pub begun: u64,
    /// The total time that these threads had waited in a queue.
    pub waited: Nanos,
    /// The longest of these waits.
    pub waited_max: Nanos,
    /// Slices used up.
    pub expired: u64,
    /// Threads that left the level because of a long wait.
    pub boosted: u64,
    /// Threads that were preempted because a tick found a better one waiting.
    pub surrendered: u64,
    /// Threads that ran for a tick after [`SchedulerOptions::rescue`], because no other rule selected them.
    pub rescued: u64,
}

/// Counters of the scheduler since it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerCounts {
    /// Levels with events, ascending.
    pub levels: Vec<LevelCounts>,
    /// Other counters, by name.
    pub sums: Vec<(&'static str, u64)>,
}

/// The facet.
pub trait Dispatcher {
    /// The classes, in the order in which they were loaded.
    fn classes(&self) -> Vec<Class>;

    /// The implementation of the classes here, in one line: `exact, as on Solaris`.
    fn made_by(&self) -> String;

    /// Clock ticks per second: the unit of the tables.
    fn ticks_per_second(&self) -> u32;

    /// The present tables.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn tables(&self) -> Result<DispatchTables, Refusal>;

    /// Whether threads are scheduled by these tables. If not, the tables are the defaults of a Solaris machine.
    ///
    /// # Errors
    /// [`Absent`] with a remedy.
    fn live(&self) -> Result<(), Absent>;

    /// The default class from the next boot on; `None` if it was never set, and is [`Class::Ts`].
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read, or has no default class.
    fn default_class(&self) -> Result<Option<Class>, Refusal>;

    /// Every process with its class, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn scheduled(&self) -> Result<Vec<Scheduled>, Refusal>;

    /// Prepares another table. It applies to the next slice of each thread; the present slice is not cut short.
    ///
    /// # Errors
    /// [`Refusal`] if tables are not live here, or permission is missing.
    fn prepare_set_table(&self, table: ClassTable) -> Result<Change<()>, Refusal>;

    /// Prepares another default class from the next boot on. Returns the former one.
    ///
    /// # Errors
    /// [`Refusal`] if the machine has no default class, or permission is missing.
    fn prepare_default_class(&self, class: Class) -> Result<Change<Option<Class>>, Refusal>;

    /// Prepares another class, or other parameters, for every thread of a process.
    ///
    /// # Errors
    /// [`Refusal`]: no such process, a part of the kernel, no permission, a value that the class or the machine does not have.
    fn prepare_class(&self, pid: Pid, request: &ClassRequest) -> Result<Change<Reclassed>, Refusal>;

    /// Starts a scheduler that makes the tables live. It uses the tables of the last one since boot, else those of a Solaris machine.
    ///
    /// # Errors
    /// [`Refusal`] if the machine has no such scheduler, another one is loaded, or permission is missing.
    fn start_scheduler(&self, _options: &SchedulerOptions) -> Result<Box<dyn ClassScheduler + '_>, Refusal> {
        Err(Absent::because("its classes need no scheduler to be started").into())
    }

    /// The scheduler that is loaded instead of that of the kernel, and the threads that it schedules: `ext millpond, whole`. `None` for none.
    fn loaded_scheduler(&self) -> Option<String> {
        None
    }

    /// Checks of the machine before a scheduler is started.
    ///
    /// # Errors
    /// [`Absent`] if the machine needs none.
    fn scheduler_checks(&self) -> Result<Vec<SchedulerCheck>, Absent> {
        Err(Absent::because("its classes need no scheduler to be started"))
    }

    /// The counters of the scheduler.
    ///
    /// # Errors
    /// [`Absent`] if no scheduler with counters is loaded.
    fn scheduler_counts(&self) -> Result<SchedulerCounts, Absent> {
        Err(Absent::because("its scheduler does not count levels"))
    }
}
