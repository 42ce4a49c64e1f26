//! A thread becomes a real-time thread: one call that sets up all it needs, says what could not be had and why, and can be undone.
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
//! // ... what must be in time ...
//! realtime.undo()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//!
//! * An *item*: one of the seven things that can be set up. Each is set up as wanted, or not at all.
//! * *Required*: without it the call fails, and everything that was done is undone. *Wished*: without it the call goes on.
//! * An *outcome*: what became of an item, with the sentence that says what helps.
//! * A [`Realtime`]: what was set up. It ends by [`Realtime::undo`], or when it is dropped.
//! * A [`Calm`]: counts faults, switches and migrations over a section, so that "none happened" is checked.
//!
//! # The order
//!
//! Items are set up in this order, and undone in reverse:
//!
//! 1. *CPUs*: memory comes from near the CPU that touches it first, and a deadline thread cannot be moved any more.
//! 2. *Memory*: what is mapped after it, heap and stack, is locked.
//! 3. *Heap* and 4. *stack*: faulting in takes up to a second for a few GB. A real-time thread would keep all others from its CPU meanwhile.
//! 5. *Idle latency*.
//! 6. *Timer slack*: kernels ignore it for real-time threads, and a thread that leaves a real-time class gets the slack of its process.
//! 7. *Class*, last and left first: nothing of ours runs in it.
//!
//! # Scope
//!
//! CPUs, stack, timer slack and class belong to the calling thread, and only it can undo them: a [`Realtime`] is not `Send`. Memory, heap and idle
//! latency belong to the process, until the last thread that asked for them has undone it. Locked stacks count with memory: as long as either is in
//! use, what is locked stays locked.
//!
//! Threads that are created later inherit CPUs and class (a deadline thread cannot create any). A child that is forked has no locks, and its copy
//! of a [`Realtime`] does nothing.
//!
//! # What cannot be put back
//!
//! * The main stack stays as large as it has grown.
//! * The allocator does not tell its settings: it gets those that glibc begins with (`M_MMAP_MAX` 65536, `M_TRIM_THRESHOLD` 128 KB), which do not
//!   adapt any more.
//! * What was locked to be faulted in later (`MLOCK_ONFAULT`) is faulted in when it is locked again.
//! * What the program itself changed in between, such as its own `mlock`, is overwritten.
//!
//! # Processor sets
//!
//! `psrset` makes sets and says which CPUs they have; a thread that asks for those runs in the set. The kernel silently cuts a mask to the cpuset of the
//! process. Here that is a refusal, which names the missing CPUs.

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

/// A thing that is wanted, with what it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Want {
    /// The thread runs on these CPUs.
    Cpus(CpuMask),
    /// All memory of the process is locked: what there is, and what is mapped later.
    Memory,
    /// The allocator has so many bytes, faulted in, for the calling thread, and keeps them when they are freed.
    ///
    /// With glibc each thread has memory of its own: ask in the thread that allocates. Other allocators cannot be told to keep anything; they are
    /// looked at, and an allocator that gave its memory back is a refusal.
    Heap(usize),
    /// The whole stack of the calling thread is resident and locked, as by [`stack_lock`](crate::stack_lock).
    Stack,
    /// No CPU enters an idle state with a longer wake-up latency. Zero: none is idle at all, and all of them get warm. In whole microseconds.
    IdleLatency(Duration),
    /// Timers of the thread are at most that late, so that the kernel can serve some at once.
    TimerSlack(Duration),
    /// The thread is in that class.
    Class(SchedulingClass),
}

impl Want {
    /// What it is about.
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

/// The order in which items are set up; the head of this file argues it.
pub(crate) const ORDER: [Item; 7] =
    [Item::Cpus, Item::Memory, Item::Heap, Item::Stack, Item::IdleLatency, Item::TimerSlack, Item::Class];

/// How a thing is put back.
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

/// What there is of an item, in words.
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

/// What a thread wants: built, then begun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Setup {
    /// One of each item at most; whether it is required.
    wants: Vec<(Want, bool)>,
}

impl Setup {
    /// Nothing yet.
    pub fn new() -> Setup {
        Setup::default()
    }

    /// The call is to fail without it. What was said of that item before does not count any more.
    pub fn require(self, want: Want) -> Setup {
        self.with(want, true)
    }

    /// It would be good to have. What was said of that item before does not count any more.
    pub fn wish(self, want: Want) -> Setup {
        self.with(want, false)
    }

    fn with(mut self, want: Want, is_required: bool) -> Setup {
        self.wants.retain(|(other, _)| other.item() != want.item());
        self.wants.push((want, is_required));
        self
    }

    /// Sets it up, for the calling thread.
    ///
    /// # Errors
    /// [`RealtimeError::Required`]: a required thing cannot be had, the last of its outcomes. Everything is as it was before.
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

/// What a thread has; undone when it is dropped.
#[derive(Debug)]
#[must_use = "what was set up is undone when this is dropped"]
pub struct Realtime {
    outcomes: Vec<Outcome>,
    undo: Vec<(Item, Undo)>,
    thread: i64,
    not_send: PhantomData<*mut ()>,
}

impl Realtime {
    /// What became of each item that was asked for, in the order in which they were set up.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Whether everything that was wished for was had, too.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.refusal.is_none())
    }

    /// Puts everything back to how it was, in reverse.
    ///
    /// # Errors
    /// [`RealtimeError::Undo`]: what could not be, for example because a right was given up meanwhile. Everything else was.
    pub fn undo(mut self) -> Result<(), RealtimeError> {
        let failed = self.run_undo();
        if failed.is_empty() { Ok(()) } else { Err(RealtimeError::Undo(failed)) }
    }

    /// Whether the caller is the thread that it was begun by: no child of it, and in C no other thread.
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

    /// Undoes what was done so far, and tells of that which was required.
    fn fail(mut self) -> RealtimeError {
        let failed = self.run_undo();
        for outcome in &mut self.outcomes {
            if let Some(now) = failed.iter().find(|now| now.item == outcome.item) {
                outcome.refusal.clone_from(&now.refusal);
            }
        }
        RealtimeError::Required(std::mem::take(&mut self.outcomes))
    }

    /// Gives what could not be put back.
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
        // `undo` tells what could not be put back.
        self.run_undo();
    }
}

fn thread() -> i64 {
    // SAFETY: it only asks.
    unsafe { libc::syscall(libc::SYS_gettid) }
}
