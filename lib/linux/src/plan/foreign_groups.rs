//! Foreign cgroups: the changes of their lists that sets require, and their restoration.

use super::{Keeping, Other, Planner};
use crate::knob::{CpusetFile, list_value};
use crate::names;
use crate::view::{Group, control, is_within};
use millpond_machine::Step;
use millpond_model::{CpuSet, PsetMode};
use std::collections::{BTreeMap, BTreeSet};

impl Planner<'_> {
    /// Whether some set can only be enforced by narrowing all other cgroups.
    pub(super) fn steering(&self) -> bool {
        self.modes.values().any(|m| *m == PsetMode::Steered)
    }

    /// Foreign cgroups whose lists must change or be recorded.
    ///
    /// On version 1 a new cgroup has no list until its creator writes one, usually a copy of the parent's list. So a cgroup that
    /// was created below a changed cgroup, with the same list, changes together with its parent. Older cgroups are recorded even
    /// while they do not change, so that the two kinds can be distinguished.
    pub(super) fn others(&self) -> Vec<Other> {
        let mut result: Vec<Other> = Vec::new();
        let mut wants: BTreeMap<String, CpuSet> = BTreeMap::new();
        let mut originals: BTreeMap<&str, CpuSet> = BTreeMap::new();
        let mut born: BTreeSet<&str> = BTreeSet::new();
        for (path, group) in &self.view.groups {
            if path == "/" || names::owner(path).is_some() {
                continue;
            }
            let kept = self.view.baseline(&self.view.cpus_knob(path));
            let parent = path.rsplit_once('/').map_or("", |(p, _)| p);
            let now = if kept.is_none() { self.unasked(&group.cpus) } else { group.cpus.clone() };
            let origin = match (kept, originals.get(parent)) {
                (Some(kept), _) => {
                    Origin::Kept(kept.as_deref().and_then(|t| t.parse().ok()).unwrap_or_default())
                }
                (None, Some(above)) if self.has_copied(parent, &born, &group.cpus) => {
                    Origin::Born(above.clone())
                }
                (None, _) => Origin::Own(now.clone()),
            };
            if matches!(origin, Origin::Born(_)) {
                born.insert(path);
            }
            let original = origin.list().clone();
            let above = wants.get(parent).cloned().unwrap_or_else(|| self.default.clone());
            let mut want = if self.view.systemd {
                let inherits = matches!(origin, Origin::Own(_)) && group.cpus.is_empty();
                self.unit_wants(path, &original, inherits, &above)
            } else {
                self.other_wants(path, &original, &above)
            };
            if self.view.v1 {
                let wished = &want & &self.view.online;
                // A cgroup whose CPUs are all off-line gets its parent's CPUs. Otherwise the kernel would move its tasks.
                want = if wished.is_empty() && !want.is_empty() { above } else { wished };
            }
            // Whether the parent's list is, or will be, different from its original.
            let is_held = self.view.v1
                && originals.get(parent).is_some_and(|o| wants.get(parent).is_some_and(|w| w != o));
            let keeping = match origin {
                Origin::Born(_) => Keeping::Nothing,
                _ if want == original && !is_held => Keeping::Release,
                _ => Keeping::Keep,
            };
            let is_kept = matches!(origin, Origin::Kept(_));
            let due = match keeping {
                Keeping::Nothing => false,
                Keeping::Release => is_kept,
                Keeping::Keep => !is_kept && is_held,
            };
            wants.insert(path.clone(), want.clone());
            originals.insert(path, original);
            if want != now || due {
                result.push(Other { path: path.clone(), now, want, keeping });
            }
        }
        result
    }

    /// Whether a version 1 list equals the list of the parent, if we changed the parent or it is itself in `born`.
    fn has_copied(&self, parent: &str, born: &BTreeSet<&str>, list: &CpuSet) -> bool {
        let is_changed = || self.view.baseline(&self.view.cpus_knob(parent)).is_some();
        self.view.v1
            && self.view.groups.get(parent).is_some_and(|above| above.cpus == *list)
            && (born.contains(parent) || is_changed())
    }

    /// The list that a foreign cgroup should have, from its original list and the future list of its parent.
    pub(super) fn other_wants(&self, path: &str, original: &CpuSet, above: &CpuSet) -> CpuSet {
        if let Some((zone, set)) = self.zones.iter().find(|(zone, _)| is_within(path, zone)) {
            let cpus = &self.wanted.sets[set].cpus();
            let inside = original & cpus;
            return match self.modes[set] {
                PsetMode::InPlace => original.clone(),
                _ if path == zone || (self.view.v1 && inside.is_empty()) => cpus.clone(),
                _ if self.view.v1 => inside,
                _ => original.clone(),
            };
        }
        // A cgroup above a zone must keep the zone's CPUs.
        if self.zones.keys().any(|zone| is_within(zone, path)) {
            return original.clone();
        }
        if original.is_empty() {
            // It inherits its CPUs. This is not sufficient where sets are enforced by narrowing.
            let top = self.view.groups.contains_key(path) && !self.view.v1 && self.steering();
            return if top { self.default.clone() } else { CpuSet::new() };
        }
        let is_partition = || {
            let flag = control(path, CpusetFile::Partition);
            self.view.groups.get(path).is_some_and(Group::is_partition) || self.view.baseline(&flag).is_some()
        };
        let narrows = self.view.v1 || self.view.overlap_kills || self.steering() || is_partition();
        if !narrows || original.is_disjoint(&self.exclusive) {
            return original.clone();
        }
        let rest = original - &self.exclusive;
        if rest.is_empty() { above.clone() } else { rest }
    }

    /// The list of a unit that we have not changed. A list of all CPUs can remain after a property was reset and the kernel kept
    /// the list. It counts as no list.
    fn unasked(&self, list: &CpuSet) -> CpuSet {
        let is_left = self.view.systemd && self.view.possible.is_subset(list);
        if is_left { CpuSet::new() } else { list.clone() }
    }

    /// The same where systemd owns the tree. There the list also keeps the controller enabled for a zone. Once a unit had a list,
    /// the kernel may not clear it again (`inherits`: it has no list).
    fn unit_wants(&self, path: &str, original: &CpuSet, inherits: bool, above: &CpuSet) -> CpuSet {
        let whole = if original.is_empty() { &self.view.possible } else { original };
        if let Some((zone, set)) = self.zones.iter().find(|(zone, _)| is_within(path, zone)) {
            return match self.modes[set] {
                _ if path != zone => original.clone(),
                PsetMode::InPlace => whole.clone(),
                _ => self.wanted.sets[set].cpus(),
            };
        }
        if self.zones.keys().any(|zone| is_within(zone, path)) {
            return original.clone();
        }
        if self.steering() && original.is_empty() {
            return self.default.clone();
        }
        let kills = self.view.overlap_kills && !inherits && self.is_beside_partition(path);
        if !(kills || self.steering()) || whole.is_disjoint(&self.exclusive) {
            return original.clone();
        }
        let rest = whole - &self.exclusive;
        if rest.is_empty() { above.clone() } else { rest }
    }

    /// Whether a sibling of this cgroup may become a partition: the cgroup of a set in the root, or a zone.
    fn is_beside_partition(&self, path: &str) -> bool {
        let parent = |path: &str| path.rsplit_once('/').map(|(p, _)| p.to_owned());
        parent(path).is_some_and(|p| p.is_empty())
            || self.exclusive_wants().keys().any(|zone| parent(zone) == parent(path))
    }

    /// On version 1 each list must always be a subset of its parent's. So growing lists are widened first, from the top down, and
    /// then narrowed from the bottom up. On version 2 only overlaps matter: lists shrink first and grow last (`grow_others`).
    pub(super) fn shrink_others(&mut self, others: &mut [Other]) {
        for other in others.iter_mut().filter(|_| self.view.v1) {
            let wide = &other.now | &other.want;
            if wide != other.now {
                let step = self.step_other(other, &wide);
                self.steps.push(step);
                other.now = wide;
            }
        }
        for other in others.iter_mut().rev() {
            let rest = &other.now & &other.want;
            let less = if self.view.v1 || rest.is_empty() { other.want.clone() } else { rest };
            if less != other.now {
                let step = self.step_other(other, &less);
                self.steps.push(step);
                other.now = less;
            }
        }
    }

    pub(super) fn grow_others(&mut self, others: &[Other]) {
        for other in others {
            // Even if nothing must be written, the original list is recorded, or its record removed if the list is the original
            // again.
            let knob = self.view.cpus_knob(&other.path).knob();
            let is_said = other.now == other.want
                && self.steps.iter().any(|s| s.knob == knob && s.baseline == other.keeping.baseline());
            if !(is_said || other.keeping == Keeping::Nothing && other.now == other.want) {
                self.steps.push(self.step_other(other, &other.want));
            }
        }
    }

    /// Foreign partitions that lose all their CPUs: their flag is recorded and removed, because the kernel would make them
    /// invalid permanently.
    pub(super) fn release_partitions(&mut self, others: &[Other]) {
        for other in others.iter().rev() {
            let Some(group) = self.view.groups.get(&other.path).filter(|group| group.is_partition()) else {
                continue;
            };
            let flag = control(&other.path, CpusetFile::Partition);
            if self.view.baseline(&flag).is_none() && other.now.is_subset(&self.exclusive) {
                self.steps.push(Step::new(flag.knob(), group.partition.clone(), None).keeping());
            }
        }
    }

    /// Restores the flags of foreign partitions whose lists are the original ones again.
    pub(super) fn restore_partitions(&mut self, others: &[Other]) {
        for (path, group) in &self.view.groups {
            let flag = control(path, CpusetFile::Partition);
            let Some(Some(original)) = self.view.baseline(&flag).cloned() else { continue };
            let stays_narrow = match others.iter().find(|other| other.path == *path) {
                Some(other) => other.keeping != Keeping::Release,
                None => self.view.baseline(&self.view.cpus_knob(path)).is_some(),
            };
            if !stays_narrow {
                let step = Step::new(flag.knob(), group.partition.clone(), Some(original)).releasing();
                self.steps.push(step.tolerant());
            }
        }
    }

    fn step_other(&self, other: &Other, value: &CpuSet) -> Step {
        let step =
            Step::new(self.view.cpus_knob(&other.path).knob(), list_value(&other.now), list_value(value));
        match other.keeping {
            Keeping::Release if *value == other.want => step.releasing(),
            Keeping::Keep | Keeping::Release => step.keeping(),
            Keeping::Nothing => step,
        }
    }
}

/// The source of the original list.
enum Origin {
    /// From the journal.
    Kept(CpuSet),
    /// The current list, which was never changed.
    Own(CpuSet),
    /// The cgroup copied a list that we had changed. Its original is that of the copied list.
    Born(CpuSet),
}

impl Origin {
    fn list(&self) -> &CpuSet {
        match self {
            Origin::Kept(list) | Origin::Own(list) | Origin::Born(list) => list,
        }
    }
}
