//! What a scheduling class is: a table of operations, one for each event (reference §3.1). The tables are in the files of the classes.

use super::class_state::ClassState;
use super::ids::ThreadId;
use super::state::Kernel;
use super::thread::Thread;
use millpond_model::ClassParams;

/// At which end of its level a thread enters a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Before its equals.
    Front,
    /// After its equals.
    Back,
}

/// The operations of a class. A thread that they are called with is of the class; so are parameters.
pub(super) struct Class {
    /// What a thread that enters the class with these parameters starts with.
    pub enter: fn(&Kernel, ClassParams) -> ClassState,
    /// Sets what a user may set.
    pub set_params: fn(&mut Kernel, ThreadId, ClassParams),
    /// Writes what a user may set into a state, and does nothing else.
    pub store: fn(&mut ClassState, ClassParams),
    /// What to store where nothing is set.
    pub unset: ClassParams,
    /// What a user has set.
    pub params: fn(&ClassState) -> ClassParams,
    /// The global priority of a thread in this state; `None` for the one that it has.
    pub priority: fn(&ClassState) -> Option<i16>,
    /// A clock tick found the thread on a CPU.
    pub tick: fn(&mut Kernel, ThreadId),
    /// The thread leaves its CPU against its will, and is put into a queue.
    pub preempt: fn(&mut Kernel, ThreadId),
    /// The thread is about to sleep.
    pub sleep: fn(&mut Kernel, ThreadId),
    /// The thread may run again, or for the first time, and is put into a queue.
    pub wakeup: fn(&mut Kernel, ThreadId),
    /// The thread returns to user mode, and is marked for it.
    pub trapret: fn(&mut Kernel, ThreadId),
    /// The thread lets others go first. It is put behind its equals next.
    pub yield_cpu: fn(&mut Kernel, ThreadId),
    /// What a child of the thread starts with.
    pub fork: fn(&Kernel, ThreadId) -> ClassState,
    /// The parent after its child was set running. `true`: it is in a queue, and leaves its CPU.
    pub forkret: fn(&mut Kernel, ThreadId) -> bool,
    /// Each second, for all threads of the class.
    pub update: fn(&mut Kernel),
    /// Whether a state can be; a sentence about the thread, where not.
    pub check: fn(&Kernel, &Thread) -> Result<(), &'static str>,
}
