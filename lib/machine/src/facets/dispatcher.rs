//! The dispatcher: scheduling classes, their tables, and the class and parameters of processes.

use crate::{Absent, Change, Refusal};
use millpond_model::{Clamped, Class, ClassParams, ClassRequest, ClassTable, DispatchTables, Nanos, Pid};
use schemars::JsonSchema;
use serde::Serialize;

/// The numbers by which a process can be chosen, where the machine has them.
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
    /// Whether it is a part of the kernel, whose class cannot be changed.
    pub kernel: bool,
    /// Of all threads that are in the class of the first one, those of the most favoured.
    pub params: ClassParams,
    /// What it can be chosen by.
    pub ids: ProcessIds,
}

/// The outcome of a change of class or parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclassed {
    /// The process.
    pub pid: Pid,
    /// What it had.
    pub from: ClassParams,
    /// What it has.
    pub to: ClassParams,
    /// A priority that was asked for above the limit.
    pub clamped: Option<Clamped>,
}

/// How a scheduler for the classes is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// It schedules all threads but those in RT, not only those that were put into a class.
    pub whole: bool,
    /// A wait after which a thread runs for a tick whatever its level; `None` for never.
    pub rescue: Option<Nanos>,
    /// The parent of a new process falls by a level and lets the child run first, as in Solaris.
    pub parent_pays: bool,
    /// A wake-up by a program does not preempt a thread that began to run within this time; 0: it does, as in Solaris.
    pub parity: Nanos,
    /// The kernel ends a scheduler that leaves a thread waiting for so long.
    pub timeout: Nanos,
    /// It is counted when a thread begins to run while a better one waits for its CPU.
    pub audit: bool,
}

/// Why a scheduler ended that this process did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerEnd {
    /// The next one may be started at once: CPUs came or went, or it was asked to end.
    pub may_restart: bool,
    /// Why, in one line: `a thread waited for too long: victim[177] failed to run for 2.432s`.
    pub why: String,
    /// What the kernel wrote down, by line: where it happened, and the state of CPUs and threads.
    pub detail: Vec<String>,
}

/// A scheduler for the classes, started by this process. When the value is dropped or the process ends in any way, all threads go back to the kernel's own
/// scheduler.
pub trait ClassScheduler {
    /// Why it has ended; `None` while it is at work.
    fn end(&self) -> Option<SchedulerEnd>;

    /// Brings it to the processor sets as they are now.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn refresh(&mut self) -> Result<(), Refusal>;
}

/// What a scheduler for the classes would find on a machine, or has found, in one respect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchedulerCheck {
    /// What was looked at: `isolcpus`.
    pub name: String,
    /// What it means for the scheduler.
    pub outcome: SchedulerOutcome,
    /// How it is.
    pub is: String,
    /// What would help, where something would.
    pub remedy: Option<String>,
}

/// What a [`SchedulerCheck`] means for the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerOutcome {
    /// Nothing stands in its way.
    Good,
    /// It has no effect on threads that are scheduled by it.
    Ignored,
    /// The kernel may end the scheduler for it.
    Ends,
    /// No scheduler can be started.
    Prevents,
    /// The machine does not say.
    Unknown,
}

/// What a level of the dispatcher has had since the scheduler was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelCounts {
    /// The level, 0 to 99; -1 is what runs only where nothing else wants to.
    pub level: i8,
    /// CPU time of threads at this level. What a thread ran last before it went to sleep is counted when it wakes up.
    pub ran: Nanos,
    /// How often a thread began to run at this level.
    pub begun: u64,
    /// How long these had waited in a queue, in all.
    pub waited: Nanos,
    /// The longest of these waits.
    pub waited_max: Nanos,
    /// Slices used up.
    pub expired: u64,
    /// Threads that left the level because they had waited for too long.
    pub boosted: u64,
    /// Threads that gave up their CPU because a tick found a better one waiting.
    pub surrendered: u64,
    /// Threads that ran for a tick because no other rule would have let them.
    pub rescued: u64,
}

/// What the scheduler has counted since it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerCounts {
    /// Levels at which something happened, ascending.
    pub levels: Vec<LevelCounts>,
    /// Other counters, by name.
    pub sums: Vec<(&'static str, u64)>,
}

/// The facet.
pub trait Dispatcher {
    /// The classes, in the order in which they were loaded.
    fn classes(&self) -> Vec<Class>;

    /// What makes the classes here, in one line: `exact, as on Solaris`.
    fn made_by(&self) -> String;

    /// Clock ticks in a second: what a tick of a table is.
    fn ticks_per_second(&self) -> u32;

    /// The tables as they are.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn tables(&self) -> Result<DispatchTables, Refusal>;

    /// Whether threads run by these tables. Where they do not, the tables are those that a machine of the family would have.
    ///
    /// # Errors
    /// [`Absent`] with what would make them live.
    fn live(&self) -> Result<(), Absent>;

    /// The class in which everything starts from the next boot on; `None` when it was never set, and is [`Class::Ts`].
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read, or has no such thing.
    fn default_class(&self) -> Result<Option<Class>, Refusal>;

    /// Every process with its class, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn scheduled(&self) -> Result<Vec<Scheduled>, Refusal>;

    /// Prepares another table. Threads get their next slice by it; none is cut short.
    ///
    /// # Errors
    /// [`Refusal`] when tables are not live here, or rights are missing.
    fn prepare_set_table(&self, table: ClassTable) -> Result<Change<()>, Refusal>;

    /// Prepares another class in which everything starts from the next boot on. Gives the one before.
    ///
    /// # Errors
    /// [`Refusal`] when the machine has no such thing, or rights are missing.
    fn prepare_default_class(&self, class: Class) -> Result<Change<Option<Class>>, Refusal>;

    /// Prepares another class, or other parameters, of every thread of a process.
    ///
    /// # Errors
    /// [`Refusal`]: no such process, a part of the kernel, no rights, a value that the class or the machine does not have.
    fn prepare_class(&self, pid: Pid, request: &ClassRequest) -> Result<Change<Reclassed>, Refusal>;

    /// Starts a scheduler that makes the tables live. It has the tables of the last one on this machine since boot, else those of a Solaris machine.
    ///
    /// # Errors
    /// [`Refusal`] when the machine has no such thing, another scheduler is at work, or rights are missing.
    fn start_scheduler(&self, _options: &SchedulerOptions) -> Result<Box<dyn ClassScheduler + '_>, Refusal> {
        Err(Absent::because("its classes need no scheduler to be started").into())
    }

    /// The scheduler that was loaded in place of the kernel's own, with which threads it schedules: `ext millpond, whole`. `None` for none.
    fn loaded_scheduler(&self) -> Option<String> {
        None
    }

    /// What a scheduler would find, before it is started.
    ///
    /// # Errors
    /// [`Absent`] when the machine needs none.
    fn scheduler_checks(&self) -> Result<Vec<SchedulerCheck>, Absent> {
        Err(Absent::because("its classes need no scheduler to be started"))
    }

    /// What the scheduler has counted.
    ///
    /// # Errors
    /// [`Absent`] when there is none that counts.
    fn scheduler_counts(&self) -> Result<SchedulerCounts, Absent> {
        Err(Absent::because("its scheduler does not count levels"))
    }
}
