//! Zones: existing cgroups that become partitions in place.

use super::Planner;
use crate::knob::{CpusetFile, LinuxKnob, list_value};
use crate::names;
use crate::view::{ancestors, control};
use millpond_machine::Step;
use millpond_model::{CpuSet, PsetMode};
use std::collections::{BTreeMap, BTreeSet};

impl Planner<'_> {
    /// The wanted `cpuset.cpus.exclusive` of zones that are partitions in place, and of the cgroups above them.
    pub(super) fn exclusive_wants(&self) -> BTreeMap<String, CpuSet> {
        let mut wants: BTreeMap<String, CpuSet> = BTreeMap::new();
        for (zone, set) in self.zones.iter().filter(|(_, set)| self.modes[set] == PsetMode::InPlace) {
            let cpus = self.wanted.sets[set].cpus();
            for path in ancestors(zone).into_iter().chain([zone.clone()]) {
                let entry = wants.entry(path).or_default();
                *entry = &*entry | &cpus;
            }
        }
        wants
    }

    pub(super) fn is_existing_partition(&self, path: &str) -> bool {
        let set = self.zones.get(path);
        set.is_some_and(|s| {
            self.modes[s] == PsetMode::InPlace
                && !(&self.wanted.sets[s].cpus() & &self.view.online).is_empty()
        })
    }

    /// Releases zones that end or lose CPUs, from the bottom up: first the flag, then the lists.
    pub(super) fn release_zones(&mut self) {
        let wants = self.exclusive_wants();
        let foreign: Vec<String> =
            self.view.groups.keys().filter(|p| names::owner(p).is_none()).cloned().collect();
        for path in foreign.into_iter().rev() {
            let group = self.view.groups[&path].clone();
            let flag = control(&path, CpusetFile::Partition);
            // A flag that existed before is restored last: see `restore_partitions`.
            if self.view.baseline(&flag) == Some(&None) && !self.is_existing_partition(&path) {
                self.steps.push(Step::new(flag.knob(), group.partition, None).releasing());
            }
            let knob = control(&path, CpusetFile::ExclusiveCpus);
            if self.view.baseline(&knob).is_none() {
                continue;
            }
            let want = wants.get(&path).cloned().unwrap_or_default();
            let less = &group.exclusive & &want;
            if want.is_empty() {
                self.steps.push(Step::new(knob.knob(), list_value(&group.exclusive), None).releasing());
            } else if less != group.exclusive && !less.is_empty() {
                self.steps
                    .push(Step::new(knob.knob(), list_value(&group.exclusive), list_value(&less)).keeping());
            }
        }
    }

    /// Sets up zones that begin or gain CPUs, from the top down: first the lists, then the flag.
    pub(super) fn claim_zones(&mut self) {
        for (path, want) in self.exclusive_wants() {
            let group = self.view.groups.get(&path).cloned().unwrap_or_default();
            let less = &group.exclusive & &want;
            let is = if less.is_empty() { group.exclusive.clone() } else { less };
            if is != want {
                let knob = control(&path, CpusetFile::ExclusiveCpus).knob();
                self.steps.push(Step::new(knob, list_value(&is), list_value(&want)).keeping());
            }
            if !self.is_existing_partition(&path) {
                continue;
            }
            let flag = self.renounced(&path, group.partition);
            if flag.as_deref() != Some("root") {
                let knob = control(&path, CpusetFile::Partition).knob();
                self.steps.push(Step::new(knob, flag, Some("root".into())).keeping());
            }
        }
    }

    /// Enables the controller in all ancestors of zones. Only then do zones have control files.
    pub(super) fn enable_above_zones(&mut self) {
        if self.view.v1 {
            return;
        }
        let above: BTreeSet<String> = self.zones.keys().flat_map(|z| ancestors(z)).collect();
        for path in above {
            if !self.view.groups.get(&path).is_some_and(|g| g.controller) {
                let knob = LinuxKnob::CpusetController(path).knob();
                self.steps.push(Step::new(knob, None, Some("on".into())).keeping());
            }
        }
    }

    pub(super) fn give_back_zone_controllers(&mut self) {
        let above: BTreeSet<String> = self.zones.keys().flat_map(|z| ancestors(z)).collect();
        for (path, group) in self.view.groups.iter().rev() {
            let knob = LinuxKnob::CpusetController(path.clone());
            let kept = path != "/" && names::owner(path).is_none() && self.view.baseline(&knob).is_some();
            if kept && !above.contains(path) {
                let before = group.controller.then(|| "on".to_owned());
                self.steps.push(Step::new(knob.knob(), before, None).releasing());
            }
        }
    }
}
