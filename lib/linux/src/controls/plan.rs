//! From what groups should get of CPU time to steps. A pure function.
//!
//! 1. values go back where a control was deleted; processes with controls of their own go home;
//! 2. the controller is enabled, from the top down (version 2, where systemd does not do it);
//! 3. groups for processes are made, and the processes move in;
//! 4. weights and quotas;
//! 5. the controller is given back, from the bottom up, where no group of others uses it.

use super::record::Held;
use super::tree::{IDLE, PERIOD_US};
use crate::knob::{LinuxKnob, TaskId};
use crate::names;
use crate::view::ancestors;
use millpond_machine::{Knob, Step, Value};
use millpond_model::{CpuCap, Shares};
use std::collections::{BTreeMap, BTreeSet};

/// A cgroup as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuGroup {
    pub weight: Option<Value>,
    pub quota: Option<Value>,
    /// Whether the controller is enabled below it (version 2).
    pub controller: bool,
    /// Whether a group directly below it has a weight or a quota.
    pub used_below: bool,
    /// The processes in it, for groups of ours, and where they go back to.
    pub tasks: Vec<TaskId>,
    pub home: Option<String>,
    /// Its values are systemd's properties.
    pub by_systemd: bool,
}

/// What a plan is made from. Groups that do not exist are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ControlView {
    pub v1: bool,
    pub groups: BTreeMap<String, CpuGroup>,
    pub baselines: BTreeMap<Knob, Option<Value>>,
}

/// What groups should get, by their paths.
pub(crate) type Wanted = BTreeMap<String, Held>;

/// The steps from the groups as they are to `wanted`. `moves` are processes that go into groups of ours, with where each is.
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

/// What a group below `above` gets for a share: its weight is the shares times this, as a fraction. Where one of the groups beside it has so many
/// shares that its weight would be too large, all of them have less, in proportion.
pub(crate) fn weight_of_share(v1: bool, most: u32) -> (u64, u64) {
    let (default, max) = if v1 { (1_024, 262_144) } else { (100, 10_000) };
    if u64::from(most) * default <= max { (default, 1) } else { (max, u64::from(most)) }
}

/// The weight for shares, rounded, and not below the least that there is.
pub(crate) fn weight(v1: bool, shares: Shares, most: u32) -> u64 {
    let (of, by) = weight_of_share(v1, most);
    let least = if v1 { 2 } else { 1 };
    ((u64::from(shares.get()) * of + by / 2) / by).max(least)
}

/// The most shares of the groups directly below the same group.
pub(crate) fn most_beside(wanted: &Wanted, path: &str) -> u32 {
    let above = parent(path);
    let beside = wanted.iter().filter(|(other, _)| parent(other) == above);
    beside.filter_map(|(_, held)| held.shares).map(Shares::get).max().unwrap_or(1)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// The quota of a cap, as the group's values are written.
pub(crate) fn quota(cap: CpuCap, by_systemd: bool) -> Value {
    let us = u64::from(cap.get()) * PERIOD_US / 100;
    if by_systemd { (us * 1_000_000 / PERIOD_US).to_string() } else { format!("{us} {PERIOD_US}") }
}

/// The weight that a group should have; `Some(None)` is the default one.
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
    /// Puts values back that are wanted no more.
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

    /// Empties and removes groups of ours whose process has no control any more.
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
            // A scope ends by itself when it is empty.
            if !group.by_systemd {
                // What belongs to the group falls with it.
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

    /// Whether the files of a group are written by us, and not by systemd.
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
            // A group of ours that lost one of two controls has the default again; what others had is put back above.
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
            // A group of others that was given a weight meanwhile would lose it.
            let to = if group.used_below { is.clone() } else { None };
            self.steps.push(Step::new(knob, is, to).releasing());
        }
    }
}
