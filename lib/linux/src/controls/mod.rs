//! The Controls facet: CPU shares and CPU caps, by the cgroup CPU controller.
//!
//! # Nouns
//!
//! * A **holder** is a cgroup: that of a zone (a unit, a container, a group with a path), or of a project (a slice of systemd;
//!   `user.kim` is `/user.slice/user-1000.slice`). A process has no cgroup of its own. To give it controls, it is moved alone
//!   into a cgroup of ours (`/mpcap-204`, or a scope). Its later children start there, too. It moves back when the last control
//!   is deleted.
//! * **Shares** are a weight. 1 share is the default weight of a cgroup: 100 (`cpu.weight`) or 1024 (`cpu.shares`). Weights, and
//!   therefore shares, only compare cgroups with the same parent. If a cgroup has too many shares for the largest weight, the
//!   weights of all its siblings with shares are scaled down in proportion. 0 shares are an idle cgroup (`cpu.idle`).
//! * A **cap** is a quota in each tenth of a second (`cpu.max`, `cpu.cfs_quota_us`).
//!
//! # How it works
//!
//! ```text
//!   record `controls`: shares and caps by path ─┐
//!   current groups, baselines ──────────────────┴─▶ plan() ──▶ Steps: weight:, quota:, cpu-controller:, cpu-group:, cpu-place:
//! ```
//!
//! Where systemd owns the tree, units are changed through their properties, for this boot; systemd enables the controller above
//! them. Cgroups that systemd does not manage are written directly. The original weights and quotas are baselines in the journal.
//!
//! # What it deliberately does not do
//!
//! It changes no cgroup below the kubelet's or below a user's own manager, because these rewrite the values. On version 2 it
//! moves no process out of a set, because the cgroup determines the set.

mod plan;
mod read;
mod record;
mod resolve;
pub(crate) mod tree;

pub(crate) use record::{RECORD, renamed};

use crate::cpu_tree::CpuTree;
use crate::knob::{LinuxKnob, TaskId};
use crate::{LinuxMachine, names};
use millpond_machine::facets::{Controlled, Enforced, Recontrolled};
use millpond_machine::{Absent, Change, Controls, KnobError, Reason, Refusal, Step, Subject};
use millpond_model::{Control, ControlHolder, ControlSetting, Pid, Shares};
use plan::{Wanted, most_beside, plan, weight, weight_of_share};
use record::Held;

/// Processes that move into a cgroup of their own: the process, its current cgroup and the new cgroup.
type Moves = Vec<(TaskId, String, String)>;

impl LinuxMachine {
    /// The remaining steps until all cgroups have their recorded values.
    pub(crate) fn settle_controls(&self) -> Result<Vec<Step>, Refusal> {
        let wanted = self.recorded_controls();
        let is_ours = |knob: &millpond_machine::Knob| {
            matches!(
                LinuxKnob::parse(knob),
                Ok(LinuxKnob::Weight(_) | LinuxKnob::Quota(_) | LinuxKnob::CpuController(_))
            )
        };
        if self.os.cpu.is_err() || (wanted.is_empty() && !self.baselines().keys().any(is_ours)) {
            return Ok(Vec::new());
        }
        let view = self.control_view(&wanted).map_err(unreadable)?;
        Ok(plan(&view, &wanted, &[]))
    }

    /// The steps that remove the cgroups of processes that have ended.
    pub(crate) fn stale_controls(&self) -> Vec<Step> {
        let recorded = self.recorded_controls();
        let mut wanted = recorded.clone();
        wanted.retain(|_, held| held.task().is_none_or(|task| self.os.still(task).is_ok()));
        if wanted == recorded {
            return Vec::new();
        }
        let Ok(view) = self.control_view(&wanted) else { return Vec::new() };
        let mut steps = plan(&view, &wanted, &[]);
        steps.extend(self.record_controls(wanted).ok().flatten());
        steps
    }

    /// The cgroup of a holder. For a process without one, also the move that creates it.
    fn group_of(&self, holder: &ControlHolder, wanted: &Wanted) -> Result<(String, Moves), Refusal> {
        let ControlHolder::Process(pid) = holder else {
            let path = self.path_of_holder(holder)?;
            self.may_be_controlled(holder, &path)?;
            return Ok((path, Vec::new()));
        };
        let refuse = |reason| Refusal::new(Subject::Process(*pid), reason);
        let (task, stat) = self.os.identify(*pid, None)?;
        if stat.kernel {
            return Err(refuse(Reason::Machine("it is a part of the kernel".into())));
        }
        if let Some((path, _)) = wanted.iter().find(|(_, held)| held.task() == Some(task)) {
            return Ok((path.clone(), Vec::new()));
        }
        let at = self.os.cpu_place(pid.0).map_err(|e| e.into_refusal(Subject::Process(*pid), "its group"))?;
        let at = at.unwrap_or_else(|| "/".to_owned());
        let sets_too = self.os.hierarchy.mount() == self.os.cpu.as_ref().ok().map(|tree| &tree.mount);
        if let (true, Some(set)) = (sets_too, names::owner(&at)) {
            let why = format!("it is in the group of set {set}, and a process has one group only");
            return Err(
                refuse(Reason::Machine(why)).hint(format!("unbind it from its set first (psrset -u {pid})"))
            );
        }
        self.may_be_controlled(holder, &at)?;
        let taken =
            |path: &str| wanted.contains_key(path) || self.os.cpu_group(path).ok().flatten().is_some();
        let mut paths = (1..).map(|n| names::control_group(self.os.systemd, pid.0, n));
        let path = if self.os.systemd { paths.find(|path| !taken(path)) } else { paths.next() };
        let path = path.unwrap_or_default();
        Ok((path.clone(), vec![(task, at, path)]))
    }

    fn notes(
        &self,
        path: &str,
        holder: &ControlHolder,
        to: ControlSetting,
        wanted: &Wanted,
        moves: &Moves,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for (task, from, _) in moves.iter().filter(|(_, from, _)| from != "/") {
            notes.push(format!(
                "process {} leaves {from} while it has a control of its own: what that group gets, and its cap, are not its",
                task.pid
            ));
        }
        if let ControlSetting::CpuShares(Some(_)) = to {
            let tree = self.os.cpu.as_ref().ok();
            let (v1, most) = (tree.is_some_and(|tree| tree.v1), most_beside(wanted, path));
            let (of, by) = weight_of_share(v1, most);
            if by != 1 {
                let default = tree.map_or(100, CpuTree::default_weight);
                let counts = real(default) * real(by) / real(of);
                notes.push(format!(
                    "{most} shares are the largest weight: a group beside it without shares counts as {counts:.1} shares"
                ));
            }
        }
        if to.value().is_none() && self.is_capped_elsewhere(path, holder, to.control()) {
            notes.push(format!(
                "what is left of {} was not set by millpond: the unit's own files say it (systemctl edit)",
                to.control()
            ));
        }
        notes
    }

    /// Whether a cgroup has a value that is not ours.
    fn is_capped_elsewhere(&self, path: &str, _holder: &ControlHolder, control: Control) -> bool {
        let knob = match control {
            Control::CpuShares => LinuxKnob::Weight(path.to_owned()),
            Control::CpuCap => LinuxKnob::Quota(path.to_owned()),
        };
        if let Some(original) = self.journal.baseline(&knob.knob()) {
            return original.is_some();
        }
        let is = match control {
            Control::CpuShares => self.os.kernel_weight(path),
            Control::CpuCap => self.os.kernel_quota(path),
        };
        !names::is_control_group(path) && is.is_ok_and(|is| is.is_some())
    }
}

fn real(value: u64) -> f64 {
    f64::from(u32::try_from(value).unwrap_or(u32::MAX))
}

fn unreadable((what, error): (String, KnobError)) -> Refusal {
    match error {
        KnobError::NotPermitted => Refusal::operation(Reason::NotPermitted),
        other => Refusal::operation(Reason::Machine(format!("{what} cannot be read: {other}"))),
    }
}

impl Controls for LinuxMachine {
    fn made_by(&self) -> String {
        let files = match &self.os.cpu {
            Err(absent) => return absent.why.clone(),
            Ok(tree) if tree.v1 => "cpu.shares and cpu.cfs_quota_us (cgroup version 1)",
            Ok(_) => "cpu.weight and cpu.max (cgroup version 2)",
        };
        if self.os.systemd { format!("{files}, of units by systemd") } else { files.to_owned() }
    }

    fn live(&self, control: Control) -> Result<(), Absent> {
        let tree = self.os.cpu.as_ref().map_err(Clone::clone)?;
        // On version 1 the root group has the quota files, without a limit in them.
        if control == Control::CpuCap && tree.v1 && !tree.mount.join("cpu.cfs_quota_us").exists() {
            return Err(Absent::with_help(
                "the kernel has no quota on CPU time",
                "use a kernel with CONFIG_CFS_BANDWIDTH",
            ));
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<Controlled>, Refusal> {
        self.all_holders()?
            .into_iter()
            .map(|(holder, path)| Ok(self.read_controlled(holder, &path)))
            .collect()
    }

    fn controlled(&self, holder: &ControlHolder) -> Result<Controlled, Refusal> {
        if let ControlHolder::Process(pid) = holder {
            let (task, _) = self.os.identify(*pid, None)?;
            let groups = self.recorded_controls();
            let own = groups.iter().find(|(_, held)| held.task() == Some(task)).map(|(path, _)| path.clone());
            return Ok(match own {
                Some(path) => self.read_controlled(holder.clone(), &path),
                None => Controlled {
                    holder: holder.clone(),
                    shares: None,
                    cap: None,
                    used: self.os.cpu_time(*pid),
                    throttled: None,
                },
            });
        }
        let path = self.path_of_holder(holder)?;
        Ok(self.read_controlled(holder.clone(), &path))
    }

    fn holders_of(&self, pid: Pid) -> Result<Vec<ControlHolder>, Refusal> {
        self.holders_of_process(pid)
    }

    fn caps_of(&self, pid: Pid) -> Result<Vec<Controlled>, Refusal> {
        self.caps_above(pid)
    }

    fn enforced(&self, holder: &ControlHolder, control: Control) -> Result<Enforced, Refusal> {
        let wanted = self.recorded_controls();
        let (path, _) = self.group_of(holder, &wanted)?;
        let tree = self.os.cpu.as_ref().map_err(|absent| Refusal::from(absent.clone()))?;
        let unit = self.os.cpu_unit(&path);
        let file = match control {
            Control::CpuShares => tree.weight_file(),
            Control::CpuCap if tree.v1 => "cpu.cfs_quota_us",
            Control::CpuCap => "cpu.max",
        };
        let property = if control == Control::CpuShares { "CPUWeight=" } else { "CPUQuota=" };
        let by = unit.map_or_else(|| format!("{file} of {path}"), |unit| format!("{property} of {unit}"));
        let (exact, note) = match control {
            Control::CpuCap => (true, Some("over each tenth of a second".to_owned())),
            Control::CpuShares => {
                let (of, by) = weight_of_share(tree.v1, most_beside(&wanted, &path));
                let shares = wanted.get(&path).and_then(|held| held.shares).filter(|shares| shares.get() > 0);
                let is_whole = |shares: Shares| {
                    let weight = weight(tree.v1, shares, most_beside(&wanted, &path));
                    weight * by == u64::from(shares.get()) * of
                };
                let note = match by {
                    1 => format!("1 share is a weight of {of}; groups with the same parent are compared"),
                    _ => {
                        format!("{by} shares are a weight of {of}; groups with the same parent are compared")
                    }
                };
                (shares.is_none_or(is_whole), Some(note))
            }
        };
        Ok(Enforced { by, exact, note })
    }

    fn prepare_set(
        &self,
        holder: &ControlHolder,
        to: ControlSetting,
    ) -> Result<Change<Recontrolled>, Refusal> {
        self.live(to.control())?;
        let mut wanted = self.recorded_controls();
        // Drop the records of processes that have ended.
        wanted.retain(|_, held| held.task().is_none_or(|task| self.os.still(task).is_ok()));
        let before = self.controlled(holder)?;
        let from = setting_of(&before, to.control());
        let (path, mut moves) = self.group_of(holder, &wanted)?;
        let home = moves.first().map(|(task, from, _)| (task.to_string(), from.clone()));
        if !wanted.contains_key(&path) && to.value().is_none() {
            moves.clear();
        }
        let held = Held { holder: holder.clone(), shares: None, cap: None, task: home };
        let held = wanted.entry(path.clone()).or_insert(held);
        match to {
            ControlSetting::CpuShares(shares) => held.shares = shares,
            ControlSetting::CpuCap(cap) => held.cap = cap,
        }
        if held.is_empty() {
            wanted.remove(&path);
        }
        if to == ControlSetting::CpuShares(Some(Shares::new(0).unwrap_or(Shares::DEFAULT)))
            && !self.os.can_idle(&path)
        {
            return Err(Refusal::new(
                Subject::from(holder),
                Reason::Machine("this kernel has no idle groups".into()),
            )
            .hint("1 share is the least here"));
        }
        let view = self.control_view(&wanted).map_err(unreadable)?;
        let mut steps = plan(&view, &wanted, &moves);
        let notes = self.notes(&path, holder, to, &wanted, &moves);
        let back = self.original(&path, to);
        steps.extend(self.record_controls(wanted)?);
        let what = match to.value() {
            Some(value) => format!("set {}.{} of {holder} to {value}", holder.kind(), to.control()),
            None => format!("delete {}.{} of {holder}", holder.kind(), to.control()),
        };
        let outcome = Recontrolled { holder: holder.clone(), from, to: back };
        let mut change = Change::new(what, steps, outcome);
        change.notes = notes;
        Ok(change)
    }
}

impl LinuxMachine {
    /// The setting to apply: deleting a setting restores the original value.
    fn original(&self, path: &str, to: ControlSetting) -> ControlSetting {
        if to.value().is_some() {
            return to;
        }
        let knob = match to.control() {
            Control::CpuShares => LinuxKnob::Weight(path.to_owned()),
            Control::CpuCap => LinuxKnob::Quota(path.to_owned()),
        };
        let Some(Some(original)) = self.journal.baseline(&knob.knob()) else { return to };
        match to.control() {
            Control::CpuShares => ControlSetting::CpuShares(self.shares_of_weight(&original)),
            Control::CpuCap => ControlSetting::CpuCap(self.cap_of_quota(path, &original)),
        }
    }
}

fn setting_of(controlled: &Controlled, control: Control) -> ControlSetting {
    match control {
        Control::CpuShares => ControlSetting::CpuShares(controlled.shares),
        Control::CpuCap => ControlSetting::CpuCap(controlled.cap),
    }
}
