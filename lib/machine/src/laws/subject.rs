//! The machine under test, and what starts and ends processes on it.

use super::command::Load;
use crate::{Machine, Refusal};
use millpond_model::{CpuId, CpuSet, Lwp, Nanos, Pid, State};

/// A machine, and what starts and ends processes on it.
pub trait Subject {
    /// The machine.
    fn machine(&self) -> &dyn Machine;

    /// What it can do. Does not change while a script runs.
    fn abilities(&self) -> Abilities;

    /// Everything that can be observed of the machine and that its sets, bindings and states have to do with,
    /// as text: equal texts are equal situations. The time of day, and numbers that are to be given next, are
    /// no part of it.
    ///
    /// # Errors
    /// A sentence when it cannot be observed.
    fn snapshot(&self, times: Times) -> Result<String, String>;

    /// Starts a process of one thread, bound to nothing.
    ///
    /// # Errors
    /// A sentence when that failed; it ends the run.
    fn spawn(&mut self) -> Result<Pid, String>;

    /// The first thread of a process starts another.
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String>;

    /// The first thread of a process divides it.
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn fork(&mut self, parent: Pid) -> Result<Pid, String>;

    /// Ends a process, and returns when it is gone.
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn exit(&mut self, pid: Pid) -> Result<(), String>;

    /// Starts a process that does something, unbound and in the class in which everything starts. Asked only of
    /// machines that have [`Abilities::programs`].
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn start(&mut self, load: Load) -> Result<Pid, String> {
        Err(format!("nothing that does {load:?} can be started here"))
    }

    /// Starts a process in a project of which so many threads compute without end, unbound and in the class in which everything starts. Asked only of
    /// machines that have [`Abilities::controls`].
    ///
    /// # Errors
    /// As for [`Subject::spawn`].
    fn contender(&mut self, project: &str, threads: u32) -> Result<Pid, String> {
        Err(format!("{threads} threads cannot be started in project {project} here"))
    }

    /// The process that a process which was born by itself descends from.
    fn parent(&self, pid: Pid) -> Option<Pid> {
        let _ = pid;
        None
    }

    /// Where a thread would be allowed without any sets or bindings of ours; `None` for everywhere. Subjects
    /// that start processes with odd masks show that these come back.
    fn own_mask(&self, lwp: Lwp) -> Option<CpuSet> {
        let _ = lwp;
        None
    }

    /// Whether a refusal that the rules do not ask for is known to be right on this machine.
    fn excuses(&self, refusal: &Refusal) -> bool {
        let _ = refusal;
        false
    }
}

/// Whether a snapshot shows since when CPUs are in their states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// It does.
    Shown,
    /// It does not: for situations that are alike and not the same.
    LeftOut,
}

/// What a machine can do. What it cannot is not asked of it, and the report says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// The CPUs that commands may name.
    pub processors: Vec<CpuId>,
    /// The states that commands may ask for. `on-line` alone when CPUs cannot change at all.
    pub states: Vec<State>,
    /// Whether sets can be made that others are pushed out of.
    pub exclusive: bool,
    /// Whether sets can be made that others stay in (`--keep-others`).
    pub shared: bool,
    /// Whether the threads of one process can be bound to different sets.
    pub thread_sets: bool,
    /// Whether a child of a thread that is bound to a CPU is seen to be bound where its set has no other
    /// CPU. A machine that knows bindings by masks alone cannot see that; there none is born.
    pub sees_lone_heirs: bool,
    /// Whether a binding to several CPUs is seen in what inherited it, for as long as that lives. If not, scripts bind to one.
    pub sees_wide_heirs: bool,
    /// Whether waiting costs nothing, so that time can pass between commands.
    pub free_clock: bool,
    /// Whether programs can be started, and the machine shows exactly where they run and for how long. Needs
    /// [`Abilities::free_clock`].
    pub programs: bool,
    /// Whether the classes of processes and their tables can be changed.
    pub classes: bool,
    /// Whether shares and caps can be changed, and take effect as on Solaris.
    pub controls: bool,
    /// Whether there are lgroups, and the memory of sets can be confined to some of them.
    pub lgroups: bool,
    /// Whether interrupts go elsewhere at the moment at which they are told to.
    pub prompt_interrupts: bool,
    /// By how much the machine's account of idle time may be ahead.
    pub tick: Nanos,
}

impl Abilities {
    /// Everything, on these CPUs.
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

    /// Whether CPUs can be taken out of service.
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
