//! Our own cgroups: their wanted states, and the steps to them.

use super::{Planner, Target};
use crate::knob::{CpusetFile, Label, LinuxKnob, list_value};
use crate::names::{self, DEFAULT_GROUP};
use crate::view::{control, is_within};
use millpond_machine::{Step, Value};
use millpond_model::{CpuSet, PsetMode};
use std::collections::BTreeSet;

impl Planner<'_> {
    pub(super) fn aim_sets(&mut self) {
        for (id, label) in &self.wanted.sets {
            let active = &label.cpus() & &self.view.online;
            let target = Target {
                // Version 1 removes off-line CPUs from lists and refuses to add them.
                cpus: match self.modes[id] {
                    // The zone's own cgroup has the CPUs; ours only has the label.
                    PsetMode::InPlace => self.idle(),
                    _ if label.members.is_empty() => self.idle(),
                    _ if self.view.v1 => active.clone(),
                    _ => label.cpus(),
                },
                partition: (self.view.partitions && self.modes[id] == PsetMode::Own && !active.is_empty())
                    .then(|| label.partition()),
                controller: self.is_hand_made(),
                label: Some(label.text()),
                origin: None,
                mems: self.view.wanted_mems(label),
            };
            self.targets.insert(self.view.set_group(*id), target);
        }
    }

    /// The list of a cgroup without CPUs of its own. systemd enables the controller only for units with a list, so there it is
    /// that of the default set.
    fn idle(&self) -> CpuSet {
        if self.view.systemd { self.default.clone() } else { CpuSet::new() }
    }

    /// Whether we enable the controller below our own cgroups. systemd would disable it there at its next reload, and keeps it
    /// enabled above because of their lists.
    fn is_hand_made(&self) -> bool {
        !self.view.v1 && !self.view.systemd
    }

    pub(super) fn aim_default(&mut self) {
        let prefix = format!("{DEFAULT_GROUP}/");
        let needed = self.targets.keys().any(|p| p.starts_with(&prefix));
        if needed {
            let target =
                Target { cpus: self.open.clone(), controller: self.is_hand_made(), ..Target::default() };
            self.targets.insert(DEFAULT_GROUP.to_owned(), target);
        }
    }

    pub(super) fn create(&mut self) {
        let root_controller = self.view.groups.get("/").is_some_and(|g| g.controller);
        if !self.view.v1 && !self.view.systemd && !self.targets.is_empty() && !root_controller {
            let knob = LinuxKnob::CpusetController("/".into()).knob();
            self.steps.push(Step::new(knob, None, Some("on".into())).keeping());
        }
        if !self.view.systemd {
            self.enable_above_zones();
        }
        for (path, target) in self.targets.clone() {
            let is = self.view.groups.get(&path);
            if is.is_none() {
                self.push(&self.view.group_knob(&path), None, Some("present".into()));
                self.push(&LinuxKnob::Label(path.clone(), Label::Origin), None, target.origin.clone());
            }
            if target.controller && !is.is_some_and(|g| g.controller) {
                self.push(&LinuxKnob::CpusetController(path.clone()), None, Some("on".into()));
            }
            if self.view.v1 {
                let before = is.and_then(|g| g.mems.clone());
                if before.is_none() {
                    let mems = target.mems.clone().unwrap_or_else(|| self.view.mems.clone());
                    self.push(&control(&path, CpusetFile::Mems), before, Some(mems));
                }
            }
        }
    }

    /// Removes our unwanted cgroups: moves tasks out first, then children before parents.
    pub(super) fn dissolve(&mut self) {
        let dying: Vec<String> = self
            .view
            .groups
            .keys()
            // systemd removes an empty scope itself.
            .filter(|p| names::owner(p).is_some() && !names::is_scope(p))
            .filter(|p| !self.targets.contains_key(*p) && !self.is_only_named_as_ours(p))
            .cloned()
            .collect();
        let out: Vec<_> =
            self.moves.extract_if(.., |(_, at, _)| dying.iter().any(|d| is_within(at, d))).collect();
        // A destination that the same plan creates has no CPUs yet.
        for path in out.iter().map(|(_, _, to)| to.clone()).collect::<BTreeSet<_>>() {
            self.grow_one(&path);
        }
        for (task, at, to) in out {
            self.move_task(task, at, to);
        }
        for path in dying.iter().rev() {
            let group = self.view.groups[path].clone();
            let first = self.steps.len();
            self.push(&control(path, CpusetFile::Partition), group.partition, None);
            let flags = self.steps.len();
            let cpus = list_value(&group.cpus);
            if !group.units.is_empty() {
                // Units that were started in it stay, in an ordinary slice.
                if !group.cpus.is_empty() {
                    self.push(&self.view.cpus_knob(path), cpus, list_value(&self.view.possible));
                }
                self.push(&LinuxKnob::Label(path.clone(), Label::Set), group.label, None);
                continue;
            }
            self.push(&self.view.cpus_knob(path), cpus, None);
            self.push(&self.view.mems_knob(path), group.mems, None);
            if group.migrates {
                self.push(&control(path, CpusetFile::MemoryMigrate), Some("1".to_owned()), None);
            }
            if group.controller && self.is_hand_made() {
                self.push(&LinuxKnob::CpusetController(path.clone()), Some("on".into()), None);
            }
            self.push(&LinuxKnob::Label(path.clone(), Label::Set), group.label, None);
            if let Some(origin) = group.origin.filter(|_| path.contains('~')) {
                self.push(&LinuxKnob::Label(path.clone(), Label::Origin), Some(origin), None);
            }
            if !self.view.systemd {
                // All of this is removed with the directory; a partition flag only where the kernel returns its CPUs promptly.
                let first = if self.view.prompt_removal { first } else { flags };
                self.steps[first..].iter_mut().for_each(|step| step.falls = true);
            }
            self.push(&self.view.group_knob(path), Some("present".into()), None);
        }
    }

    /// Whether systemd created a slice of this name for units that will start in it (`Slice=`), and no set has used it yet: it
    /// has no label or setting of ours. systemd does not remove the slice while such a unit waits for its start at boot.
    fn is_only_named_as_ours(&self, path: &str) -> bool {
        let untouched = |g: &crate::view::Group| {
            g.label.is_none() && g.origin.is_none() && g.cpus.is_empty() && g.partition.is_none()
        };
        self.view.systemd && self.view.groups.get(path).is_some_and(untouched)
    }

    /// Grows a list early because a task needs it, and the lists of its ancestors.
    pub(super) fn grow_one(&mut self, path: &str) {
        let Some((parent, _)) = path.rsplit_once('/') else { return };
        if names::owner(path).is_none() {
            return;
        }
        for path in [parent, path] {
            let wanted = self.targets.get(path).map(|t| t.cpus.clone()).unwrap_or_default();
            // A set that grows in the same plan has not grown yet.
            let inside = &wanted & &self.listed(parent);
            let wanted = if path == parent || inside.is_empty() { wanted } else { inside };
            if self.listed(path).is_empty() && !wanted.is_empty() {
                self.push(&self.view.cpus_knob(path), None, list_value(&wanted));
            }
        }
    }

    /// The list of a cgroup after the steps so far.
    fn listed(&self, path: &str) -> CpuSet {
        let knob = self.view.cpus_knob(path).knob();
        match self.steps.iter().rev().find(|step| step.knob == knob) {
            Some(step) => step.after.as_deref().and_then(|list| list.parse().ok()).unwrap_or_default(),
            None => self.view.groups.get(path).map(|g| g.cpus.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn release_flags(&mut self) {
        for (path, target) in &self.targets {
            let flag = self.view.groups.get(path).and_then(|g| g.partition.clone());
            if flag.is_some() && target.partition.is_none() {
                let step = Step::new(control(path, CpusetFile::Partition).knob(), flag, None);
                self.steps.push(step);
            }
        }
    }

    pub(super) fn shrink_ours(&mut self) {
        for (path, target) in self.targets.clone().iter().rev() {
            let is = self.view.groups.get(path).map(|g| g.cpus.clone()).unwrap_or_default();
            let less = &is & &target.cpus;
            if less != is && (!less.is_empty() || target.cpus.is_empty()) {
                self.push(&self.view.cpus_knob(path), list_value(&is), list_value(&less));
            }
        }
    }

    pub(super) fn grow_ours(&mut self) {
        for (path, target) in self.targets.clone() {
            let group = self.view.groups.get(&path).cloned().unwrap_or_default();
            // If no CPU stays, the shrinking step was omitted: one write replaces the list.
            let is = self.listed(&path);
            if is != target.cpus && !target.cpus.is_empty() {
                self.push(&self.view.cpus_knob(&path), list_value(&is), list_value(&target.cpus));
            }
            self.push(&LinuxKnob::Label(path.clone(), Label::Set), group.label, target.label);
        }
    }

    pub(super) fn flag(&mut self) {
        for (path, target) in self.targets.clone() {
            let Some(wanted) = target.partition else { continue };
            let flag = self.view.groups.get(&path).and_then(|g| g.partition.clone());
            let flag = self.renounced(&path, flag);
            self.push(&control(&path, CpusetFile::Partition), flag, Some(wanted.into()));
        }
    }

    /// The flag of a partition. If the kernel lets other tasks onto its CPUs, the flag is first cleared: setting it again takes the CPUs from the
    /// root again.
    pub(super) fn renounced(&mut self, path: &str, flag: Option<Value>) -> Option<Value> {
        if self.view.shared_with_root(path).is_empty() {
            return flag;
        }
        self.push(&control(path, CpusetFile::Partition), flag, None);
        None
    }

    pub(super) fn give_back_controller(&mut self) {
        let knob = LinuxKnob::CpusetController("/".into());
        let kept = self.view.baseline(&knob).is_some();
        let used = self.view.groups.iter().any(|(path, g)| {
            let uses = !g.cpus.is_empty() || g.partition.is_some() || g.controller;
            path != "/" && names::owner(path).is_none() && uses
        });
        // Another program may use it by now. Then it is disabled at the first settling after that has ended.
        if kept && self.targets.is_empty() && !used {
            self.steps.push(Step::new(knob.knob(), Some("on".to_owned()), None).releasing());
        }
    }
}
