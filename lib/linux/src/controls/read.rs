//! Readings of cgroups for plans and for listings.

use super::plan::{ControlView, CpuGroup, Wanted};
use super::record::Held;
use super::tree::{IDLE, per_second, without_kept};
use crate::knob::{LinuxKnob, TaskId};
use crate::os::knob_error;
use crate::view::ancestors;
use crate::{LinuxMachine, Os, names};
use millpond_machine::KnobError;
use millpond_machine::facets::{Controlled, Throttled};
use millpond_model::{ControlHolder, CpuCap, Nanos, Pid, Shares};
use std::collections::{BTreeMap, BTreeSet};

impl LinuxMachine {
    /// The cgroups of `wanted`, those with recorded controls, and all ancestors.
    pub(super) fn control_view(&self, wanted: &Wanted) -> Result<ControlView, (String, KnobError)> {
        let recorded = self.recorded_controls();
        let v1 = self.os.cpu_tree().map_err(|e| ("the CPU controller".to_owned(), e))?.v1;
        let baselines = self.journal.baselines();
        let mut paths: BTreeSet<String> = wanted.keys().chain(recorded.keys()).cloned().collect();
        for knob in baselines.keys() {
            if let Ok(LinuxKnob::Weight(path) | LinuxKnob::Quota(path) | LinuxKnob::CpuController(path)) =
                LinuxKnob::parse(knob)
            {
                paths.insert(path);
            }
        }
        let above: Vec<String> = paths.iter().flat_map(|path| ancestors(path)).collect();
        paths.extend(above);
        paths.insert("/".to_owned());
        let mut view = ControlView { v1, baselines, groups: BTreeMap::new() };
        for path in paths {
            if let Some(group) =
                self.read_cpu_group(&path, &view, wanted.contains_key(&path), recorded.get(&path))?
            {
                view.groups.insert(path, group);
            }
        }
        Ok(view)
    }

    fn read_cpu_group(
        &self,
        path: &str,
        view: &ControlView,
        is_wanted: bool,
        held: Option<&Held>,
    ) -> Result<Option<CpuGroup>, (String, KnobError)> {
        let at = |e: KnobError| (path.to_owned(), e);
        if self.os.cpu_group(path).map_err(at)?.is_none() {
            return Ok(None);
        }
        let mut group = CpuGroup { by_systemd: self.os.cpu_unit(path).is_some(), ..CpuGroup::default() };
        if path != "/" {
            let value = |value: Result<Option<String>, KnobError>| match value {
                // The unit has ended, or no unit has this directory.
                Err(KnobError::Gone) => Ok(None),
                value => value.map_err(at),
            };
            let is_named =
                is_wanted || held.is_some() || view.baselines.keys().any(|knob| is_about(knob, path));
            if is_named {
                group.weight = value(self.os.weight(path))?;
                group.quota = value(self.os.quota(path))?;
            }
        }
        if !view.v1 && view.baselines.contains_key(&LinuxKnob::CpuController(path.to_owned()).knob()) {
            group.used_below = self.is_used_below(path, view).map_err(at)?;
        }
        if !view.v1 {
            group.controller = self.os.cpu_controller(path).map_err(at)?.is_some();
        }
        if names::is_control_group(path) {
            group.tasks = self.os.processes_in(path).map_err(at)?;
            let home = held.and_then(|held| held.task.clone()).map(|(_, home)| home);
            group.home = home.filter(|home| self.os.cpu_group(home).is_ok_and(|is| is.is_some()));
        }
        Ok(Some(group))
    }

    /// Whether a direct child had a weight or quota before our first change, or was given one since.
    fn is_used_below(&self, path: &str, view: &ControlView) -> Result<bool, KnobError> {
        for name in self.os.cpu_groups(path)? {
            let below = format!("{}/{name}", path.trim_end_matches('/'));
            if names::is_control_group(&below) {
                continue;
            }
            let original = |knob: LinuxKnob, is: Option<String>| match view.baselines.get(&knob.knob()) {
                Some(original) => original.clone(),
                None => is,
            };
            let weight = original(LinuxKnob::Weight(below.clone()), self.os.kernel_weight(&below)?);
            let quota = original(LinuxKnob::Quota(below.clone()), self.os.kernel_quota(&below)?);
            let by_us = view.baselines.contains_key(&LinuxKnob::CpuController(below.clone()).knob());
            if weight.is_some() || quota.is_some() || (!by_us && self.os.cpu_controller(&below)?.is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The controls of a holder, and its current figures from the kernel.
    pub(super) fn read_controlled(&self, holder: ControlHolder, path: &str) -> Controlled {
        let recorded = self.recorded_controls();
        let of_kernel = || self.os.kernel_weight(path).ok().flatten().and_then(|w| self.shares_of_weight(&w));
        let shares = recorded.get(path).and_then(|held| held.shares).or_else(of_kernel);
        let quota = self.os.kernel_quota(path).ok().flatten();
        let cap = quota.as_deref().and_then(per_second).and_then(cap_of);
        let (used, throttled) = self.os.cpu_figures(path);
        Controlled { holder, shares, cap, used, throttled }
    }

    /// The number of shares that a weight equals, if it is a whole number.
    pub(super) fn shares_of_weight(&self, weight: &str) -> Option<Shares> {
        let (weight, _) = without_kept(weight);
        if weight == IDLE {
            return Shares::new(0).ok();
        }
        let one = self.os.cpu_tree().ok()?.default_weight();
        let weight: u64 = weight.parse().ok()?;
        let shares = u32::try_from(weight / one).ok()?;
        Shares::new(shares).ok().filter(|_| weight.is_multiple_of(one) && shares > 0)
    }

    /// The cap that a quota equals.
    pub(super) fn cap_of_quota(&self, path: &str, quota: &str) -> Option<CpuCap> {
        match self.os.cpu_unit(path) {
            Some(_) => cap_of(without_kept(quota).0.parse().ok()?),
            None => cap_of(per_second(quota)?),
        }
    }
}

fn is_about(knob: &millpond_machine::Knob, path: &str) -> bool {
    matches!(LinuxKnob::parse(knob), Ok(LinuxKnob::Weight(p) | LinuxKnob::Quota(p)) if p == path)
}

/// Microseconds per second as percent of one CPU, rounded.
fn cap_of(us_per_second: u64) -> Option<CpuCap> {
    let percent = us_per_second.saturating_add(5_000) / 10_000;
    CpuCap::new(u32::try_from(percent).ok()?.max(1)).ok()
}

impl Os {
    /// The processes of a group.
    fn processes_in(&self, path: &str) -> Result<Vec<TaskId>, KnobError> {
        let file = self.cpu_tree()?.dir(path).join("cgroup.procs");
        let text = self.root.read(&file).map_err(knob_error)?.unwrap_or_default();
        let pids = text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
        let task = |pid| {
            let stat = self.stat(pid, None).ok().flatten()?;
            Some(TaskId { pid, tid: None, start: stat.start })
        };
        Ok(pids.filter_map(task).collect())
    }

    /// CPU time of a process.
    pub(super) fn cpu_time(&self, pid: Pid) -> Option<Nanos> {
        let text = self.root.read_value(&self.root.proc.join(format!("{pid}/schedstat"))).ok().flatten()?;
        // `schedstat` covers only the first thread, so the result is `None` for processes with several.
        let threads = self.tids(pid.0).ok()?;
        let first: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        (threads.len() == 1).then_some(Nanos(first))
    }

    /// CPU time of a cgroup, and the throttled time of its cap: from `cpu.stat`, on version 1 with the figure of `cpuacct`.
    pub(crate) fn cpu_figures(&self, path: &str) -> (Option<Nanos>, Option<Throttled>) {
        let text = self.cpu_stat(path).ok().flatten().unwrap_or_default();
        let figure = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let micros = |name| figure(name).map(|us| Nanos(us.saturating_mul(1_000)));
        let used = micros("usage_usec").or_else(|| self.cpuacct(path).map(Nanos));
        let time = micros("throttled_usec").or_else(|| figure("throttled_time").map(Nanos));
        let period = self.kernel_quota(path).ok().flatten();
        let period = period.and_then(|quota| quota.split_once(' ')?.1.parse::<u64>().ok());
        let period = Nanos(period.unwrap_or(super::tree::PERIOD_US) * 1_000);
        let throttled = time.zip(figure("nr_throttled")).zip(figure("nr_periods"));
        let throttled = throttled.map(|((time, periods), of)| Throttled { time, periods, of, period });
        (used, throttled)
    }
}
