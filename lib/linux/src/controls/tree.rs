//! The CPU controller: its location, and the values of its files.
//!
//! | value | version 2 | version 1 | systemd | the default, which is no value |
//! |---|---|---|---|---|
//! | weight | `cpu.weight`, `cpu.idle` | `cpu.shares`, `cpu.idle` | `CPUWeight` | 100, 1024, unset |
//! | quota | `cpu.max` | `cpu.cfs_quota_us`, `cpu.cfs_period_us` | `CPUQuotaPerSecUSec` | `max 100000`, `-1`, unset |
//!
//! A weight is a number or `idle`. A quota is `150000 100000` (quota and period in µs, `max` for no limit); for a unit of systemd
//! it is `1500000` (µs per second). The suffix in `1500000 kept` marks a value that comes from the unit's files and was not set
//! for this boot: restoring it leaves no drop-in.

use crate::cpu_tree::{CpuTree, lists_cpu};
use crate::knob::TaskId;
use crate::os::{NO_ROOM, knob_error};
use crate::{Os, is_gone, names};
use millpond_machine::{KnobError, Value};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// The period of quotas: the kernel's default.
pub(crate) const PERIOD_US: u64 = 100_000;
const NO_QUOTA: &str = "max 100000";
const NO_QUOTA_V1: &str = "-1 100000";
/// The weight value of an idle cgroup, below all numbers.
pub(crate) const IDLE: &str = "idle";
/// The suffix of a value that comes from the files of a unit.
const KEPT: &str = " kept";
const WEIGHT: &str = "CPUWeight";
const QUOTA: &str = "CPUQuotaPerSecUSec";

impl Os {
    /// The hierarchy of the CPU controller.
    pub(crate) fn cpu_tree(&self) -> Result<&CpuTree, KnobError> {
        self.cpu.as_ref().map_err(|absent| KnobError::Refused(absent.why.clone()))
    }

    pub(crate) fn cpu_value(&self, path: &str, file: &str) -> Result<Option<String>, KnobError> {
        let file = self.cpu_tree()?.dir(path).join(file);
        let text = self.root.read_value(&file).map_err(knob_error)?;
        Ok(text.map(|text| text.trim().to_owned()))
    }

    fn write_cpu(&self, path: &str, file: &str, text: &str) -> Result<(), KnobError> {
        self.write(&self.cpu_tree()?.dir(path).join(file), text)
    }

    /// The unit of systemd whose properties determine the values of a cgroup.
    pub(crate) fn cpu_unit(&self, path: &str) -> Option<String> {
        names::unit(path).filter(|_| self.systemd)
    }

    /// The weight of a cgroup in the kernel; `None` for the default, or where the controller is not enabled.
    pub(crate) fn kernel_weight(&self, path: &str) -> Result<Option<Value>, KnobError> {
        if self.cpu_value(path, "cpu.idle")?.as_deref() == Some("1") {
            return Ok(Some(IDLE.to_owned()));
        }
        let tree = self.cpu_tree()?;
        let weight = self.cpu_value(path, tree.weight_file())?;
        Ok(weight.filter(|weight| *weight != tree.default_weight().to_string()))
    }

    /// The quota of a cgroup in the kernel; `None` for no limit.
    pub(crate) fn kernel_quota(&self, path: &str) -> Result<Option<Value>, KnobError> {
        if self.cpu_tree()?.v1 {
            let quota = self.cpu_value(path, "cpu.cfs_quota_us")?;
            let period = self.cpu_value(path, "cpu.cfs_period_us")?;
            let both = quota.zip(period).map(|(quota, period)| format!("{quota} {period}"));
            return Ok(both.filter(|both| both != NO_QUOTA_V1));
        }
        Ok(self.cpu_value(path, "cpu.max")?.filter(|quota| quota != NO_QUOTA))
    }

    /// The weight of a cgroup: from systemd for a unit, else from the kernel's files.
    pub(crate) fn weight(&self, path: &str) -> Result<Option<Value>, KnobError> {
        match self.cpu_unit(path) {
            Some(unit) => Ok(self.unit_number(&unit, WEIGHT)?.map(|weight| match weight {
                0 => self.marked(&unit, WEIGHT, IDLE.to_owned()),
                weight => self.marked(&unit, WEIGHT, weight.to_string()),
            })),
            None => self.kernel_weight(path),
        }
    }

    /// Sets the weight; `None` is the default.
    pub(crate) fn set_weight(&self, path: &str, value: Option<&str>) -> Result<(), KnobError> {
        let (value, kept) = value.map(without_kept).unzip();
        let wanted = value.map(|value| if value == IDLE { "0" } else { value });
        if let Some(unit) = self.cpu_unit(path) {
            let number = wanted.map(str::parse::<u64>).transpose();
            let number = number.map_err(|_| KnobError::Unknown(format!("weight {value:?}")))?;
            self.set_unit_number(&unit, WEIGHT, number)?;
            let is_set = || Ok(value.is_none() || self.is_weight(path, value)?);
            self.wait_for_unit(path, is_set, "its weight is not what systemd was asked for")?;
            return if kept == Some(true) { self.leave_to_files(&unit, WEIGHT) } else { Ok(()) };
        }
        let is_idle = self.cpu_value(path, "cpu.idle")?;
        if value == Some(IDLE) {
            return match is_idle {
                Some(_) => self.write_cpu(path, "cpu.idle", "1"),
                None => Err(no_idle()),
            };
        }
        if is_idle.as_deref() == Some("1") {
            self.write_cpu(path, "cpu.idle", "0")?;
        }
        let tree = self.cpu_tree()?;
        let default = tree.default_weight().to_string();
        self.write_cpu(path, tree.weight_file(), wanted.unwrap_or(&default))
    }

    /// A property of a unit, marked as kept unless it was set for this boot.
    fn marked(&self, unit: &str, property: &str, value: Value) -> Value {
        if self.is_set_for_this_boot(unit, property) { value } else { value + KEPT }
    }

    fn is_weight(&self, path: &str, value: Option<&str>) -> Result<bool, KnobError> {
        let default = self.cpu_tree()?.default_weight().to_string();
        Ok(self.kernel_weight(path)?.as_deref() == value.filter(|value| *value != default))
    }

    /// The quota of a cgroup: from systemd for a unit, else from the kernel's files.
    pub(crate) fn quota(&self, path: &str) -> Result<Option<Value>, KnobError> {
        match self.cpu_unit(path) {
            Some(unit) => {
                let us = self.unit_number(&unit, QUOTA)?;
                Ok(us.map(|us| self.marked(&unit, QUOTA, us.to_string())))
            }
            None => self.kernel_quota(path),
        }
    }

    /// Sets the quota; `None` is no limit.
    pub(crate) fn set_quota(&self, path: &str, value: Option<&str>) -> Result<(), KnobError> {
        let unknown = || KnobError::Unknown(format!("quota {value:?}"));
        if let Some(unit) = self.cpu_unit(path) {
            let (value, kept) = value.map(without_kept).unzip();
            let number = value.map(str::parse::<u64>).transpose().map_err(|_| unknown())?;
            self.set_unit_number(&unit, QUOTA, number)?;
            let is_set = || match number {
                // The quota from the unit's own files may apply again.
                None => Ok(true),
                Some(number) => Ok(self.kernel_quota(path)?.and_then(|q| per_second(&q)) == Some(number)),
            };
            self.wait_for_unit(path, is_set, "its quota is not what systemd was asked for")?;
            return if kept == Some(true) { self.leave_to_files(&unit, QUOTA) } else { Ok(()) };
        }
        if !self.cpu_tree()?.v1 {
            return self.write_cpu(path, "cpu.max", value.unwrap_or(NO_QUOTA));
        }
        let (quota, period) = value.unwrap_or(NO_QUOTA_V1).split_once(' ').ok_or_else(unknown)?;
        let before = self.kernel_quota(path)?;
        let write = |quota: &str, period: &str| {
            if self.cpu_value(path, "cpu.cfs_period_us")?.as_deref() != Some(period) {
                // While there is no quota, every period is accepted.
                self.write_cpu(path, "cpu.cfs_quota_us", "-1")?;
                self.write_cpu(path, "cpu.cfs_period_us", period)?;
            }
            self.write_cpu(path, "cpu.cfs_quota_us", quota)
        };
        write(quota, period).inspect_err(|_| {
            // Two files are written. If the second one is refused, restore the first.
            if let Some((quota, period)) = before.as_deref().unwrap_or(NO_QUOTA_V1).split_once(' ') {
                let _ = write(quota, period);
            }
        })
    }

    /// Whether the controller is enabled below a cgroup (version 2).
    pub(crate) fn cpu_controller(&self, path: &str) -> Result<Option<Value>, KnobError> {
        let text = self.cpu_value(path, "cgroup.subtree_control")?.unwrap_or_default();
        Ok(lists_cpu(&text).then(|| "on".to_owned()))
    }

    pub(crate) fn set_cpu_controller(&self, path: &str, on: bool) -> Result<(), KnobError> {
        self.write_cpu(path, "cgroup.subtree_control", if on { "+cpu" } else { "-cpu" }).map_err(|error| {
            match error {
                KnobError::Refused(why) if why == crate::os::BUSY => KnobError::Prevented {
                    why: format!(
                        "processes stand directly in {path}, so that groups below it get no CPU controller"
                    ),
                    hint: "set the control of that group itself, or move the processes into a group below it"
                        .into(),
                },
                other => other,
            }
        })
    }

    /// Whether one of our cgroups exists.
    pub(crate) fn cpu_group(&self, path: &str) -> Result<Option<Value>, KnobError> {
        Ok(self.cpu_tree()?.dir(path).is_dir().then(|| "present".to_owned()))
    }

    pub(crate) fn make_cpu_group(&self, path: &str) -> Result<(), KnobError> {
        let tree = self.cpu_tree()?;
        match self.fs.make_cpu_group(self, tree, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(knob_error),
        }
    }

    pub(crate) fn remove_cpu_group(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.cpu_tree()?.dir(path);
        match self.fs.remove_group(self, &dir) {
            Err(KnobError::Gone) => Ok(()),
            result => result,
        }
    }

    /// The cgroup of a process in the hierarchy of the CPU controller.
    pub(crate) fn cpu_place(&self, pid: u32) -> Result<Option<String>, KnobError> {
        let file = self.root.proc.join(pid.to_string()).join("cgroup");
        let text = self.root.read_value(&file).map_err(knob_error)?;
        let tree = self.cpu_tree()?;
        Ok(text.and_then(|text| tree.place(&text)))
    }

    pub(crate) fn set_cpu_place(&self, task: TaskId, path: &str) -> Result<(), KnobError> {
        self.still(task)?;
        if self.systemd {
            return self.place_by_systemd(task, path);
        }
        let tree = self.cpu_tree()?;
        let procs = tree.dir(path).join("cgroup.procs");
        if !procs.exists() {
            return Err(KnobError::Refused(format!("there is no cgroup {path}")));
        }
        self.fs.attach_cpu(self, tree, task, path).map_err(|error| match error {
            // Reasons: real-time threads where the cgroup has no real-time budget (version 1), or a cgroup that accepts none.
            KnobError::Refused(why) if why == NO_ROOM || why.contains("not valid") => KnobError::Prevented {
                why: format!("process {} cannot be moved to {path}: {why}", task.pid),
                hint: "a real-time process cannot be moved there: change its class first (priocntl -s -c TS)"
                    .into(),
            },
            other => other,
        })
    }

    /// The text of `cpu.stat`.
    pub(crate) fn cpu_stat(&self, path: &str) -> Result<Option<String>, KnobError> {
        self.cpu_value(path, "cpu.stat")
    }

    /// CPU time of a cgroup on version 1, in nanoseconds. Another controller counts it, usually in the same hierarchy. In a
    /// separate hierarchy, the cgroup of the same path counts only if it has the same processes.
    pub(crate) fn cpuacct(&self, path: &str) -> Option<u64> {
        let here = self.cpu_tree().ok().filter(|tree| tree.v1)?.dir(path);
        let there = self.root.cgroup.join("cpuacct").join(path.trim_start_matches('/'));
        let usage = |dir: &Path| self.root.read_value(&dir.join("cpuacct.usage")).ok().flatten();
        let text = usage(&here).or_else(|| {
            let (mut one, mut other) = (BTreeSet::new(), BTreeSet::new());
            let known = self.members_below(&here, &mut one).and(self.members_below(&there, &mut other));
            usage(&there).filter(|_| known.is_some() && one == other)
        });
        text?.trim().parse().ok()
    }

    /// The processes of a cgroup and of its descendants.
    fn members_below(&self, dir: &Path, found: &mut BTreeSet<u32>) -> Option<()> {
        let text = self.root.read(&dir.join("cgroup.procs")).ok()??;
        found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        let names = self.root.dirs(dir).ok()?;
        names.iter().try_for_each(|name| self.members_below(&dir.join(name), found))
    }

    /// The names of the child cgroups, sorted.
    pub(crate) fn cpu_groups(&self, path: &str) -> Result<Vec<String>, KnobError> {
        match self.root.dirs(&self.cpu_tree()?.dir(path)) {
            Err(error) if is_gone(&error) => Ok(Vec::new()),
            names => names.map_err(knob_error),
        }
    }
}

fn no_idle() -> KnobError {
    KnobError::Prevented {
        why: "this kernel has no idle groups (cpu.idle, since 5.15)".into(),
        hint: "give it 1 share, which is the least here".into(),
    }
}

/// A value without the suffix [`KEPT`], and whether it had the suffix.
pub(crate) fn without_kept(value: &str) -> (&str, bool) {
    value.strip_suffix(KEPT).map_or((value, false), |value| (value, true))
}

/// A quota in microseconds per second; `None` for no limit.
pub(crate) fn per_second(quota: &str) -> Option<u64> {
    let (quota, period) = quota.split_once(' ')?;
    let (quota, period): (u128, u128) = (quota.parse().ok()?, period.parse().ok()?);
    u64::try_from(quota.checked_mul(1_000_000)?.checked_div(period)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_finds_its_own_line() {
        let text = "9:name=systemd:/a\n3:cpuset:/b\n1:cpu,cpuacct:/c\n0::/d (deleted)\n";
        let tree = |v1| CpuTree { mount: std::path::PathBuf::new(), v1 };
        assert_eq!(tree(true).place(text).as_deref(), Some("/c"));
        assert_eq!(tree(false).place(text).as_deref(), Some("/d"));
        let moved = tree(true).replaced(text, "/e");
        assert_eq!(tree(true).place(&moved).as_deref(), Some("/e"));
        assert_eq!(moved.lines().count(), 4);
    }

    #[test]
    fn quotas_are_compared_by_what_they_are_in_a_second() {
        assert_eq!(per_second("150000 100000"), Some(1_500_000));
        assert_eq!(per_second("75000 50000"), Some(1_500_000));
        assert_eq!(per_second("max 100000"), None);
        assert_eq!(per_second("1 0"), None);
        // Overflows the multiplication. No kernel reports this value, but a captured file may contain it.
        assert_eq!(per_second("1191999959999999159199995999999915 1"), None);
    }

    #[test]
    fn fuzz_quotas() {
        millpond_fuzz::check_text("linux-quotas", &["150000 100000", "max 100000", "-1 100000"], |text| {
            let _ = per_second(text);
        });
    }
}
