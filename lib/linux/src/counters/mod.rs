//! Counters and samples of processors on Linux: what stands behind `mpstat` and `occupancy`.
//!
//! # Where figures come from
//!
//! Two sources are joined per processor. The tables of `/proc` are free and count since boot: time by use
//! (`/proc/stat`, whose `cpuN` lines also say which processors are active), interrupts (`/proc/interrupts`),
//! the deferred work of devices (`/proc/softirqs`) and, where the kernel keeps it, time slices
//! (`/proc/schedstat`). Everything else is counted by *performance events* that we open for as long as a watch
//! lives, one group of them per processor (`events` is the catalogue: which event makes which column).
//!
//! ```text
//!   /proc tables ────────────┐
//!                            ├──▶ join by processor ──▶ never back ──▶ Sample
//!   a group per processor ───┘         │
//!        not on sheltered processors ──┘ their rows are made of /proc alone
//! ```
//!
//! # What an observer does to the observed
//!
//! Reading another processor's events interrupts that processor, once per group. Hence the groups, and hence
//! *sheltered* processors (members of exclusive sets, those without interrupts, those isolated at boot) are
//! left alone unless the watcher asks: their rows lack what only events can tell. Two things reach them all
//! the same: starting and ending a watch patches the kernel's code, for which it interrupts every processor
//! a few times, and while system calls are counted anywhere each of them, everywhere, takes some 30 ns more.
//!
//! # What follows
//!
//! * Values never go back from one sample of a watch to the next, not even when a processor leaves and comes
//!   back or begins to be sheltered in between: each change of source is bridged by an offset.
//! * What cannot be counted is `None`, and [`Sample::missing`] says why, per column.
//! * The tracing files are read wherever they are mounted, and through an unattached mount where they are not.
//!
//! Statistical samples of where a program runs are another matter: see `sampler`.
//!
//! [`Sample::missing`]: millpond_model::Sample::missing

mod events;
mod interrupts;
#[cfg(test)]
mod live;
mod perf;
mod placement;
mod proc;
mod schedstat;
mod stat;
mod text;
mod tracefs;
mod watch;

pub use placement::Placement;

use crate::Root;
use millpond_machine::facets::{CounterWatch, Counters, WatchOptions};
use millpond_machine::{Absent, Refusal};
use millpond_model::Sample;
use std::fmt;

/// The facet: counters of the machine under `root`, whose sets and shelters `placement` tells.
pub struct LinuxCounters<F> {
    root: Root,
    placement: F,
}

impl<F: Fn() -> Result<Placement, Refusal>> LinuxCounters<F> {
    /// `placement` is asked once per sample, so it should be quick.
    #[must_use]
    pub fn new(root: Root, placement: F) -> Self {
        LinuxCounters { root, placement }
    }
}

impl<F> fmt::Debug for LinuxCounters<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinuxCounters").field("root", &self.root).finish_non_exhaustive()
    }
}

impl<F: Fn() -> Result<Placement, Refusal>> Counters for LinuxCounters<F> {
    fn since_boot(&self) -> Result<Sample, Refusal> {
        since_boot(&self.root, &(self.placement)()?)
    }

    fn watch(&self, options: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
        watch(&self.root, &self.placement, options)
    }
}

/// The counters since boot, from `/proc` alone.
///
/// # Errors
/// [`Refusal`] when `/proc/stat` cannot be read or names no processor.
pub fn since_boot(root: &Root, placement: &Placement) -> Result<Sample, Refusal> {
    proc::Tables::open(root)?.since_boot(placement)
}

/// Starts counting. `placement` is asked once per sample.
///
/// # Errors
/// [`Absent`] on a captured machine, where nothing goes on.
pub fn watch<'a>(
    root: &Root,
    placement: impl Fn() -> Result<Placement, Refusal> + 'a,
    options: WatchOptions,
) -> Result<Box<dyn CounterWatch + 'a>, Absent> {
    Ok(Box::new(watch::LinuxWatch::start(root, Box::new(placement), options)?))
}
