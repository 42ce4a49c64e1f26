//! Counters and samples of CPUs on Linux: the source of `mpstat` and `occupancy`.
//!
//! # Sources
//!
//! Two sources are joined per CPU. The tables of `/proc` cost nothing and count since boot: time by use (`/proc/stat`, whose
//! `cpuN` lines also list the active CPUs), interrupts (`/proc/interrupts`), softirqs of devices (`/proc/softirqs`) and, where
//! the kernel has it, time slices (`/proc/schedstat`). Everything else is counted only while a watch exists: by BPF programs at
//! tracepoints (`shared`), or, where the kernel does not accept a program, by *performance events*, one group per CPU (`events`
//! has the table of events and columns).
//!
//! ```text
//!   /proc tables ──────────────┐
//!   BPF programs ──────────────┼──▶ join by CPU ──▶ monotonic meters ──▶ Sample
//!   an event group per CPU ────┘
//!        (not on shielded CPUs: their rows lack columns that only events can count)
//! ```
//!
//! # Overhead
//!
//! Counts of BPF programs are read from shared memory. This interrupts no CPU, so shielded CPUs have these columns like all
//! others. Reading events of another CPU interrupts that CPU, once per group. This is the reason for groups, and the reason why
//! events of *shielded* CPUs (members of exclusive sets, CPUs without interrupts, CPUs isolated at boot) are only read on
//! request. Two effects reach shielded CPUs in any case. Starting and ending a watch patches kernel code, which interrupts every
//! CPU a few times. And while system calls are counted, each system call on any CPU takes about 30 ns more.
//!
//! # Guarantees
//!
//! * Values never decrease from one sample of a watch to the next, not even when a CPU goes off-line and comes back or becomes
//!   shielded in between: each change of source is bridged by an offset.
//! * A column that cannot be counted is `None`, and [`Sample::missing`] has the reason, per column.
//! * The tracing files are read wherever they are mounted, and through an unattached mount where they are not.
//!
//! For the CPUs that a program runs on, see `residence`, and `sampler` for kernels that do not support it.
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

/// CPU time used on each active CPU since boot.
pub(crate) struct Uses(proc::Tables);

impl Uses {
    /// Opens the table.
    pub(crate) fn open(root: &Root) -> Result<Self, Refusal> {
        Ok(Uses(proc::Tables::open(root)?))
    }

    /// Used and idle time in nanoseconds. Used time is sampled by clock ticks, of which a virtual machine misses many. Idle time
    /// is measured, if the kernel stops the clock of idle CPUs.
    pub(crate) fn read(&mut self) -> Result<Vec<(CpuId, u64, u64)>, Refusal> {
        self.0.read_active()?;
        let used = |(cpu, t): &(CpuId, millpond_model::Ticks)| {
            (*cpu, t.user.0 + t.sys.0 + t.steal.0, t.idle.0 + t.wait.0)
        };
        Ok(self.0.active().iter().map(used).collect())
    }
}

impl Uses {
    /// Steal time of each active CPU since boot.
    pub(crate) fn stolen(&mut self) -> Result<Vec<(CpuId, Nanos)>, Refusal> {
        self.0.read_active()?;
        Ok(self.0.active().iter().map(|(cpu, ticks)| (*cpu, ticks.steal)).collect())
    }
}

/// The time of the monotonic clock.
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
