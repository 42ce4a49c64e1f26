//! The census facet: threads, processes and their microstates. The source of `prstat`.
//!
//! # Where figures come from
//!
//! ```text
//!   programs in the kernel ──▶ a record per thread, in one pass ──┐
//!                                                                 ├──▶ Seen ──▶ ThreadEntry, ProcessEntry
//!   /proc/PID, /proc/PID/task/TID: without programs ──────────────┘                 ▲
//!   /proc/PID: sizes, cgroup, on request ──────────────────────────────────────────┘
//! ```
//!
//! The BPF programs close and begin a span at each switch, wake-up and system call. Nothing is sampled, and the spans of a thread
//! add up to the time for which it was watched (`lib/bpf/programs/microstates`). Two things cannot be measured: traps, and CPU
//! time in a page fault. The end of a fault is not visible, so its CPU time counts as the preceding state of the thread.
//!
//! Without BPF programs, and in a list without a watch, the figures are those that the kernel keeps: CPU time, exact in total and
//! divided into user and system by clock ticks; time waited for a CPU; context switches. The remaining time is sleep.
//!
//! # Priorities
//!
//! Linux has no global priority as Solaris has. These values stand in for it:
//!
//! * TS: 29 at nice 0, one and a half points per nice level, 0 to 59. `SCHED_IDLE` counts as FX, 0.
//! * SYS: 60, and one point per nice level below 0.
//! * RT: 100 plus the level, as in `dispatcher`.
//!
//! Where the scheduler of the classes runs, it supplies class and level of each thread that it schedules.

mod capped;
mod details;
mod entries;
#[cfg(test)]
mod live;
#[cfg(test)]
mod live_faults;
mod locks;
mod proc;
mod programs;
mod wait_causes;
mod watch;

use crate::LinuxMachine;
use millpond_machine::facets::{CensusOptions, CensusWatch};
use millpond_machine::{Absent, Census, Refusal};
use millpond_model::{LockPlace, Pid, Roster};
use std::collections::BTreeMap;

impl Census for LinuxMachine {
    fn list(&self, options: CensusOptions) -> Result<Roster, Refusal> {
        watch::LinuxCensus::open(self, options, false).sample()
    }

    fn watch(&self, options: CensusOptions) -> Result<Box<dyn CensusWatch + '_>, Absent> {
        self.os.root.running(|| {
            Absent::with_help(
                "it is a captured machine, where nothing goes on",
                "leave out the interval to see the figures since the beginning of each process, or give a count of 1",
            )
        })?;
        Ok(Box::new(watch::LinuxCensus::open(self, options, true)))
    }

    fn lock_place(&self, pid: Pid, address: u64) -> Option<LockPlace> {
        let maps = self.os.root.proc.join(format!("{pid}/maps"));
        locks::place(&self.os.root.read(&maps).ok().flatten()?, address)
    }

    fn users(&self) -> BTreeMap<u32, String> {
        let root = self.os.root.proc.parent().unwrap_or(&self.os.root.proc);
        let text = self.os.root.read(&root.join("etc/passwd")).ok().flatten().unwrap_or_default();
        let user = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
            Some((fields.nth(1)?.parse().ok()?, name))
        };
        // Listings show the first of several names.
        text.lines().rev().filter_map(user).collect()
    }
}
