//! The operations of a scheduling class: a table with one function for each event. The tables are in the files of the classes.

use super::class_state::ClassState;
use super::ids::ThreadId;
use super::state::Kernel;
use super::thread::Thread;
use millpond_model::ClassParams;

/// The end of its level at which a thread enters a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Before threads of equal priority.
    Front,
    /// After threads of equal priority.
    Back,
}

/// The operations of a class. Their threads and parameters are of the class.
pub(super) struct Class {
    /// The initial state of a thread that enters the class with these parameters.
    pub enter: fn(&Kernel, ClassParams) -> ClassState,
    /// Sets the parameters that a user may set.
    pub set_params: fn(&mut Kernel, ThreadId, ClassParams),
    /// Stores user parameters in a state, without other effects.
    pub store: fn(&mut ClassState, ClassParams),
    /// Default parameters.
    pub unset: ClassParams,
    /// The user parameters of a state.
    pub params: fn(&ClassState) -> ClassParams,
    /// The global priority for this state; `None` to keep the present one.
    pub priority: fn(&ClassState) -> Option<i16>,
    /// A clock tick found the thread on a CPU.
    pub tick: fn(&mut Kernel, ThreadId),
    /// The thread is preempted, and enters a queue.
    pub preempt: fn(&mut Kernel, ThreadId),
    /// The thread is about to sleep.
    pub sleep: fn(&mut Kernel, ThreadId),
    /// The thread becomes runnable, and enters a queue.
    pub wakeup: fn(&mut Kernel, ThreadId),
    /// The thread returns to user mode with `trapret` set.
    pub trapret: fn(&mut Kernel, ThreadId),
    /// The thread yields. Then it is put behind its equals.
    pub yield_cpu: fn(&mut Kernel, ThreadId),
    /// The initial state of a child of the thread.
    pub fork: fn(&Kernel, ThreadId) -> ClassState,
    /// The parent, after its child was made runnable. `true`: the parent is in a queue and leaves its CPU.
    pub forkret: fn(&mut Kernel, ThreadId) -> bool,
    /// The once-per-second update of all threads of the class.
    pub update: fn(&mut Kernel),
    /// Checks a state; an error is a sentence about the thread.
    pub check: fn(&Kernel, &Thread) -> Result<(), &'static str>,
}
