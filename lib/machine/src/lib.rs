//! The Machine interface: operations on any machine, independent of its kind.
//!
//! # Nouns
//!
//! A [`Machine`] is a collection of *facets*, one per noun of the subject. The method for a facet returns it, or an [`Absent`] with the
//! reason and a remedy. No method fails because it is not implemented, and no empty result means "not supported".
//!
//! A facet *reads*, and *prepares* changes by reading only. A prepared [`Change`] is a list of [`Step`]s and the outcome after all of them.
//! A step takes one [`Knob`] from the value that was read to the requested value.
//!
//! ```text
//!   command ──calls─▶ facet ──prepares──▶ Change { steps, outcome }
//!                                            │
//!   Writer::commit:   journal intents ──▶ apply each step ──▶ settle until nothing is left ──▶ journal commit
//!                                            │ a step is refused
//!                                            └──▶ undo applied steps, newest first ──▶ journal abort
//! ```
//!
//! # What follows
//!
//! * Everything is written to the journal before it is written to a machine, so a command can be killed at any point. The next [`Writer`]
//!   finds the unfinished operation and restores each knob, but only if the knob still has one of the two values in the journal. Any other
//!   value was written by another program; it stays and is reported.
//! * The first step that touches a foreign knob keeps its value as the *baseline* of the knob; the last release restores it. Baselines are
//!   stored in the journal; facets read them while preparing.
//! * One operation is all or nothing. Independent operands are separate operations.
//! * A machine may be *unsettled* after a change: threads fork while others are moved. [`Knobs::settle`] returns
//!   the remaining steps, and commit repeats it until there are none.
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
        /// [`Absent`] if the machine does not have this facet.
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
    /// Its name for users (`real`, `t2000`, …).
    fn name(&self) -> &str;
    /// Its clock. Every machine has one.
    fn clock(&self) -> &dyn Clock;
    /// Its journal of unfinished operations and baselines.
    fn journal(&self) -> &dyn Journal;

    /// Features that differ between kernels; empty without a kernel.
    fn kernel_features(&self) -> Vec<KernelFeature> {
        Vec::new()
    }

    facet_methods! {
        /// CPUs, their topology and states.
        processors: Processors;
        /// Processor sets.
        psets: Psets;
        /// Named processor sets that also exclude interrupts and kernel threads.
        fences: Fences;
        /// Threads and their bindings.
        threads: Threads;
        /// Named groups of processes.
        zones: Zones;
        /// Pools and their members.
        pools: Pools;
        /// Device interrupts, and other work that is moved away from sheltered CPUs.
        interrupts: Interrupts;
        /// Event counters and time by use, per CPU.
        counters: Counters;
        /// Run time of programs by CPU.
        sampler: Sampler;
        /// CPU time and run-queue delay by set.
        accounting: Accounting;
        /// Scheduling classes, their tables, and the classes of processes.
        dispatcher: Dispatcher;
        /// CPUs and memory by distance.
        lgroups: Lgroups;
        /// Hardware event counters, per CPU and per thread.
        hardware_counters: HardwareCounters;
        /// Threads that measure timer wake-up latency, and reserved CPUs for them.
        latency: LatencyProbe;
        /// OS noise on a set of CPUs.
        disturbances: Disturbances;
        /// All processes and threads with their microstates.
        census: Census;
        /// CPU shares and CPU caps.
        controls: Controls;
        /// Memory of processes.
        images: Images;
    }
}

/// The part of a machine that the executor uses: named values.
pub trait Knobs {
    /// The present value; `None` if the owner of the knob (a thread, a directory) does not exist.
    ///
    /// # Errors
    /// [`KnobError`] if it exists and cannot be read.
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError>;

    /// Sets the value; `None` removes it. Returns only after the machine has really accepted it: a machine that accepts
    /// a write and then declares it invalid has refused.
    ///
    /// # Errors
    /// [`KnobError`]; the value is then unchanged.
    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError>;

    /// The remaining steps to the state that the live sets, bindings and shelters require. Empty if the machine is settled. Reads only.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn settle(&self) -> Result<Vec<Step>, Refusal>;

    /// Steps that remove stored data about ended threads, processes, groups and devices, and change nothing else. Such data does not
    /// make the machine unsettled; [`Writer`] removes it with each change. Reads only. A machine without such data returns none.
    fn stale(&self) -> Vec<Step> {
        Vec::new()
    }

    /// The name of a knob for messages: `the processors of set 1`, `interrupt 24 (eth0-rx-0)`. The default is the text of the knob.
    fn called(&self, knob: &Knob) -> String {
        knob.to_string()
    }

    /// Updates the notices of pools for their subscribers, if the CPUs differ from the last notice. Returns failures as notes: no change is
    /// undone because of them. [`Writer`] calls it, under its lock: when it opens, because the previous writer may have been killed before
    /// this step, and after each change. A machine without notices does nothing.
    fn publish(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether [`Knobs::publish`] would do nothing. Reads only.
    fn is_published(&self) -> bool {
        true
    }

    /// Shares one reading of the machine among the following queries, until the guard is dropped or something is written. `None` if reading
    /// the machine is cheap.
    fn shared_reads(&self) -> Option<Box<dyn Guard>> {
        None
    }

    /// Excludes all other writers until the guard is dropped. Waits for an active writer, but not forever.
    ///
    /// # Errors
    /// [`Refusal`] if permission is missing, or another writer does not finish.
    fn lock(&self) -> Result<Box<dyn Guard>, Refusal>;

    /// Releases the reserve that the lock holds for undo, which must not fail because of missing file descriptors.
    fn undoing(&self) {}

    /// Checks whether a writer is active, without waiting. Blocks other writers only for the lifetime of the result. The default is for a machine
    /// without such a check.
    fn writing(&self) -> Writing {
        Writing::Unknown
    }

    /// The identifier of the present boot. Journals of other boots are void.
    fn boot_id(&self) -> String;
}

/// Held by the one writer of a machine.
pub trait Guard {}

/// Whether a writer is active.
pub enum Writing {
    /// A writer is active.
    Now,
    /// No writer is active, and none can start while the guard exists: the caller drops it at once.
    Nobody(Box<dyn Guard>),
    /// Unknown on this machine.
    Unknown,
}
