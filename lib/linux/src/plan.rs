//! The enforcement plan: from the tree as it is and the sets that are wanted to an ordered list of steps.
//!
//! A pure function: it reads nothing and knows no path of a file system. The order is what makes each step
//! acceptable to the kernel at its moment:
//!
//! 1. the controller, and new cgroups, parents first;
//! 2. cgroups of sets that end: tasks out, flags and lists reset, directories removed;
//! 3. partitions that lose all their processors give up their flag;
//! 4. lists shrink, children before parents — other people's first, for an overlap kills a partition;
//! 5. lists grow, parents before children, and labels follow;
//! 6. partition flags are set;
//! 7. tasks move;
//! 8. other people's lists grow back, parents first;
//! 9. the controller is given back when nobody uses it any more.
//!
//! A plan for a machine that already is as wanted is empty.

use crate::knob::{LinuxKnob, TaskId};
use crate::names::{self, DEFAULT_GROUP};
use crate::view::{SetLabel, View, ancestors, control, is_within};
use millpond_machine::{Baseline, Step, Value};
use millpond_model::{CpuSet, PsetId, PsetMode};
use std::collections::{BTreeMap, BTreeSet};

/// Where a task should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Into a set.
    Set(PsetId),
    /// Into the default set, in a cgroup of ours, because we start it.
    Default,
    /// Back to where it came from.
    Home,
}

/// What is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The sets.
    pub sets: BTreeMap<PsetId, SetLabel>,
    /// Tasks that change places, with where each is now. Others stay, unless their set ends.
    pub moves: Vec<(TaskId, String, Destination)>,
}

/// Somebody else's cgroup whose list must change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Other {
    path: String,
    now: CpuSet,
    want: CpuSet,
    /// The list that is wanted is the original one.
    released: bool,
}

/// What a cgroup of ours should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Target {
    cpus: CpuSet,
    partition: bool,
    controller: bool,
    label: Option<String>,
    origin: Option<String>,
}

/// The steps from `view` to `wanted`, in order.
#[must_use]
pub fn plan(view: &View, wanted: &Wanted) -> Vec<Step> {
    Planner::new(view, wanted).steps()
}

struct Planner<'a> {
    view: &'a View,
    wanted: &'a Wanted,
    /// Processors that nobody else may use.
    exclusive: CpuSet,
    /// Processors of the default set.
    default: CpuSet,
    modes: BTreeMap<PsetId, PsetMode>,
    /// Standing cgroups that are bound as they are, with their set.
    zones: BTreeMap<String, PsetId>,
    targets: BTreeMap<String, Target>,
    moves: Vec<(TaskId, String, String)>,
    steps: Vec<Step>,
}

impl<'a> Planner<'a> {
    fn new(view: &'a View, wanted: &'a Wanted) -> Self {
        let union = |filter: fn(&SetLabel) -> bool| {
            wanted.sets.values().filter(|s| filter(s)).fold(CpuSet::new(), |all, s| &all | &s.cpus())
        };
        let taken = union(|_| true);
        let modes = wanted
            .sets
            .iter()
            .map(|(id, s)| (*id, view.mode(s, will_have_tasks(view, wanted, *id))))
            .collect();
        let zones = wanted.sets.iter().flat_map(|(id, s)| s.zones.iter().map(|z| (z.clone(), *id))).collect();
        Planner {
            modes,
            zones,
            view,
            wanted,
            exclusive: union(|s| s.mode != PsetMode::Shared),
            default: &view.online - &taken,
            targets: BTreeMap::new(),
            moves: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn steps(mut self) -> Vec<Step> {
        self.aim_sets();
        self.aim_tasks();
        self.aim_default();
        self.create();
        self.dissolve();
        self.release_flags();
        self.release_zones();
        let mut others = self.others();
        self.shrink_others(&mut others);
        self.shrink_ours();
        self.grow_ours();
        self.flag();
        self.move_tasks();
        self.claim_zones();
        self.grow_others(&others);
        self.give_back_zone_controllers();
        self.give_back_controller();
        self.steps
    }

    // --- what should be -------------------------------------------------------------------------------

    fn aim_sets(&mut self) {
        for (id, label) in &self.wanted.sets {
            let active = &label.cpus() & &self.view.online;
            let target = Target {
                // Version 1 forgets off-line processors by itself and refuses to be told about them.
                cpus: match self.modes[id] {
                    // The zone's own cgroup has them; ours only holds the label.
                    PsetMode::InPlace => CpuSet::new(),
                    _ if self.view.v1 => active.clone(),
                    _ => label.cpus(),
                },
                partition: self.view.partitions && self.modes[id] == PsetMode::Own && !active.is_empty(),
                controller: !self.view.v1,
                label: Some(label.text()),
                origin: None,
            };
            self.targets.insert(names::set_group(*id), target);
        }
    }

    fn aim_tasks(&mut self) {
        let whole: BTreeMap<u32, Destination> = self
            .wanted
            .moves
            .iter()
            .filter(|(t, ..)| t.tid.is_none())
            .map(|(t, _, to)| (t.pid, *to))
            .collect();
        let single: BTreeMap<u32, Destination> =
            self.wanted.moves.iter().filter_map(|(t, _, to)| Some((t.tid?, *to))).collect();
        for task in &self.view.tasks {
            // What the user named is aimed below; here are those who stay, or must follow their set's end.
            let named = whole.contains_key(&task.id.pid) || single.contains_key(&task.id.leader());
            if !named {
                self.aim_task(task.id, &task.at, None, task.pinned);
            }
        }
        for (task, at, to) in &self.wanted.moves {
            self.aim_task(*task, at, Some(*to), false);
        }
    }

    fn aim_task(&mut self, id: TaskId, at: &str, to: Option<Destination>, pinned: bool) {
        let owner = names::owner(at);
        let origin = self.origin_of(at);
        let to = to.unwrap_or(match owner {
            Some(set) if set.is_default() && names::is_started(at) && !self.wanted.sets.is_empty() => {
                Destination::Default
            }
            Some(set) if self.wanted.sets.contains_key(&set) => Destination::Set(set),
            _ => Destination::Home,
        });
        let place = match to {
            Destination::Set(set) => self.leaf(&names::set_group(set), names::leaf(&origin), &origin),
            Destination::Default if self.wanted.sets.is_empty() => self.home(&origin),
            Destination::Default => self.leaf(DEFAULT_GROUP, names::started_leaf(&origin), &origin),
            Destination::Home => self.home(&origin),
        };
        if place == at {
            return;
        }
        if !pinned {
            self.moves.push((id, at.to_owned(), place));
        }
    }

    /// Where the task came from: the leaf of ours that it is in says it, else it is there still.
    fn origin_of(&self, at: &str) -> String {
        if names::owner(at).is_none() {
            return at.to_owned();
        }
        let known = self.view.groups.get(at).and_then(|g| g.origin.clone());
        known.filter(|o| self.view.is_home(o)).unwrap_or_else(|| "/".to_owned())
    }

    /// Where a task of the default set lives: where it came from, except that version 1 cannot narrow its
    /// root cgroup.
    fn home(&mut self, origin: &str) -> String {
        if self.view.v1 && origin == "/" && !self.exclusive.is_empty() {
            return self.leaf(DEFAULT_GROUP, names::leaf("/"), "/");
        }
        origin.to_owned()
    }

    fn leaf(&mut self, group: &str, (name, whole): (String, bool), origin: &str) -> String {
        let path = format!("{group}/{name}");
        let above = self.targets.get(group).map(|t| t.cpus.clone()).unwrap_or_default();
        let cpus = if names::is_started(&path) {
            self.default.clone()
        } else if !self.view.v1 {
            CpuSet::new()
        } else if group == DEFAULT_GROUP {
            self.open()
        } else {
            above
        };
        let target = Target { cpus, origin: (!whole).then(|| origin.to_owned()), ..Target::default() };
        self.targets.insert(path.clone(), target);
        path
    }

    /// Where everybody may run: also in sets that push nobody out.
    fn open(&self) -> CpuSet {
        &self.view.online - &self.exclusive
    }

    fn aim_default(&mut self) {
        let prefix = format!("{DEFAULT_GROUP}/");
        let needed = self.targets.keys().any(|p| p.starts_with(&prefix));
        if needed {
            let target = Target { cpus: self.open(), controller: !self.view.v1, ..Target::default() };
            self.targets.insert(DEFAULT_GROUP.to_owned(), target);
        }
    }

    // --- steps, in order ------------------------------------------------------------------------------

    fn push(&mut self, knob: &LinuxKnob, before: Option<Value>, after: Option<Value>) {
        if before != after {
            self.steps.push(Step::new(knob.knob(), before, after));
        }
    }

    fn create(&mut self) {
        let on = Some("on".to_owned());
        let root_controller = self.view.groups.get("/").is_some_and(|g| g.controller);
        if !self.view.v1 && !self.targets.is_empty() && !root_controller {
            let knob = LinuxKnob::Controller("/".into()).knob();
            self.steps.push(Step::new(knob, None, on.clone()).keeping());
        }
        self.enable_above_zones();
        for (path, target) in self.targets.clone() {
            let is = self.view.groups.get(&path);
            if is.is_none() {
                self.push(&LinuxKnob::Dir(path.clone()), None, Some("present".into()));
                self.push(&LinuxKnob::Label(path.clone(), "origin".into()), None, target.origin);
            }
            if target.controller && !is.is_some_and(|g| g.controller) {
                self.push(&LinuxKnob::Controller(path.clone()), None, on.clone());
            }
            if self.view.v1 {
                let before = is.and_then(|g| g.mems.clone());
                if before.is_none() {
                    self.push(&control(&path, "cpuset.mems"), before, Some(self.view.mems.clone()));
                }
            }
        }
    }

    /// Cgroups of ours that nobody wants: tasks out first, then children before parents.
    fn dissolve(&mut self) {
        let dying: Vec<String> = self
            .view
            .groups
            .keys()
            .filter(|p| names::owner(p).is_some() && !self.targets.contains_key(*p))
            .cloned()
            .collect();
        let out: Vec<_> = self.moves.extract_if(.., |(_, at, _)| dying.contains(at)).collect();
        // A home that is to be made in the same plan has no processors yet.
        for path in out.iter().map(|(_, _, to)| to.clone()).collect::<BTreeSet<_>>() {
            self.grow_one(&path);
        }
        for (task, at, to) in out {
            self.move_task(task, at, to);
        }
        for path in dying.iter().rev() {
            let group = self.view.groups[path].clone();
            self.push(&control(path, "cpuset.cpus.partition"), group.partition, None);
            let cpus = list(&group.cpus);
            self.push(&control(path, "cpuset.cpus"), cpus, None);
            self.push(&control(path, "cpuset.mems"), group.mems, None);
            if group.controller {
                self.push(&LinuxKnob::Controller(path.clone()), Some("on".into()), None);
            }
            self.push(&LinuxKnob::Label(path.clone(), "set".into()), group.label, None);
            if let Some(origin) = group.origin.filter(|_| path.contains('~')) {
                self.push(&LinuxKnob::Label(path.clone(), "origin".into()), Some(origin), None);
            }
            self.push(&LinuxKnob::Dir(path.clone()), Some("present".into()), None);
        }
    }

    /// A list that a task needs before the general growth, with those above it.
    fn grow_one(&mut self, path: &str) {
        let Some((parent, _)) = path.rsplit_once('/') else { return };
        if names::owner(path).is_none() {
            return;
        }
        for path in [parent, path] {
            let wanted = self.targets.get(path).map(|t| t.cpus.clone()).unwrap_or_default();
            let is = self.view.groups.get(path).map(|g| g.cpus.clone()).unwrap_or_default();
            if is.is_empty() && !wanted.is_empty() {
                self.push(&control(path, "cpuset.cpus"), None, list(&wanted));
            }
        }
    }

    fn release_flags(&mut self) {
        for (path, target) in &self.targets {
            let flag = self.view.groups.get(path).and_then(|g| g.partition.clone());
            if flag.is_some() && !target.partition {
                let step = Step::new(control(path, "cpuset.cpus.partition").knob(), flag, None);
                self.steps.push(step);
            }
        }
    }

    /// Whether some set can only be enforced by asking everybody else aside.
    fn steering(&self) -> bool {
        self.modes.values().any(|m| *m == PsetMode::Steered)
    }

    /// Other people's cgroups whose lists are not as they should be.
    fn others(&self) -> Vec<Other> {
        let mut result: Vec<Other> = Vec::new();
        let mut wants: BTreeMap<String, CpuSet> = BTreeMap::new();
        for (path, group) in &self.view.groups {
            if path == "/" || names::owner(path).is_some() {
                continue;
            }
            let kept = self.view.baseline(&control(path, "cpuset.cpus"));
            let original: CpuSet = match kept {
                Some(kept) => kept.as_deref().and_then(|t| t.parse().ok()).unwrap_or_default(),
                None => group.cpus.clone(),
            };
            let parent = path.rsplit_once('/').map_or("", |(p, _)| p);
            let above = wants.get(parent).cloned().unwrap_or_else(|| self.default.clone());
            let mut want = self.other_wants(path, &original, &above);
            if self.view.v1 {
                let wished = &want & &self.view.online;
                // A group whose processors all left shares its parent's, or the kernel would move its tasks.
                want = if wished.is_empty() && !want.is_empty() { above } else { wished };
            }
            wants.insert(path.clone(), want.clone());
            if want != group.cpus {
                let released = want == original;
                result.push(Other { path: path.clone(), now: group.cpus.clone(), want, released });
            } else if kept.is_some() && want == original {
                result.push(Other { path: path.clone(), now: want.clone(), want, released: true });
            }
        }
        result
    }

    /// What somebody else's list should be, given its original and what its parent will have.
    fn other_wants(&self, path: &str, original: &CpuSet, above: &CpuSet) -> CpuSet {
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
        // A cgroup above a zone must leave the zone its processors.
        if self.zones.keys().any(|zone| is_within(zone, path)) {
            return original.clone();
        }
        if original.is_empty() {
            // It inherits, which only must not be where others are merely asked aside.
            let top = self.view.groups.contains_key(path) && !self.view.v1 && self.steering();
            return if top { self.default.clone() } else { CpuSet::new() };
        }
        let narrows = self.view.v1 || self.view.overlap_kills || self.steering();
        if !narrows || original.is_disjoint(&self.exclusive) {
            return original.clone();
        }
        let rest = original - &self.exclusive;
        if rest.is_empty() { above.clone() } else { rest }
    }

    /// `cpuset.cpus.exclusive` as it should be, for zones that are partitions where they stand and for the
    /// cgroups above them.
    fn exclusive_wants(&self) -> BTreeMap<String, CpuSet> {
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

    fn is_standing_partition(&self, path: &str) -> bool {
        let set = self.zones.get(path);
        set.is_some_and(|s| {
            self.modes[s] == PsetMode::InPlace
                && !(&self.wanted.sets[s].cpus() & &self.view.online).is_empty()
        })
    }

    /// Zones that end, or lose processors, from the bottom up: first the flag, then the lists.
    fn release_zones(&mut self) {
        let wants = self.exclusive_wants();
        let foreign: Vec<String> =
            self.view.groups.keys().filter(|p| names::owner(p).is_none()).cloned().collect();
        for path in foreign.into_iter().rev() {
            let group = self.view.groups[&path].clone();
            let flag = control(&path, "cpuset.cpus.partition");
            if self.view.baseline(&flag).is_some() && !self.is_standing_partition(&path) {
                self.steps.push(Step::new(flag.knob(), group.partition, None).releasing());
            }
            let knob = control(&path, "cpuset.cpus.exclusive");
            if self.view.baseline(&knob).is_none() {
                continue;
            }
            let want = wants.get(&path).cloned().unwrap_or_default();
            let less = &group.exclusive & &want;
            if want.is_empty() {
                self.steps.push(Step::new(knob.knob(), list(&group.exclusive), None).releasing());
            } else if less != group.exclusive && !less.is_empty() {
                self.steps.push(Step::new(knob.knob(), list(&group.exclusive), list(&less)).keeping());
            }
        }
    }

    /// Zones that begin, or gain processors, from the top down: first the lists, then the flag.
    fn claim_zones(&mut self) {
        for (path, want) in self.exclusive_wants() {
            let group = self.view.groups.get(&path).cloned().unwrap_or_default();
            let less = &group.exclusive & &want;
            let is = if less.is_empty() { group.exclusive.clone() } else { less };
            if is != want {
                let knob = control(&path, "cpuset.cpus.exclusive").knob();
                self.steps.push(Step::new(knob, list(&is), list(&want)).keeping());
            }
            if self.is_standing_partition(&path) && group.partition.as_deref() != Some("root") {
                let knob = control(&path, "cpuset.cpus.partition").knob();
                self.steps.push(Step::new(knob, group.partition, Some("root".into())).keeping());
            }
        }
    }

    /// A zone has control files only where every cgroup above it enables the controller.
    fn enable_above_zones(&mut self) {
        if self.view.v1 {
            return;
        }
        let above: BTreeSet<String> = self.zones.keys().flat_map(|z| ancestors(z)).collect();
        for path in above {
            if !self.view.groups.get(&path).is_some_and(|g| g.controller) {
                let knob = LinuxKnob::Controller(path).knob();
                self.steps.push(Step::new(knob, None, Some("on".into())).keeping());
            }
        }
    }

    fn give_back_zone_controllers(&mut self) {
        let above: BTreeSet<String> = self.zones.keys().flat_map(|z| ancestors(z)).collect();
        for (path, group) in self.view.groups.iter().rev() {
            let knob = LinuxKnob::Controller(path.clone());
            let kept = path != "/" && names::owner(path).is_none() && self.view.baseline(&knob).is_some();
            if kept && !above.contains(path) {
                let before = group.controller.then(|| "on".to_owned());
                self.steps.push(Step::new(knob.knob(), before, None).releasing());
            }
        }
    }

    /// Version 1 wants each list within its parent's at every moment, so lists that gain something are
    /// widened first, from the top down, and then narrowed from the bottom up. On version 2 only overlaps
    /// matter: what is lost goes first, what is gained comes last (`grow_others`).
    fn shrink_others(&mut self, others: &mut [Other]) {
        for other in others.iter_mut().filter(|_| self.view.v1) {
            let wide = &other.now | &other.want;
            if wide != other.now {
                let step = Self::step_other(other, &wide);
                self.steps.push(step);
                other.now = wide;
            }
        }
        for other in others.iter_mut().rev() {
            let rest = &other.now & &other.want;
            let less = if self.view.v1 || rest.is_empty() { other.want.clone() } else { rest };
            if less != other.now {
                let step = Self::step_other(other, &less);
                self.steps.push(step);
                other.now = less;
            }
        }
    }

    fn grow_others(&mut self, others: &[Other]) {
        for other in others {
            // Also where nothing is left to write, a list that is the original one again is forgotten.
            let forget = other.released
                && !self.steps.iter().any(|s| {
                    s.knob == control(&other.path, "cpuset.cpus").knob() && s.baseline == Baseline::Release
                });
            if other.now != other.want || forget {
                self.steps.push(Self::step_other(other, &other.want));
            }
        }
    }

    fn step_other(other: &Other, value: &CpuSet) -> Step {
        let step = Step::new(control(&other.path, "cpuset.cpus").knob(), list(&other.now), list(value));
        if other.released && *value == other.want { step.releasing() } else { step.keeping() }
    }

    fn shrink_ours(&mut self) {
        for (path, target) in self.targets.clone().iter().rev() {
            let is = self.view.groups.get(path).map(|g| g.cpus.clone()).unwrap_or_default();
            let less = &is & &target.cpus;
            if less != is && (!less.is_empty() || target.cpus.is_empty()) {
                self.push(&control(path, "cpuset.cpus"), list(&is), list(&less));
            }
        }
    }

    fn grow_ours(&mut self) {
        for (path, target) in self.targets.clone() {
            let group = self.view.groups.get(&path).cloned().unwrap_or_default();
            let less = &group.cpus & &target.cpus;
            // Where nothing stays, the shrinking step was left out: one write replaces the list.
            let is = if less.is_empty() { group.cpus.clone() } else { less };
            let grown = self
                .steps
                .iter()
                .any(|s| s.knob == control(&path, "cpuset.cpus").knob() && s.after == list(&target.cpus));
            if is != target.cpus && !grown && !target.cpus.is_empty() {
                self.push(&control(&path, "cpuset.cpus"), list(&is), list(&target.cpus));
            }
            self.push(&LinuxKnob::Label(path.clone(), "set".into()), group.label, target.label);
        }
    }

    fn flag(&mut self) {
        for (path, target) in self.targets.clone() {
            let flag = self.view.groups.get(&path).and_then(|g| g.partition.clone());
            if target.partition {
                self.push(&control(&path, "cpuset.cpus.partition"), flag, Some("root".into()));
            }
        }
    }

    fn move_tasks(&mut self) {
        for (task, at, to) in std::mem::take(&mut self.moves) {
            self.move_task(task, at, to);
        }
    }

    fn move_task(&mut self, task: TaskId, at: String, to: String) {
        // Only what the user named must succeed; a task that is cleared away may have ended.
        let named = self.wanted.moves.iter().any(|(t, _, _)| *t == task);
        let step = Step::new(LinuxKnob::Place(task).knob(), Some(at), Some(to));
        self.steps.push(if named { step } else { step.tolerant() });
    }

    fn give_back_controller(&mut self) {
        let knob = LinuxKnob::Controller("/".into());
        let kept = self.view.baseline(&knob).is_some();
        let used = self.view.groups.iter().any(|(path, g)| {
            path != "/" && names::owner(path).is_none() && (!g.cpus.is_empty() || g.partition.is_some())
        });
        if kept && self.targets.is_empty() {
            let (before, after) = (Some("on".to_owned()), if used { Some("on".to_owned()) } else { None });
            self.steps.push(Step::new(knob.knob(), before, after).releasing());
        }
    }
}

/// Whether a set will have members in its own cgroup once the moves are made.
fn will_have_tasks(view: &View, wanted: &Wanted, id: PsetId) -> bool {
    let leaves = |task: TaskId| {
        wanted.moves.iter().any(|(t, _, to)| {
            *to != Destination::Set(id) && (*t == task || (t.tid.is_none() && t.pid == task.pid))
        })
    };
    let stays = view.tasks.iter().any(|t| names::owner(&t.at) == Some(id) && !leaves(t.id));
    stays || wanted.moves.iter().any(|(_, _, to)| *to == Destination::Set(id))
}

fn list(cpus: &CpuSet) -> Option<Value> {
    (!cpus.is_empty()).then(|| cpus.to_string())
}
