//! OS noise on the CPUs of a set: the source of `quiet` and `intrstat` on Linux.
//!
//! # Two ways
//!
//! A program in the kernel (`lib/bpf`, `disturbances`) sees each interrupt, timer, soft interrupt, kernel worker and thread begin and end on the
//! watched CPUs, and which CPU sends an interprocessor interrupt; it adds up how often and how long (`programs`). What it knows by a number or an
//! address gets its name here (`names`, `symbols`). Where it may not be loaded, the tables that the kernel keeps anyway are read twice
//! (`tables`): they tell how often and, of threads, how long in all.
//!
//! ```text
//!   tracepoints ──▶ sums, stretches ──▶ programs ──names──▶ Disturbed
//!   /proc/stat (steal) ─────────────────────▲
//!   /proc/interrupts, softirqs, schedstat ──▶ tables ─────▶ Disturbed
//! ```
//!
//! # What watching does
//!
//! Attaching and detaching changes code that every CPU runs, for which the kernel sends each of them a few IPIs. The watch begins after the one
//! and ends before the other. Meanwhile no process is woken or called; the watcher leaves the watched CPUs, if it may run elsewhere.

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
    /// The threads of a job, by number. What ends while this is read may be among them or not.
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

    /// Processes, and whatever descends from them.
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

/// This thread keeps off the watched CPUs for as long as the value lives, if there are others for it. It leaves when it reads for the first time:
/// what it starts before that inherits nothing.
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

    /// Whether it had to leave and did, or had nothing to leave.
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
            // A set that ended meanwhile has its own idea: then that holds.
            let _ = sched_setaffinity(None, before);
        }
    }
}
