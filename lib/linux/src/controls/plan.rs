//! Computes the steps from the current CPU weights and quotas to the wanted ones. A pure function. Order of the steps:
//!
//! 1. restore values whose control was deleted; move processes without controls back;
//! 2. enable the controller, from the top down (version 2, where systemd does not do it);
//! 3. create cgroups for processes, and move the processes into them;
//! 4. set weights and quotas;
//! 5. disable the controller, from the bottom up, where no foreign cgroup uses it.

use super::record::Held;
use super::tree::{IDLE, PERIOD_US};
use crate::knob::{LinuxKnob, TaskId};
use crate::names;
use crate::view::ancestors;
use millpond_machine::{Knob, Step, Value};
use millpond_model::{CpuCap, Shares};
use std::collections::{BTreeMap, BTreeSet};

/// The current state of a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuGroup {
    pub weight: Option<Value>,
    pub quota: Option<Value>,
    /// Whether the controller is enabled below it (version 2).
    pub controller: bool,
    /// Whether a group directly below it has a weight or a quota.
    pub used_below: bool,
    /// The processes in it (cgroups of ours only).
    pub tasks: Vec<TaskId>,
    pub home: Option<String>,
    /// Whether its values are systemd properties.
    pub by_systemd: bool,
}

/// Input of a plan. Cgroups that do not exist are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ControlView {
    pub v1: bool,
    pub groups: BTreeMap<String, CpuGroup>,
    pub baselines: BTreeMap<Knob, Option<Value>>,
}

/// The wanted controls, by cgroup path.
pub(crate) type Wanted = BTreeMap<String, Held>;

/// The steps from the current cgroups to `wanted`. `moves` are the processes that move into cgroups of ours, with their current
/// cgroups.
pub(crate) fn plan(view: &ControlView, wanted: &Wanted, moves: &[(TaskId, String, String)]) -> Vec<Step> {
    let mut plan = Plan { view, wanted, steps: Vec::new() };
    plan.release();
    plan.send_home();
    plan.enable(moves);
    plan.make(moves);
    plan.set(moves);
    plan.give_back();
    plan.steps
}

struct Plan<'a> {
    view: &'a ControlView,
    wanted: &'a Wanted,
    steps: Vec<Step>,
}

/// The weight per share, as a fraction. If the cgroup with the `most` shares would exceed the largest weight, the fraction is
/// smaller for all siblings.
pub(crate) fn weight_of_share(v1: bool, most: u32) -> (u64, u64) {
    let (default, max) = if v1 { (1_024, 262_144) } else { (100, 10_000) };
    if u64::from(most) * default <= max { (default, 1) } else { (max, u64::from(most)) }
}

/// The weight for shares: rounded, and at least the smallest valid weight.
pub(crate) fn weight(v1: bool, shares: Shares, most: u32) -> u64 {
    let (of, by) = weight_of_share(v1, most);
    let least = if v1 { 2 } else { 1 };
    ((u64::from(shares.get()) * of + by / 2) / by).max(least)
}

/// The largest number of shares among `path` and its siblings.
pub(crate) fn most_beside(wanted: &Wanted, path: &str) -> u32 {
    let above = parent(path);
    let beside = wanted.iter().filter(|(other, _)| parent(other) == above);
    beside.filter_map(|(_, held)| held.shares).map(Shares::get).max().unwrap_or(1)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// The text of the quota for a cap, in the cgroup's own format.
pub(crate) fn quota(cap: CpuCap, by_systemd: bool) -> Value {
    let us = u64::from(cap.get()) * PERIOD_US / 100;
    if by_systemd { (us * 1_000_000 / PERIOD_US).to_string() } else { format!("{us} {PERIOD_US}") }
}

/// The weight that a cgroup should have; `Some(None)` is the default weight.
fn weight_wanted(v1: bool, wanted: &Wanted, path: &str, by_systemd: bool) -> Option<Option<Value>> {
    let shares = wanted.get(path)?.shares?;
    if shares.get() == 0 {
        return Some(Some(IDLE.to_owned()));
    }
    let weight = weight(v1, shares, most_beside(wanted, path));
    let default = if v1 { 1_024 } else { 100 };
    Some((by_systemd || weight != default).then(|| weight.to_string()))
}

fn quota_wanted(wanted: &Wanted, path: &str, by_systemd: bool) -> Option<Value> {
    Some(quota(wanted.get(path)?.cap?, by_systemd))
}

impl Plan<'_> {
    /// Restores values that are no longer wanted.
    fn release(&mut self) {
        for (path, group) in &self.view.groups {
            let held = self.wanted.get(path);
            for (knob, is, is_wanted) in [
                (LinuxKnob::Weight(path.clone()), &group.weight, held.is_some_and(|h| h.shares.is_some())),
                (LinuxKnob::Quota(path.clone()), &group.quota, held.is_some_and(|h| h.cap.is_some())),
            ] {
                if let (Some(to), false) = (self.view.baselines.get(&knob.knob()), is_wanted) {
                    self.steps.push(Step::new(knob.knob(), is.clone(), to.clone()).releasing());
                }
            }
        }
    }

    /// Empties and removes cgroups of ours whose process has no controls any more.
    fn send_home(&mut self) {
        for (path, group) in &self.view.groups {
            if !names::is_control_group(path) || self.wanted.contains_key(path) {
                continue;
            }
            let home = group.home.clone().unwrap_or_else(|| "/".to_owned());
            for task in &group.tasks {
                let knob = LinuxKnob::CpuCgroupOf(*task).knob();
                self.steps.push(Step::new(knob, Some(path.clone()), Some(home.clone())).tolerant());
            }
            // systemd removes an empty scope itself.
            if !group.by_systemd {
                // The files of a cgroup are removed with its directory.
                for (knob, is) in [
                    (LinuxKnob::Weight(path.clone()), &group.weight),
                    (LinuxKnob::Quota(path.clone()), &group.quota),
                ] {
                    if is.is_some() {
                        self.steps.push(Step::new(knob.knob(), is.clone(), None).falling());
                    }
                }
                let knob = LinuxKnob::CpuCgroup(path.clone()).knob();
                self.steps.push(Step::new(knob, Some("present".into()), None).tolerant());
            }
        }
    }

    /// Whether we write the files of a cgroup, and not systemd.
    fn by_us(&self, path: &str, moves: &[(TaskId, String, String)]) -> bool {
        match self.view.groups.get(path) {
            Some(group) => !group.by_systemd,
            None => moves.iter().any(|(.., to)| to == path) && !names::is_control_scope(path),
        }
    }

    fn above(&self, moves: &[(TaskId, String, String)]) -> BTreeSet<String> {
        let paths = self.wanted.keys().filter(|path| self.by_us(path, moves));
        paths.flat_map(|path| std::iter::once("/".to_owned()).chain(ancestors(path))).collect()
    }

    fn enable(&mut self, moves: &[(TaskId, String, String)]) {
        if self.view.v1 {
            return;
        }
        for path in self.above(moves) {
            if !self.view.groups.get(&path).is_some_and(|group| group.controller) {
                let knob = LinuxKnob::CpuController(path).knob();
                self.steps.push(Step::new(knob, None, Some("on".into())).keeping());
            }
        }
    }

    fn make(&mut self, moves: &[(TaskId, String, String)]) {
        for (task, from, to) in moves {
            if !self.view.groups.contains_key(to) && !names::is_control_scope(to) {
                let knob = LinuxKnob::CpuCgroup(to.clone()).knob();
                self.steps.push(Step::new(knob, None, Some("present".into())));
            }
            let knob = LinuxKnob::CpuCgroupOf(*task).knob();
            self.steps.push(Step::new(knob, Some(from.clone()), Some(to.clone())));
        }
    }

    fn set(&mut self, moves: &[(TaskId, String, String)]) {
        for path in self.wanted.keys() {
            let new = moves
                .iter()
                .any(|(.., to)| to == path)
                .then(|| CpuGroup { by_systemd: names::is_control_scope(path), ..CpuGroup::default() });
            let Some(group) = self.view.groups.get(path).cloned().or(new) else { continue };
            let ours = names::is_control_group(path);
            let mut push = |knob: LinuxKnob, is: &Option<Value>, to: Option<Value>| {
                if *is != to {
                    let step = Step::new(knob.knob(), is.clone(), to);
                    self.steps.push(if ours { step } else { step.keeping() });
                }
            };
            let (v1, wanted) = (self.view.v1, self.wanted);
            // One of our cgroups that lost one of two controls gets the default again. Values of foreign cgroups are restored
            // above.
            match weight_wanted(v1, wanted, path, group.by_systemd) {
                Some(to) => push(LinuxKnob::Weight(path.clone()), &group.weight, to),
                None if ours => push(LinuxKnob::Weight(path.clone()), &group.weight, None),
                None => {}
            }
            match quota_wanted(wanted, path, group.by_systemd) {
                Some(to) => push(LinuxKnob::Quota(path.clone()), &group.quota, Some(to)),
                None if ours => push(LinuxKnob::Quota(path.clone()), &group.quota, None),
                None => {}
            }
        }
    }

    fn give_back(&mut self) {
        let above = self.above(&[]);
        for (path, group) in self.view.groups.iter().rev() {
            let knob = LinuxKnob::CpuController(path.clone()).knob();
            if !self.view.baselines.contains_key(&knob) || above.contains(path) {
                continue;
            }
            let is = group.controller.then(|| "on".to_owned());
            // A foreign cgroup that was given a weight meanwhile would lose it.
            let to = if group.used_below { is.clone() } else { None };
            self.steps.push(Step::new(knob, is, to).releasing());
        }
    }
}
