//! OS noise on the CPUs of a set: the source of `quiet` and `intrstat` on Linux.
//!
//! # Two ways
//!
//! BPF programs (`lib/bpf`, `disturbances`) record the begin and end of each interrupt, timer, softirq, kernel worker and thread on the
//! watched CPUs, and the sender of each interprocessor interrupt. They add up counts and times (`programs`). This module translates numbers and
//! addresses into names (`names`, `symbols`). Where BPF programs cannot be loaded, it reads the kernel's own tables twice
//! (`tables`): these have counts and, for threads, total times.
//!
//! ```text
//!   tracepoints ──▶ sums, stretches ──▶ programs ──names──▶ Disturbed
//!   /proc/stat (steal) ─────────────────────▲
//!   /proc/interrupts, softirqs, schedstat ──▶ tables ─────▶ Disturbed
//! ```
//!
//! # Side effects of watching
//!
//! Attaching and detaching changes code that every CPU runs, so the kernel sends a few IPIs to each CPU. The watch begins after attaching
//! and ends before detaching. In between no process is woken up. The watcher leaves the watched CPUs if it may run on others.

mod names;
mod programs;
mod symbols;
mod tables;
#[cfg(test)]
mod tests;

use crate::LinuxMachine;
use crate::readiness::real_time_settings;
use millpond_machine::facets::{DisturbanceWatch, Disturbances, Job, WatchedJob};
use millpond_machine::{Absent, Refusal, Threads};
use millpond_model::{CpuSet, Pid, RealTimeSetting};
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;

impl Disturbances for LinuxMachine {
    fn real_time_settings(&self) -> Result<Vec<RealTimeSetting>, Absent> {
        Ok(real_time_settings(&self.os))
    }

    fn watch(&self, what: &WatchedJob) -> Result<Box<dyn DisturbanceWatch + '_>, Absent> {
        self.os.root.running(|| Absent::because("it is a captured machine, where nothing goes on"))?;
        let by_tables = |why: &str| tables::ByTables::start(self, what, why);
        if what.by_counts {
            return Ok(Box::new(by_tables("this was asked for")?));
        }
        match programs::ByPrograms::start(self, what) {
            Ok(watch) => Ok(Box::new(watch)),
            Err(why) => Ok(Box::new(by_tables(&why)?)),
        }
    }
}

impl LinuxMachine {
    /// The thread IDs of a job. A thread that ends meanwhile may be included or not.
    fn threads_of_job(&self, job: &Job) -> Result<BTreeSet<u32>, Refusal> {
        let mut threads = BTreeSet::new();
        if !job.sets.is_empty() {
            let bound = self.bound()?;
            let members = bound.iter().filter(|status| job.sets.contains(&status.set));
            threads.extend(members.map(|status| status.lwp.lwp.0));
        }
        if !job.pids.is_empty() {
            let family = self.descendants(&job.pids);
            threads.extend(family.iter().flat_map(|pid| self.os.tids(pid.0).unwrap_or_default()));
        }
        Ok(threads)
    }

    /// Processes and all their descendants.
    fn descendants(&self, pids: &[Pid]) -> BTreeSet<Pid> {
        let parent = |pid: u32| Some((Pid(pid), Pid(self.os.stat(pid, None).ok()??.ppid?)));
        let parents: Vec<(Pid, Pid)> =
            self.os.pids().unwrap_or_default().into_iter().filter_map(parent).collect();
        let mut family: BTreeSet<Pid> = pids.iter().copied().collect();
        loop {
            let before = family.len();
            let born = parents.iter().filter(|(_, parent)| family.contains(parent)).map(|(child, _)| *child);
            let born: Vec<Pid> = born.collect();
            family.extend(born);
            if family.len() == before {
                return family;
            }
        }
    }
}

/// Keeps this thread off the watched CPUs until the value is dropped, if it may run on others. The value is created at the first reading, so that
/// processes started before that do not inherit the mask.
struct Aside {
    before: Option<Mask>,
}

impl Aside {
    fn of(watched: &CpuSet) -> Aside {
        let Ok(before) = sched_getaffinity(None) else { return Aside { before: None } };
        let mut others = before;
        for cpu in watched.iter().filter_map(|cpu| usize::try_from(cpu.0).ok()) {
            if cpu < Mask::MAX_CPU {
                others.unset(cpu);
            }
        }
        let left = others.count() > 0 && others != before && sched_setaffinity(None, &others).is_ok();
        Aside { before: left.then_some(before) }
    }

    /// Whether this thread cannot run on the watched CPUs.
    fn is_aside(&self, watched: &CpuSet) -> bool {
        let now = sched_getaffinity(None);
        now.is_ok_and(|mask| {
            watched
                .iter()
                .all(|cpu| usize::try_from(cpu.0).is_ok_and(|cpu| cpu >= Mask::MAX_CPU || !mask.is_set(cpu)))
        })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // This can fail if a set has ended meanwhile. Then the mask that the kernel has set stays.
            let _ = sched_setaffinity(None, before);
        }
    }
}
