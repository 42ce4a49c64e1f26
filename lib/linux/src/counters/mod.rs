//! Counters and samples of CPUs on Linux: what stands behind `mpstat` and `occupancy`.
//!
//! # Where figures come from
//!
//! Two sources are joined per CPU. The tables of `/proc` are free and count since boot: time by use
//! (`/proc/stat`, whose `cpuN` lines also say which CPUs are active), interrupts (`/proc/interrupts`),
//! the deferred work of devices (`/proc/softirqs`) and, where the kernel keeps it, time slices
//! (`/proc/schedstat`). Everything else is counted for as long as a watch lives: by programs in the kernel at
//! tracepoints (`shared`), and where the kernel does not take one, by *performance events*, one group of them
//! per CPU (`events` is the catalogue: which event makes which column).
//!
//! ```text
//!   /proc tables ────────────┐
//!   programs in the kernel ──┼──▶ join by CPU ──▶ never back ──▶ Sample
//!   a group per CPU ───┘         │
//!        not on shielded CPUs ──┘ their rows lack what only events can tell
//! ```
//!
//! # What an observer does to the observed
//!
//! What programs counted is read from memory, and interrupts no CPU: shielded ones have these columns
//! as all others do. Reading another CPU's events interrupts that CPU, once per group. Hence the groups, and hence
//! events of *shielded* CPUs (members of exclusive sets, those without interrupts, those isolated at boot) are
//! not read unless the watcher asks. Two things reach them all the same: starting and ending a watch patches the kernel's code, for which it interrupts every CPU
//! a few times, and while system calls are counted anywhere each of them, everywhere, takes some 30 ns more.
//!
//! # What follows
//!
//! * Values never go back from one sample of a watch to the next, not even when a CPU leaves and comes
//!   back or begins to be shielded in between: each change of source is bridged by an offset.
//! * What cannot be counted is `None`, and [`Sample::missing`] says why, per column.
//! * The tracing files are read wherever they are mounted, and through an unattached mount where they are not.
//!
//! Where a program runs is another matter: see `residence`, and `sampler` for where that is not to be had.
//!
//! [`Sample::missing`]: millpond_model::Sample::missing

mod changes;
mod descent;
mod events;
#[cfg(test)]
mod live;
mod meter;
mod perf;
mod placement;
mod proc;
mod proc_file;
mod records;
mod residence;
mod ring;
mod sampler;
mod shared;
mod watch;

pub(crate) use perf::allow_descriptors;
pub(crate) use proc::now;

use crate::{LinuxMachine, Root};
use millpond_machine::facets::{CounterWatch, Counters, Method, OccupancyWatch, Sampler, WatchOptions};
use millpond_machine::{Absent, Refusal};
use millpond_model::{CpuId, Nanos, Pid, Sample};

/// How long each active CPU was used since boot.
pub(crate) struct Uses(proc::Tables);

impl Uses {
    /// Opens the table.
    pub(crate) fn open(root: &Root) -> Result<Self, Refusal> {
        Ok(Uses(proc::Tables::open(root)?))
    }

    /// Nanoseconds that were used, and that were idle. Use is sampled by clock ticks, of which a virtual machine misses many; idle time is
    /// measured, where a kernel stops its clock on idle CPUs.
    pub(crate) fn read(&mut self) -> Result<Vec<(CpuId, u64, u64)>, Refusal> {
        self.0.read_active()?;
        let used = |(cpu, t): &(CpuId, millpond_model::Ticks)| {
            (*cpu, t.user.0 + t.sys.0 + t.steal.0, t.idle.0 + t.wait.0)
        };
        Ok(self.0.active().iter().map(used).collect())
    }
}

impl Uses {
    /// Time that the hypervisor took of each active CPU since boot.
    pub(crate) fn stolen(&mut self) -> Result<Vec<(CpuId, Nanos)>, Refusal> {
        self.0.read_active()?;
        Ok(self.0.active().iter().map(|(cpu, ticks)| (*cpu, ticks.steal)).collect())
    }
}

/// The monotonic clock.
pub(crate) fn monotonic() -> Nanos {
    proc::now()
}

impl Counters for LinuxMachine {
    fn since_boot(&self) -> Result<Sample, Refusal> {
        proc::Tables::open(&self.os.root)?.since_boot(&self.placement()?)
    }

    fn watch(&self, options: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
        Ok(Box::new(watch::LinuxWatch::start(&self.os, self.placements(), options)?))
    }
}

impl Sampler for LinuxMachine {
    fn watch(&self, pids: &[Pid], method: Method) -> Result<Box<dyn OccupancyWatch + '_>, Absent> {
        let root: &Root = &self.os.root;
        let sampled = |hz, why| sampler::LinuxOccupancy::start(root, self.placements(), pids, hz, why);
        match method {
            Method::MeasureOrSample(hz) if root.is_live() => {
                match residence::MeasuredOccupancy::start(&self.os, pids) {
                    Ok(watch) => Ok(Box::new(watch)),
                    Err(why) => Ok(Box::new(sampled(hz, Some(why))?)),
                }
            }
            Method::MeasureOrSample(hz) | Method::Sample(hz) => Ok(Box::new(sampled(hz, None)?)),
        }
    }
}
