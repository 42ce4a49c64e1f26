//! Finds SCHED_DEADLINE threads that prevent a change of CPUs.
//!
//! The kernel has reserved bandwidth for these threads on their CPUs. It refuses every change that would leave too little
//! bandwidth with `EBUSY`, without naming the threads: taking a CPU off-line, shrinking a list or a partition, moving such a
//! thread. This module finds their names.
//!
//! A thread that ends returns its bandwidth soon after. So does a thread that leaves the class while it computes. If a thread
//! leaves the class after sleeping for a while, the kernel (observed on 6.17) breaks the reservation of every thread, even after
//! that thread's end, until it recomputes the bandwidth, as creating a partition does. The hint warns about this.

use crate::LinuxMachine;
use crate::knob::{ControlFile, CpusetFile, TaskId};
use crate::os::BUSY;
use crate::view::is_within;
use millpond_machine::KnobError;
use millpond_model::CpuSet;

/// `policy` of such a thread.
const SCHED_DEADLINE: u64 = 6;

/// The most threads that a message names.
const NAMED_MAX: usize = 4;

/// A SCHED_DEADLINE thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Promised {
    task: TaskId,
    name: String,
}

impl LinuxMachine {
    /// Every SCHED_DEADLINE user thread. The kernel's own do not count for the bandwidth.
    fn promised(&self) -> Vec<Promised> {
        let os = &self.os;
        let mut found = Vec::new();
        for pid in os.pids().unwrap_or_default() {
            for tid in os.tids(pid).unwrap_or_default() {
                let Ok(Some(stat)) = os.stat(pid, Some(tid)) else { continue };
                if stat.policy == SCHED_DEADLINE && !stat.kernel && !stat.dead {
                    let task = TaskId { pid, tid: Some(tid), start: stat.start };
                    found.push(Promised { task, name: stat.comm });
                }
            }
        }
        found
    }

    fn may_run_on(&self, thread: &Promised, cpus: &CpuSet) -> bool {
        self.os.mask(thread.task).is_ok_and(|mask| !mask.is_disjoint(cpus))
    }

    /// Names the threads because of which the kernel refused to write `file`. Other errors, and errors of unrelated files, are
    /// returned unchanged.
    pub(crate) fn explain_busy(&self, file: &ControlFile, error: KnobError) -> KnobError {
        if error != KnobError::Refused(BUSY.into()) {
            return error;
        }
        if let ControlFile::Online(cpu) = file {
            let cpus = CpuSet::from_iter([*cpu]);
            let found: Vec<_> = self.promised().into_iter().filter(|t| self.may_run_on(t, &cpus)).collect();
            return prevented(&found).unwrap_or_else(|| KnobError::Prevented {
                why: "the kernel keeps it on-line".into(),
                hint: "try again in a moment; or take it out of its set first (psrset -r); where a SCHED_DEADLINE thread \
                       has ended just now, make a set and destroy it (psrset -c, psrset -d): the kernel then \
                       counts its promises anew"
                    .into(),
            });
        }
        let ControlFile::Cpuset(group, CpusetFile::Cpus | CpusetFile::ExclusiveCpus | CpusetFile::Partition) =
            file
        else {
            return error;
        };
        let all = self.promised();
        let inside = |t: &&Promised| {
            let at = self.os.place(t.task.pid, t.task.tid).ok().flatten();
            at.is_some_and(|at| is_within(&at, group))
        };
        let within: Vec<Promised> = all.iter().filter(inside).cloned().collect();
        prevented(if within.is_empty() { &all } else { &within }).unwrap_or(error)
    }

    /// The same for a refused move of the task itself.
    pub(crate) fn explain_busy_task(&self, task: TaskId, error: KnobError) -> KnobError {
        if !matches!(&error, KnobError::Refused(why) if why.ends_with(BUSY)) {
            return error;
        }
        let found: Vec<_> = self.promised().into_iter().filter(|t| is_of(t.task, task)).collect();
        prevented(&found).unwrap_or(error)
    }
}

/// Whether `thread` is the task `meant`, or belongs to the process `meant`.
fn is_of(thread: TaskId, meant: TaskId) -> bool {
    thread.pid == meant.pid && (meant.tid.is_none() || meant.tid == thread.tid)
}

/// The refusal that names the threads; `None` if there are none.
fn prevented(threads: &[Promised]) -> Option<KnobError> {
    let first = threads.first()?;
    let name = |t: &Promised| format!("{}/{} ({})", t.task.pid, t.task.leader(), t.name);
    let mut names: Vec<String> = threads.iter().take(NAMED_MAX).map(name).collect();
    if threads.len() > NAMED_MAX {
        names.push(format!("{} more", threads.len() - NAMED_MAX));
    }
    let who = if threads.len() == 1 { "thread" } else { "threads" };
    Some(KnobError::Prevented {
        why: format!("the kernel has promised its time to {who} {} (SCHED_DEADLINE)", names.join(", ")),
        hint: format!(
            "end them; or give them another class while they compute, not while they sleep: chrt -o -p 0 {}",
            first.task.leader()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_for_whom_the_kernel_refuses_are_named() {
        let thread =
            |tid: u32| Promised { task: TaskId { pid: 7, tid: Some(tid), start: 1 }, name: "radar".into() };
        assert_eq!(prevented(&[]), None);
        let one = prevented(&[thread(9)]).unwrap();
        assert_eq!(
            one.to_string(),
            "the kernel has promised its time to thread 7/9 (radar) (SCHED_DEADLINE)"
        );
        let many = prevented(&(7..13).map(thread).collect::<Vec<_>>()).unwrap();
        assert_eq!(
            many.to_string(),
            "the kernel has promised its time to threads 7/7 (radar), 7/8 (radar), 7/9 (radar), 7/10 (radar), \
             2 more (SCHED_DEADLINE)"
        );
    }
}
