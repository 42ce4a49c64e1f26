//! The dispatcher: scheduling classes, their tables, and the class and parameters of processes.

use crate::{Absent, Change, Refusal};
use millpond_model::{Clamped, Class, ClassParams, ClassRequest, ClassTable, DispatchTables, Pid};

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
}
