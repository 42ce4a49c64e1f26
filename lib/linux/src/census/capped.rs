//! Finds runnable threads that wait because of the CPU cap of a cgroup.
//!
//! The kernel reports for a cgroup how long its run queues were throttled, and for a thread only that it is runnable. A runnable
//! thread counts as throttled if, since the previous reading, a cgroup above it was throttled for longer than it ran.

use super::entries::Seen;
use crate::Os;
use crate::controls::tree::per_second;
use crate::view::with_ancestors;
use millpond_model::{Doing, Nanos};
use std::collections::BTreeMap;

/// Figures of capped cgroups at the previous reading.
#[derive(Debug, Default)]
pub(super) struct CappedGroups(BTreeMap<String, Figures>);

/// Throttled time and CPU time of a capped cgroup, and the CPU time per second that the cap allows.
#[derive(Debug, Clone, Copy)]
struct Figures {
    lost: Nanos,
    used: Option<Nanos>,
    quota: Nanos,
}

impl CappedGroups {
    /// Marks threads that wait for a cap. Reads only files of cgroups with runnable threads.
    pub(super) fn mark(&mut self, os: &Os, at: Nanos, before: Option<Nanos>, seen: &mut [Seen]) {
        let mut places: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut now: BTreeMap<String, Option<Figures>> = BTreeMap::new();
        for thread in seen.iter().filter(|thread| thread.doing == Doing::Runnable) {
            let above = places.entry(thread.pid).or_insert_with(|| groups_above(os, thread.pid));
            for path in above.iter() {
                now.entry(path.clone()).or_insert_with(|| figures(os, path));
            }
        }
        let now: BTreeMap<_, _> = now.into_iter().filter_map(|(path, it)| Some((path, it?))).collect();
        let is_stopped = |path: &String| {
            let (now, then) = now.get(path).zip(self.0.get(path))?;
            let lost = now.lost - then.lost;
            // Where CPU time is not counted, assume the most that the cap allows.
            let passed = before.map_or(0.0, |before| (at - before).as_secs_f64());
            let used = now.used.zip(then.used).map(|(now, then)| (now - then).as_secs_f64());
            let used = used.unwrap_or(passed * now.quota.as_secs_f64());
            Some(lost > Nanos(0) && lost.as_secs_f64() > used)
        };
        for thread in seen.iter_mut().filter(|thread| thread.doing == Doing::Runnable) {
            let above = places.get(&thread.pid).map(Vec::as_slice).unwrap_or_default();
            if above.iter().any(|path| is_stopped(path).unwrap_or(false)) {
                thread.doing = Doing::Capped;
            }
        }
        self.0 = now;
    }
}

/// The cgroup of a process in the hierarchy of the CPU controller, and its ancestors.
fn groups_above(os: &Os, pid: u32) -> Vec<String> {
    os.cpu_place(pid).ok().flatten().map(|place| with_ancestors(&place)).unwrap_or_default()
}

fn figures(os: &Os, path: &str) -> Option<Figures> {
    let quota = per_second(&os.kernel_quota(path).ok().flatten()?)?;
    let (used, throttled) = os.cpu_figures(path);
    Some(Figures { lost: throttled?.time, used, quota: Nanos(quota.saturating_mul(1_000)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::census::entries::tests::seen;
    use std::fs;

    #[test]
    fn a_thread_that_could_run_waits_for_the_cap_of_a_group_that_was_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        for (pid, line) in [(7, "0::/pod/app\n"), (8, "0::/other\n")] {
            fs::create_dir_all(root.proc.join(pid.to_string())).unwrap();
            fs::write(root.proc.join(format!("{pid}/cgroup")), line).unwrap();
        }
        let stat = |lost: u64, used: u64| {
            format!("usage_usec {used}\nnr_periods 10\nnr_throttled 9\nthrottled_usec {lost}\n")
        };
        for (group, quota) in [("pod", "20000 100000"), ("pod/app", "max 100000"), ("other", "20000 100000")]
        {
            fs::create_dir_all(root.cgroup.join(group)).unwrap();
            fs::write(root.cgroup.join(group).join("cpu.max"), quota).unwrap();
            fs::write(root.cgroup.join(group).join("cpu.stat"), stat(100, 100)).unwrap();
            fs::write(root.cgroup.join(group).join("cgroup.controllers"), "cpu\n").unwrap();
        }
        fs::write(root.cgroup.join("cgroup.controllers"), "cpuset cpu\n").unwrap();
        fs::write(root.cgroup.join("cgroup.subtree_control"), "cpuset cpu\n").unwrap();
        let pod = root.cgroup.join("pod/cpu.stat");
        let os = Os::new(root);
        let runnable = |pid| Seen { doing: Doing::Runnable, ..seen(pid, pid) };
        let look = |groups: &mut CappedGroups, at: u64| {
            let mut seen = [runnable(7), seen(7, 9), runnable(8)];
            groups.mark(&os, Nanos::from_secs(at), at.checked_sub(1).map(Nanos::from_secs), &mut seen);
            seen.map(|seen| seen.doing)
        };
        let mut groups = CappedGroups::default();
        let (run, sleep) = (Doing::Runnable, Doing::Asleep);
        assert_eq!(look(&mut groups, 0), [run, sleep, run], "nothing is known of a first look");
        fs::write(&pod, stat(800_100, 200_100)).unwrap();
        assert_eq!(look(&mut groups, 1), [Doing::Capped, sleep, run]);
        assert_eq!(look(&mut groups, 2), [run, sleep, run], "it was stopped no longer");
    }
}
