//! Checks of the machine before the class scheduler is started.
//!
//! | check | source |
//! |---|---|
//! | sched_ext | `/sys/kernel/sched_ext`, and the release |
//! | isolcpus | `/sys/devices/system/cpu/isolated` |
//! | cgroup weights, idle cgroups, cgroup caps | `cpu.weight`, `cpu.idle`, `cpu.max` of cgroups with processes in them or below; in version 1 `cpu.shares`, `cpu.cfs_quota_us` |
//! | real-time threads | CPU time of threads under SCHED_FIFO and SCHED_RR, from two readings |

use super::{NAME as OURS, which};
use crate::LinuxMachine;
use crate::controls::tree::IDLE;
use crate::knob::TaskId;
use crate::policy::Policy;
use crate::settings::kernel_settings;
use millpond_formats::proc_tables::parse_thread;
use millpond_machine::Machine;
use millpond_machine::facets::{SchedulerCheck, SchedulerOutcome};
use millpond_model::{CpuSet, Nanos, printable};

/// The most cgroups or threads that are named.
const NAMED: usize = 5;
/// Time between the two readings of real-time threads.
const BETWEEN_LOOKS: Nanos = Nanos::from_millis(100);
/// A thread that ran for more than this percentage of that time never sleeps. The fair server may take 5 percent from it.
const BUSY_PERCENT: u64 = 90;

/// A cgroup with a setting other than the default.
struct Ruled {
    path: String,
    is: String,
}

/// Cgroups with a weight, idle cgroups, and cgroups with a cap.
#[derive(Default)]
struct AllRuled {
    weights: Vec<Ruled>,
    idle: Vec<Ruled>,
    caps: Vec<Ruled>,
}

impl LinuxMachine {
    /// Each check, in the order of the table.
    pub(crate) fn class_scheduler_checks(&self) -> Vec<SchedulerCheck> {
        let mut all = AllRuled::default();
        self.ruled("/", &mut all);
        let is_told_of_idle = self.os.tells_schedulers_of_idle_groups();
        vec![
            self.check_sched_ext(),
            self.check_isolated(),
            check_ruled(
                "cgroup weights",
                &all.weights,
                Some("give user priorities instead (priocntl -s), or a cap (cpu.max)"),
            ),
            check_ruled(
                "idle cgroups",
                &all.idle,
                (!is_told_of_idle)
                    .then_some("boot Linux 6.19 or later, or give user priorities (priocntl -s)"),
            ),
            check_ruled("cgroup caps", &all.caps, None),
            self.check_real_time(),
        ]
    }

    fn check_sched_ext(&self) -> SchedulerCheck {
        const NAME: &str = "sched_ext";
        // Users other than root cannot query the scheduler, but can see that it is loaded.
        if self.sched_ext("state").as_deref() == Some("enabled")
            && self.sched_ext("root/ops").as_deref() == Some(OURS)
        {
            return good(NAME, format!("millpond schedd is at work, for {}", which(self.schedules_all())));
        }
        match self.may_start_classes() {
            Ok(()) => good(NAME, "present; no scheduler is loaded"),
            Err(absent) => check(NAME, SchedulerOutcome::Prevents, absent.why, absent.what_would_help),
        }
    }

    fn check_isolated(&self) -> SchedulerCheck {
        const NAME: &str = "isolcpus";
        let isolated = kernel_settings(&self.os.root).isolated;
        if isolated.is_empty() {
            return good(NAME, "no CPU");
        }
        let is = format!("{}: with isolcpus= the kernel takes no scheduler", isolated.named());
        check(NAME, SchedulerOutcome::Prevents, is, Some(ISOLATED_HELP.to_owned()))
    }

    /// Collects cgroups with a weight, idle ones and those with a cap. Returns whether this cgroup or a descendant has processes.
    fn ruled(&self, path: &str, all: &mut AllRuled) -> bool {
        let Ok(tree) = &self.os.cpu else { return false };
        let dir = tree.dir(path);
        let procs = self.os.root.read_value(&dir.join("cgroup.procs")).ok().flatten();
        let mut populated = procs.is_some_and(|procs| !procs.trim().is_empty());
        let (weights, idle, caps) = (all.weights.len(), all.idle.len(), all.caps.len());
        for name in self.os.root.dirs(&dir).unwrap_or_default() {
            populated |= self.ruled(&format!("{}/{name}", path.trim_end_matches('/')), all);
        }
        if populated && path != "/" {
            let own = |is: String| Ruled { path: path.to_owned(), is };
            if let Some(weight) = self.os.kernel_weight(path).ok().flatten() {
                if weight == IDLE {
                    all.idle.insert(idle, own("cpu.idle 1".to_owned()));
                } else {
                    all.weights.insert(weights, own(format!("{} {weight}", tree.weight_file())));
                }
            }
            let quota = self.os.kernel_quota(path).ok().flatten();
            let file = if tree.v1 { "cpu.cfs_quota_us" } else { "cpu.max" };
            if let Some(quota) = quota.filter(|quota| !quota.starts_with("max") && !quota.starts_with('-')) {
                all.caps.insert(caps, own(format!("{file} {quota}")));
            }
        }
        populated
    }

    fn check_real_time(&self) -> SchedulerCheck {
        const NAME: &str = "real-time threads";
        if self.os.has_ext_server() {
            return good(NAME, "the kernel keeps 5 percent of each CPU for the classes");
        }
        let found = self.real_time_threads();
        let before: Vec<Option<Nanos>> = found.iter().map(|(task, _)| self.ran(*task)).collect();
        let begun = self.clock().now();
        let looks_twice = self.os.root.is_live() && !found.is_empty();
        if looks_twice {
            self.clock().sleep_until(begun + BETWEEN_LOOKS);
        }
        let passed = self.clock().now() - begun;
        let is_busy = |task: TaskId, before: Option<Nanos>| {
            let ran = self.ran(task).zip(before).map(|(after, before)| after - before);
            ran.is_some_and(|ran| never_sleeps(ran, passed))
        };
        let shown = found.iter().zip(before);
        let shown = shown.filter(|((task, _), before)| !looks_twice || is_busy(*task, *before));
        let names: Vec<String> = shown.map(|((task, name), _)| self.named(*task, name)).collect();
        match (names.is_empty(), looks_twice) {
            (true, _) => good(NAME, "none that never sleeps"),
            (false, true) => check(
                NAME,
                SchedulerOutcome::Ends,
                format!(
                    "{}: never sleeps; a thread of a class that may run on its CPU alone waits for ever, and the kernel ends the scheduler after 30 s",
                    some(&names)
                ),
                Some("boot Linux 7.0, or keep bound threads off these CPUs (psrset -c)".to_owned()),
            ),
            (false, false) => check(
                NAME,
                SchedulerOutcome::Unknown,
                format!("{}: whether one never sleeps is not told", some(&names)),
                None,
            ),
        }
    }

    /// Threads of programs under SCHED_FIFO and SCHED_RR, with their names.
    fn real_time_threads(&self) -> Vec<(TaskId, String)> {
        let of = |pid: u32| {
            let tids = self.os.tids(pid).unwrap_or_default();
            tids.into_iter().filter_map(move |tid| {
                let stat = self.os.stat(pid, Some(tid)).ok()??;
                let task = TaskId { pid, tid: Some(tid), start: stat.start };
                let is_real_time = matches!(self.policy_of(task, &stat)?, Policy::Fifo(_) | Policy::Rr(_));
                (is_real_time && !stat.kernel && !stat.dead).then_some((task, stat.comm))
            })
        };
        self.os.pids().unwrap_or_default().into_iter().flat_map(of).collect()
    }

    fn ran(&self, task: TaskId) -> Option<Nanos> {
        let file = self.os.root.proc.join(format!("{}/task/{}/schedstat", task.pid, task.leader()));
        Some(parse_thread(&self.os.root.read_value(&file).ok()??)?.ran)
    }

    fn named(&self, task: TaskId, name: &str) -> String {
        let cpus: Option<CpuSet> = self.os.fs.affinity(&self.os, task).ok();
        let place = cpus.map_or_else(String::new, |cpus| format!(" on {}", cpus.named()));
        format!("{} ({}/{}){place}", printable(name), task.pid, task.leader())
    }
}

/// Whether a thread with this run time in this interval never sleeps.
fn never_sleeps(ran: Nanos, passed: Nanos) -> bool {
    ran.0 > passed.0 / 100 * BUSY_PERCENT
}

/// The remedy for isolcpus.
pub(super) const ISOLATED_HELP: &str = "boot without it, and isolate CPUs by a processor set (psrset -c)";

fn check(
    name: &str,
    outcome: SchedulerOutcome,
    is: impl Into<String>,
    remedy: Option<String>,
) -> SchedulerCheck {
    SchedulerCheck { name: name.to_owned(), outcome, is: is.into(), remedy }
}

fn good(name: &str, is: impl Into<String>) -> SchedulerCheck {
    check(name, SchedulerOutcome::Good, is, None)
}

/// A check of cgroups with a setting. `remedy` is given if the setting has no effect on threads of the scheduler; `None` if it has.
fn check_ruled(name: &str, found: &[Ruled], remedy: Option<&str>) -> SchedulerCheck {
    if found.is_empty() {
        return good(name, "none is set");
    }
    let named: Vec<String> =
        found.iter().map(|Ruled { path, is }| format!("{} {is}", printable(path))).collect();
    let named = some(&named);
    let Some(remedy) = remedy else {
        return good(name, format!("observed for threads that it schedules: {named}"));
    };
    let is = format!("no effect on threads that it schedules: {named}");
    check(name, SchedulerOutcome::Ignored, is, Some(remedy.to_owned()))
}

/// The first names, and the number of further ones.
fn some(all: &[String]) -> String {
    let shown = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_never_sleeps_that_ran_nearly_always() {
        let passed = Nanos::from_millis(100);
        assert!(
            never_sleeps(Nanos::from_millis(95), passed) && !never_sleeps(Nanos::from_millis(90), passed)
        );
    }

    #[test]
    fn five_are_named_and_the_others_counted() {
        let names: Vec<String> = (0..7).map(|n| n.to_string()).collect();
        assert_eq!(some(&names[..5]), "0, 1, 2, 3, 4");
        assert_eq!(some(&names), "0, 1, 2, 3, 4 and 2 more");
    }
}
