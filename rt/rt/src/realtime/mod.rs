//! Real-time set-up of a thread: one call that sets up all it needs, reports what was refused and why, and can be undone.
//!
//! ```no_run
//! use millpond_rt::realtime::{SchedulingClass, Setup, Want};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let realtime = Setup::new()
//!     .require(Want::Class(SchedulingClass::Fifo { priority: 80 }))
//!     .require(Want::Cpus("2-3".parse()?))
//!     .require(Want::Memory)
//!     .require(Want::Heap(64 << 20))
//!     .require(Want::Stack)
//!     .wish(Want::IdleLatency(Duration::ZERO))
//!     .begin()?;
//! for outcome in realtime.outcomes() {
//!     eprintln!("{outcome}");
//! }
//! // ... time-critical work ...
//! realtime.undo()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//!
//! * An *item*: one of the seven things that can be set up. Each is set up as wanted, or not at all.
//! * *Required*: if it is refused, the call fails and undoes everything. *Wished*: if it is refused, the call continues.
//! * An *outcome*: the result for an item. A refusal has a sentence that names the remedy.
//! * A [`Realtime`]: the set-up state. [`Realtime::undo`] or dropping it ends it.
//! * A [`Calm`]: counts faults, switches and migrations over a section, so that their absence is checked.
//!
//! # Order
//!
//! Items are set up in this order, and undone in reverse:
//!
//! 1. *CPUs*: first-touch allocation uses memory near the current CPU, and the affinity of a deadline thread cannot be changed.
//! 2. *Memory*: later mappings, heap and stack, are then locked, too.
//! 3. *Heap* and 4. *stack*: pre-faulting takes up to a second for a few GB. A real-time thread would keep all others from its CPU meanwhile.
//! 5. *Idle latency*.
//! 6. *Timer slack*: kernels ignore it for real-time threads. A thread that leaves a real-time class gets the slack of its process.
//! 7. *Class*, entered last and left first, so that no set-up code runs in it.
//!
//! # Scope
//!
//! CPUs, stack, timer slack and class belong to the calling thread, and only it can undo them: a [`Realtime`] is not `Send`. Memory, heap and idle
//! latency belong to the process, until the last thread that requested them has undone it. Locked stacks count with memory: while either is in
//! use, both stay locked.
//!
//! Threads that are created later inherit CPUs and class (a deadline thread cannot create any). The child of a fork has no locks, and its copy
//! of a [`Realtime`] has no effect.
//!
//! # What undo cannot restore
//!
//! * The main stack stays as large as it has grown.
//! * The allocator's settings cannot be read. They are set to glibc's initial values (`M_MMAP_MAX` 65536, `M_TRIM_THRESHOLD` 128 KB), and glibc
//!   does not adapt them any more.
//! * Memory that was locked on fault (`MLOCK_ONFAULT`) is pre-faulted when it is locked again.
//! * Changes of the program itself in between, such as its own `mlock`, are overwritten.
//!
//! # Processor sets
//!
//! `psrset` creates processor sets and lists their CPUs. A thread that requests exactly those CPUs runs in the set. The kernel silently restricts a
//! mask to the cpuset of the process. Here that is a refusal, which names the missing CPUs.

mod calm;
mod class;
mod cpus;
mod delays;
mod files;
mod heap;
mod holders;
mod memory;
mod outcome;
mod rights;

pub(crate) use calm::Counts;
pub use calm::{Calm, CalmSection, Disturbances, MigrationSource};
pub use class::SchedulingClass;
pub use cpus::{CpuListError, CpuMask};
pub(crate) use files::{mappings, mappings_max};
pub use outcome::{Item, Outcome, RealtimeError, Refusal};
pub(crate) use rights::limit;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A wanted item with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Want {
    /// Run on these CPUs.
    Cpus(CpuMask),
    /// Lock all memory of the process, current and future.
    Memory,
    /// The allocator holds this many bytes, pre-faulted, for the calling thread, and keeps them when they are freed.
    ///
    /// With glibc each thread has memory of its own: call it in the thread that allocates. Other allocators have no such setting. The result is
    /// verified, and an allocator that returned its memory is a refusal.
    Heap(usize),
    /// Make the calling thread's whole stack resident and lock it, as by [`stack_lock`](crate::stack_lock).
    Stack,
    /// No CPU enters an idle state with a longer wake-up latency, in whole microseconds. Zero: CPUs poll when idle, which costs power.
    IdleLatency(Duration),
    /// Maximum delay of the thread's timers. The kernel uses it to expire several timers at once.
    TimerSlack(Duration),
    /// Enter that class.
    Class(SchedulingClass),
}

impl Want {
    /// The item.
    #[must_use]
    pub fn item(&self) -> Item {
        match self {
            Want::Cpus(_) => Item::Cpus,
            Want::Memory => Item::Memory,
            Want::Heap(_) => Item::Heap,
            Want::Stack => Item::Stack,
            Want::IdleLatency(_) => Item::IdleLatency,
            Want::TimerSlack(_) => Item::TimerSlack,
            Want::Class(_) => Item::Class,
        }
    }

    fn get(&self) -> Result<Undo, Refusal> {
        Ok(match self {
            Want::Cpus(mask) => Undo::Cpus(cpus::enter(mask)?),
            Want::Memory => memory::lock().map(|()| Undo::Memory)?,
            Want::Heap(bytes) => Undo::Heap(heap::keep(*bytes)?),
            Want::Stack => memory::lock_stack().map(|()| Undo::Stack)?,
            Want::IdleLatency(limit) => Undo::IdleLatency(delays::limit_idle_latency(*limit)?),
            Want::TimerSlack(slack) => Undo::TimerSlack(delays::set_timer_slack(*slack)?),
            Want::Class(class) => Undo::Class(class::enter(*class)?),
        })
    }
}

impl fmt::Display for Want {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::Cpus(mask) if mask.is_empty() => write!(out, "none"),
            Want::Cpus(mask) => write!(out, "{mask}"),
            Want::Memory => write!(out, "all of it locked"),
            Want::Heap(bytes) => write!(out, "{bytes} bytes kept"),
            Want::Stack => write!(out, "all of it resident and locked"),
            Want::IdleLatency(limit) => write!(out, "{limit:?}"),
            Want::TimerSlack(slack) => write!(out, "{slack:?}"),
            Want::Class(class) => write!(out, "{class}"),
        }
    }
}

/// The order of set-up. The head of this file gives the reasons.
pub(crate) const ORDER: [Item; 7] =
    [Item::Cpus, Item::Memory, Item::Heap, Item::Stack, Item::IdleLatency, Item::TimerSlack, Item::Class];

/// State that restores an item.
#[derive(Debug)]
enum Undo {
    Cpus(CpuMask),
    Memory,
    Heap(heap::Kept),
    Stack,
    IdleLatency(files::IdleLatency),
    TimerSlack(Duration),
    Class(class::Attributes),
}

impl Undo {
    fn run(self) -> Result<(), Refusal> {
        match self {
            Undo::Cpus(before) => cpus::leave(&before),
            Undo::Memory | Undo::Stack => memory::unlock(),
            Undo::Heap(kept) => {
                heap::release(kept);
                Ok(())
            }
            Undo::IdleLatency(request) => {
                drop(request);
                Ok(())
            }
            Undo::TimerSlack(before) => delays::restore_timer_slack(before),
            Undo::Class(before) => class::leave(&before),
        }
    }
}

/// The current state of an item, as text.
fn had(item: Item, undo: Option<&Undo>) -> String {
    match (item, undo) {
        (Item::Cpus, _) => cpus::current().map_or_else(|error| error.to_string(), |mask| mask.to_string()),
        (Item::Memory, _) => memory::locked(),
        (Item::Heap, Some(Undo::Heap(kept))) => format!("{} bytes kept", kept.bytes),
        (Item::Heap, _) => "nothing kept".into(),
        (Item::Stack, _) => memory::resident(),
        (Item::IdleLatency, Some(Undo::IdleLatency(request))) => delays::idle_latency(Some(request)),
        (Item::IdleLatency, _) => delays::idle_latency(None),
        (Item::TimerSlack, _) => delays::timer_slack(),
        (Item::Class, _) => class::current(),
    }
}

/// The wanted items of a thread. [`begin`](Setup::begin) sets them up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Setup {
    /// Wanted items, and whether each is required. At most one of each kind.
    wants: Vec<(Want, bool)>,
}

impl Setup {
    /// No items.
    pub fn new() -> Setup {
        Setup::default()
    }

    /// Adds a required item: without it the call fails. It replaces an earlier one of its kind.
    pub fn require(self, want: Want) -> Setup {
        self.with(want, true)
    }

    /// Adds an optional item. It replaces an earlier one of its kind.
    pub fn wish(self, want: Want) -> Setup {
        self.with(want, false)
    }

    fn with(mut self, want: Want, is_required: bool) -> Setup {
        self.wants.retain(|(other, _)| other.item() != want.item());
        self.wants.push((want, is_required));
        self
    }

    /// Sets up all items for the calling thread.
    ///
    /// # Errors
    /// [`RealtimeError::Required`]: a required item is refused. It is the last outcome. Everything is restored.
    pub fn begin(&self) -> Result<Realtime, RealtimeError> {
        let mut begun = Realtime {
            outcomes: Vec::with_capacity(self.wants.len()),
            undo: Vec::with_capacity(self.wants.len()),
            thread: thread(),
            not_send: PhantomData,
        };
        for item in ORDER {
            let Some((want, is_required)) = self.wants.iter().find(|(want, _)| want.item() == item) else {
                continue;
            };
            begun.add(want, *is_required);
            if *is_required && begun.outcomes.last().is_some_and(|outcome| outcome.refusal.is_some()) {
                return Err(begun.fail());
            }
        }
        Ok(begun)
    }
}

/// The set-up state of a thread. Dropping it undoes the set-up.
#[derive(Debug)]
#[must_use = "what was set up is undone when this is dropped"]
pub struct Realtime {
    outcomes: Vec<Outcome>,
    undo: Vec<(Item, Undo)>,
    thread: i64,
    not_send: PhantomData<*mut ()>,
}

impl Realtime {
    /// The outcome of each item, in the order of set-up.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Whether no item was refused.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.refusal.is_none())
    }

    /// Restores everything, in reverse order.
    ///
    /// # Errors
    /// [`RealtimeError::Undo`]: items that could not be restored, for example because a right was given up meanwhile. All others were.
    pub fn undo(mut self) -> Result<(), RealtimeError> {
        let failed = self.run_undo();
        if failed.is_empty() { Ok(()) } else { Err(RealtimeError::Undo(failed)) }
    }

    /// Whether the caller is the thread that began it. False in the child of a fork, and (from C) in other threads.
    pub(crate) fn is_own(&self) -> bool {
        self.thread == thread()
    }

    fn add(&mut self, want: &Want, is_required: bool) {
        let (undo, refusal) = match want.get() {
            Ok(undo) => (Some(undo), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let note = match want {
            Want::Class(class) if refusal.is_none() => class::note(*class),
            _ => None,
        };
        self.outcomes.push(Outcome {
            item: want.item(),
            is_required,
            wanted: want.to_string(),
            had: had(want.item(), undo.as_ref()),
            refusal,
            note,
        });
        self.undo.extend(undo.map(|undo| (want.item(), undo)));
    }

    /// Undoes everything after a required item was refused.
    fn fail(mut self) -> RealtimeError {
        let failed = self.run_undo();
        for outcome in &mut self.outcomes {
            if let Some(now) = failed.iter().find(|now| now.item == outcome.item) {
                outcome.refusal.clone_from(&now.refusal);
            }
        }
        RealtimeError::Required(std::mem::take(&mut self.outcomes))
    }

    /// Returns the items that could not be restored.
    fn run_undo(&mut self) -> Vec<Outcome> {
        let undo = std::mem::take(&mut self.undo);
        if !self.is_own() {
            return Vec::new();
        }
        let failed = undo.into_iter().rev().filter_map(|(item, undo)| {
            let refusal = undo.run().err()?;
            let before = self.outcomes.iter().find(|outcome| outcome.item == item)?.clone();
            let wanted = "how it was".to_owned();
            Some(Outcome { wanted, had: had(item, None), refusal: Some(refusal), note: None, ..before })
        });
        failed.collect()
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        // Failures are ignored here; `undo` reports them.
        self.run_undo();
    }
}

fn thread() -> i64 {
    // SAFETY: the call has no effect.
    unsafe { libc::syscall(libc::SYS_gettid) }
}
