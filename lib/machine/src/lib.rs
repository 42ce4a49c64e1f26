//! The Machine interface: what a command may ask of a machine, of whatever kind the machine is.
//!
//! # Nouns
//!
//! A [`Machine`] is a small directory of *facets*, one per noun of the subject. Asking for a facet gives it,
//! or an [`Absent`] that says why it is not there and what would help. No method fails because it is not implemented,
//! and no empty answer means "not supported".
//!
//! A facet *reads*, and *prepares* changes by reading only. A prepared [`Change`] is a list of [`Step`]s, each
//! of which takes one [`Knob`] from a value it was seen to have to a value it should have, beside the outcome
//! that will be true once all are done.
//!
//! ```text
//!   command ──asks──▶ facet ──prepares──▶ Change { steps, outcome }
//!                                            │
//!   Writer::commit:   journal intents ──▶ apply each step ──▶ settle until nothing is left ──▶ journal commit
//!                                            │ a step is refused
//!                                            └──▶ put back what was applied, newest first ──▶ journal abort
//! ```
//!
//! # What follows
//!
//! * Nothing is written to a machine that is not in the journal first, so that a command can be killed
//!   anywhere: the next [`Writer`] finds the unfinished operation and puts each knob back, but only where the
//!   knob still has one of the two values that the journal names. Anything else was changed by another program,
//!   is left alone, and is reported.
//! * The first step that touches a knob which is not ours keeps its value as the knob's *baseline*; the last
//!   release restores it. Baselines live in the journal; facets read them while preparing.
//! * One operation is all or nothing. Independent operands are separate operations.
//! * A machine may be *unsettled* after a change: threads fork while others are moved. [`Knobs::settle`] says
//!   what is left to do, and commit repeats it until nothing is.
//!
//! This crate knows no kernel, opens no file, and does not decide which job gets which CPUs.

mod abandoned;
mod absent;
mod change;
mod cores;
mod execute;
pub mod facets;
mod journal;
mod keep;
mod launch;
#[cfg(feature = "laws")]
pub mod laws;
mod refusal;

pub use abandoned::{PutBack, put_back_abandoned};
pub use absent::Absent;
pub use change::{Baseline, Change, Knob, Step, Value};
pub use cores::ActiveCores;
pub use execute::{Committed, Finding, Repair, Writer, is_at_rest, repair};
pub use facets::{
    Accounting, Census, Clock, Controls, Counters, Dispatcher, Disturbances, Fences, HardwareCounters,
    Images, Interrupts, LatencyProbe, Lgroups, Pools, Processors, Psets, Sampler, Threads, Zones,
};
pub use journal::{Journal, JournalError, MemoryJournal, Operation, fold, forget_refused};
pub use keep::{Keeper, Weight};
pub use launch::bind_at_start;
use millpond_model::KernelFeature;
pub use refusal::{Holder, KnobError, Reason, Refusal, Subject};

/// The methods that return facets.
macro_rules! facet_methods {
    ($($(#[doc = $what:literal])+ $name:ident: $Facet:ident;)+) => {$(
        $(#[doc = $what])+
        ///
        /// # Errors
        /// [`Absent`] when there is no such facet here.
        fn $name(&self) -> Result<&dyn $Facet, Absent>;
    )+};
}

/// Implements these methods, one line for each: `facets! { self: psets, Psets => Ok(self); }`.
#[macro_export]
macro_rules! facets {
    ($self:ident: $($name:ident, $Facet:ident => $answer:expr;)+) => {$(
        fn $name(&$self) -> Result<&dyn $crate::$Facet, $crate::Absent> {
            $answer
        }
    )+};
}

/// A machine: real, captured in a directory, or simulated.
pub trait Machine: Knobs {
    /// What users call it (`real`, `t2000`, …).
    fn name(&self) -> &str;
    /// Its time. Every machine has one.
    fn clock(&self) -> &dyn Clock;
    /// Its memory of unfinished operations and baselines.
    fn journal(&self) -> &dyn Journal;

    /// What differs from kernel to kernel; none where no kernel is.
    fn kernel_features(&self) -> Vec<KernelFeature> {
        Vec::new()
    }

    facet_methods! {
        /// CPUs, their topology and states.
        processors: Processors;
        /// Processor sets.
        psets: Psets;
        /// Processor sets that more is kept away from than other threads.
        fences: Fences;
        /// Threads and their bindings.
        threads: Threads;
        /// Groups of processes that have a name of their own.
        zones: Zones;
        /// Pools, and what is in them.
        pools: Pools;
        /// Device interrupts and what else is steered away from sheltered CPUs.
        interrupts: Interrupts;
        /// Event counters and time by use, per CPU.
        counters: Counters;
        /// Statistical samples of what runs where.
        sampler: Sampler;
        /// What CPUs were used for, and what waited for them.
        accounting: Accounting;
        /// Scheduling classes, their tables, and which processes are in them.
        dispatcher: Dispatcher;
        /// CPUs and memory by how far they are from each other.
        lgroups: Lgroups;
        /// Counters of hardware's events, per CPU and per thread.
        hardware_counters: HardwareCounters;
        /// Threads that wait for timers, and places for them.
        latency: LatencyProbe;
        /// What disturbs the job of a set of CPUs.
        disturbances: Disturbances;
        /// Everything that lives, and where its time goes.
        census: Census;
        /// CPU shares and CPU caps.
        controls: Controls;
        /// What processes have in memory.
        images: Images;
    }
}

/// The part of a machine that the executor uses: single values with names.
pub trait Knobs {
    /// The present value; `None` when the knob's owner (a thread, a directory) does not exist.
    ///
    /// # Errors
    /// [`KnobError`] when it exists and cannot be read.
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError>;

    /// Sets the value; `None` removes. Returns only when the machine really has it: a machine that accepts
    /// a write and then declares it invalid has refused.
    ///
    /// # Errors
    /// [`KnobError`]; the value is then unchanged.
    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError>;

    /// What is left to do so that the machine is as its live sets, bindings and shelters want it. Empty when
    /// it is. Reads only.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn settle(&self) -> Result<Vec<Step>, Refusal>;

    /// What is still kept of threads, processes, groups and devices that have ended: steps that forget it, and change nothing that lives. It is no
    /// disorder; [`Writer`] does it with each change. Reads only. A machine that forgets by itself has none.
    fn stale(&self) -> Vec<Step> {
        Vec::new()
    }

    /// What people call a knob, for messages: `the processors of set 1`, `interrupt 24 (eth0-rx-0)`. Where the
    /// machine has no better word, the knob's own text.
    fn called(&self, knob: &Knob) -> String {
        knob.to_string()
    }

    /// Tells the programs that follow a pool which CPUs it has, where that differs from what they were told last. Returns what could not be told,
    /// as notes: no change is taken back for that. [`Writer`] calls it, under its lock: when it opens, for the writer before may have been killed
    /// on the way here, and after each change. A machine without pools that can be followed tells nothing.
    fn publish(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether there is nothing that [`Knobs::publish`] would tell. Reads only.
    fn is_published(&self) -> bool {
        true
    }

    /// Lets questions that follow be answered from one reading of the machine, until the guard is dropped or something is written. A machine of which
    /// reading costs nothing has none.
    fn shared_reads(&self) -> Option<Box<dyn Guard>> {
        None
    }

    /// Keeps every other writer out until the guard is dropped. Waits for a writer that is at work, but not
    /// for ever.
    ///
    /// # Errors
    /// [`Refusal`] when the rights are missing, or another writer does not finish.
    fn lock(&self) -> Result<Box<dyn Guard>, Refusal>;

    /// Gives back what the lock has kept for undoing a change: undoing must not fail for want of descriptors.
    fn undoing(&self) {}

    /// Looks whether a writer is at work, without waiting and without keeping one waiting for longer than the answer lives. A machine whose
    /// lock cannot be looked at says so.
    fn writing(&self) -> Writing {
        Writing::Unknown
    }

    /// What tells this boot of the machine from every other one. Journals of another boot are void.
    fn boot_id(&self) -> String;
}

/// Held by the one writer of a machine.
pub trait Guard {}

/// Whether a writer is at work.
pub enum Writing {
    /// One is.
    Now,
    /// None is, and none begins while this is held: the caller drops it at once.
    Nobody(Box<dyn Guard>),
    /// That cannot be told here.
    Unknown,
}
