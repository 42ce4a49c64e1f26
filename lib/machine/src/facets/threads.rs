//! Threads and their bindings: to a set (which may exclude other threads) and to CPUs (which does not exclude others). Both are inherited
//! by children and survive exec.

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
    /// Whether it is part of the kernel; it then cannot be bound.
    pub kernel: bool,
}

/// A thread with its bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LwpStatus {
    /// The thread.
    pub lwp: Lwp,
    /// The set it is bound to; [`PsetId::DEFAULT`] for none.
    pub set: PsetId,
    /// The CPUs it is bound to; empty if unbound.
    pub cpus: CpuSet,
    /// The CPUs that it may finally use.
    pub allowed: CpuSet,
}

/// The outcome of a change of binding, of a whole process or of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebinding<T> {
    /// The process.
    pub pid: Pid,
    /// The thread; `None` for the whole process.
    pub lwp: Option<LwpId>,
    /// The former binding.
    pub from: Option<T>,
    /// The new binding.
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

    /// Prepares binding a process, or some of its threads, to a set; `None` unbinds. Unbinding an unbound thread succeeds.
    ///
    /// # Errors
    /// [`Refusal`]: no such process or thread, a kernel thread, no permission, an unknown or empty set, a thread
    /// bound to a CPU outside the set.
    fn prepare_bind_set(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal>;

    /// Prepares a process started by the caller, and its descendants, to stay in the default set, even if a set does not exclude others and
    /// they also run on its CPUs.
    ///
    /// # Errors
    /// [`Refusal`]: no such process, a kernel thread, no permission.
    fn prepare_start_in_default(&self, pid: Pid) -> Result<Change<()>, Refusal>;

    /// Prepares binding a process, or some of its threads, to CPUs of its set; an empty set of CPUs unbinds and restores the former mask.
    ///
    /// # Errors
    /// [`Refusal`]: no such process or thread, a kernel thread, no permission, a CPU that does not exist,
    /// is not active or is in another set.
    fn prepare_bind_cpus(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: &CpuSet,
    ) -> Result<Change<Vec<Rebinding<CpuSet>>>, Refusal>;

    /// Starts a program, bound before its first instruction. The binding is journalled, as by [`crate::Writer`].
    ///
    /// # Errors
    /// [`Refusal`]: the set cannot be bound to, or the system cannot execute the program.
    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal>;
}
