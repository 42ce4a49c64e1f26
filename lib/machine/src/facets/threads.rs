//! Threads and their bindings: to a set (others may be kept out of it) and to CPUs (others may run
//! there too). Both are inherited by children and survive exec.

use super::programs::{Launch, Program};
use crate::{Change, Refusal};
use millpond_model::{CpuSet, Lwp, LwpId, Pid, PsetId};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its short name.
    pub name: String,
    /// Whether it is a part of the kernel, which cannot be bound.
    pub kernel: bool,
}

/// A thread and where it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LwpStatus {
    /// Which.
    pub lwp: Lwp,
    /// The set it is bound to; [`PsetId::DEFAULT`] for none.
    pub set: PsetId,
    /// The CPUs it is bound to; none where it is not.
    pub cpus: CpuSet,
    /// Where it may run, all things considered.
    pub allowed: CpuSet,
}

/// The outcome of a change of binding, of a whole process or of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebinding<T> {
    /// The process.
    pub pid: Pid,
    /// The thread, where only it is meant.
    pub lwp: Option<LwpId>,
    /// What it was bound to.
    pub from: Option<T>,
    /// What it is bound to.
    pub to: Option<T>,
}

/// The facet.
pub trait Threads {
    /// Every process, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn processes(&self) -> Result<Vec<Process>, Refusal>;

    /// The threads of a process, ascending.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such process.
    fn lwps(&self, pid: Pid) -> Result<Vec<LwpStatus>, Refusal>;

    /// Every thread that is bound to a set or to a CPU, ascending. Kernel threads are not listed.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn bound(&self) -> Result<Vec<LwpStatus>, Refusal>;

    /// Prepares binding a process, or the named threads of it, to a set; `None` unbinds. Unbinding what is
    /// not bound succeeds.
    ///
    /// # Errors
    /// [`Refusal`]: no such process or thread, a kernel thread, no rights, an unknown or empty set, a thread
    /// bound to a CPU outside the set.
    fn prepare_bind_set(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal>;

    /// Prepares that a process which we start, and what descends from it, keeps to the default set, also where
    /// a set does not push others out and they run on its CPUs too.
    ///
    /// # Errors
    /// [`Refusal`]: no such process, a kernel thread, no rights.
    fn prepare_start_in_default(&self, pid: Pid) -> Result<Change<()>, Refusal>;

    /// Prepares binding a process, or the named threads of it, to CPUs of its set; an empty set unbinds
    /// and restores what was allowed before.
    ///
    /// # Errors
    /// [`Refusal`]: no such process or thread, a kernel thread, no rights, a CPU that does not exist,
    /// is not active or is in another set.
    fn prepare_bind_cpus(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: &CpuSet,
    ) -> Result<Change<Vec<Rebinding<CpuSet>>>, Refusal>;

    /// Starts a program, bound before its first instruction. The binding is journalled, as [`crate::Writer`] does it.
    ///
    /// # Errors
    /// [`Refusal`]: the set cannot be bound to, or the system cannot execute the program.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal>;
}
