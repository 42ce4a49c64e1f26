//! The machine under test, with control over its processes.

use super::command::Load;
use crate::{Machine, Refusal};
use millpond_model::{CpuId, CpuSet, Lwp, Nanos, Pid, State};

/// A machine, with control over its processes.
pub trait Subject {
    /// The machine.
    fn machine(&self) -> &dyn Machine;

    /// Its abilities. They do not change while a script runs.
    fn abilities(&self) -> Abilities;

    /// The observable state of the machine that sets, bindings and states can affect, as text: equal texts are equal situations. The time
    /// of day, and numbers to be assigned next, are not included.
    ///
    /// # Errors
    /// A sentence if it cannot be observed.
    fn snapshot(&self, times: Times) -> Result<String, String>;

    /// Starts an unbound process with one thread.
    ///
    /// # Errors
    /// A sentence if that failed; it ends the run.
    fn spawn(&mut self) -> Result<Pid, String>;

    /// The first thread of a process starts another thread.
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String>;

    /// The first thread of a process forks.
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn fork(&mut self, parent: Pid) -> Result<Pid, String>;

    /// Ends a process, and returns after its end.
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn exit(&mut self, pid: Pid) -> Result<(), String>;

    /// Starts an unbound process with a load, in the default class. Called only for machines with [`Abilities::programs`].
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn start(&mut self, load: Load) -> Result<Pid, String> {
        Err(format!("nothing that does {load:?} can be started here"))
    }

    /// Starts an unbound process in a project, with `threads` threads that compute endlessly, in the default class. Called only for
    /// machines with [`Abilities::controls`].
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn contender(&mut self, project: &str, threads: u32) -> Result<Pid, String> {
        Err(format!("{threads} threads cannot be started in project {project} here"))
    }

    /// The process that started the given process.
    fn parent(&self, pid: Pid) -> Option<Pid> {
        let _ = pid;
        None
    }

    /// The mask of a thread without any sets or bindings of Millpond; `None` for all CPUs. Subjects that start processes with unusual masks
    /// test that these are restored.
    fn own_mask(&self, lwp: Lwp) -> Option<CpuSet> {
        let _ = lwp;
        None
    }

    /// Whether a refusal outside the rules is known to be correct on this machine.
    fn excuses(&self, refusal: &Refusal) -> bool {
        let _ = refusal;
        false
    }
}

/// Whether a snapshot includes the times of state changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Included.
    Shown,
    /// Omitted: for situations that are equal except for times.
    LeftOut,
}

/// The abilities of a machine. Laws about missing abilities are not checked, which the report mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// The CPUs that commands may name.
    pub processors: Vec<CpuId>,
    /// The states that commands may request. Only `on-line` if CPUs cannot change state.
    pub states: Vec<State>,
    /// Whether sets can exclude other threads.
    pub exclusive: bool,
    /// Whether sets can admit other threads (`--keep-others`).
    pub shared: bool,
    /// Whether the threads of one process can be bound to different sets.
    pub thread_sets: bool,
    /// Whether the binding of a child to a CPU is visible if its set has no other CPU. A machine that stores bindings as masks only cannot
    /// show that; scripts then create no such child.
    pub sees_lone_heirs: bool,
    /// Whether an inherited binding to several CPUs is visible for the lifetime of the child. If not, scripts bind to one CPU.
    pub sees_wide_heirs: bool,
    /// Whether waiting is free, so that time can pass between commands.
    pub free_clock: bool,
    /// Whether programs can be started, and the machine reports exactly where and for how long they run. Needs
    /// [`Abilities::free_clock`].
    pub programs: bool,
    /// Whether the classes of processes and their tables can be changed.
    pub classes: bool,
    /// Whether shares and caps can be changed, and take effect as on Solaris.
    pub controls: bool,
    /// Whether there are lgroups, and memory of sets can be restricted to some of them.
    pub lgroups: bool,
    /// Whether interrupts move at the moment of the change.
    pub prompt_interrupts: bool,
    /// The amount by which the account of idle time may be ahead.
    pub tick: Nanos,
}

impl Abilities {
    /// All abilities, on these CPUs.
    #[must_use]
    pub fn all(processors: &CpuSet) -> Self {
        Abilities {
            processors: processors.iter().collect(),
            states: vec![State::OnLine, State::OffLine, State::NoIntr, State::Spare, State::Faulted],
            exclusive: true,
            shared: true,
            thread_sets: true,
            sees_lone_heirs: true,
            sees_wide_heirs: true,
            free_clock: true,
            programs: true,
            classes: true,
            controls: true,
            lgroups: true,
            prompt_interrupts: true,
            tick: Nanos(0),
        }
    }

    /// Whether CPUs can go off-line.
    #[must_use]
    pub fn can_stop(&self) -> bool {
        self.states.iter().any(|s| !s.runs_threads())
    }

    /// Whether CPUs can be sheltered from interrupts.
    #[must_use]
    pub fn can_shelter(&self) -> bool {
        self.states.contains(&State::NoIntr)
    }
}
