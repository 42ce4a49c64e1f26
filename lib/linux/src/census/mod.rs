//! The census facet: threads and processes, and where the time of each goes. What stands behind `prstat`.
//!
//! # Where figures come from
//!
//! ```text
//!   programs in the kernel ──▶ a record per thread, in one pass ──┐
//!                                                                 ├──▶ Seen ──▶ ThreadEntry, ProcessEntry
//!   /proc/PID, /proc/PID/task/TID: without programs ──────────────┘                 ▲
//!   /proc/PID: sizes, cgroup, where they are asked for ─────────────────────────────┘
//! ```
//!
//! Programs close and begin a span at each switch, wake-up and system call, so that nothing is sampled and the spans of a thread add up to the
//! time for which it was watched (`lib/bpf/programs/microstates`). What cannot be told: traps; and CPU time in a fault, which has
//! no end that could be seen and counts as the time of whatever the thread did before.
//!
//! Without programs, and in a list without a watch, there is what the kernel keeps by itself: CPU time, exact as a sum and divided as clock
//! ticks found it; how long it waited for a CPU; switches. Sleep is what remains.
//!
//! # Priorities
//!
//! There is no global priority of Solaris here. TS: 29 for a thread that is not nice, and one and a half points for each of nice, 0 to 59;
//! SCHED_IDLE, which is FX, 0. SYS: 60, and a point more for each that is less nice than 0. RT: 100 and the level, as in `dispatcher`.
//! Where the scheduler of the classes is at work, it is asked for class and level of each thread that it schedules.

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
        // The first of several names is the one that listings show.
        text.lines().rev().filter_map(user).collect()
    }
}
