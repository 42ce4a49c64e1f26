//! Tasks: their destinations, and the steps that move them.

use super::{Destination, Planner, Target};
use crate::knob::{Label, LinuxKnob, TaskId};
use crate::names::{self, DEFAULT_GROUP, DEFAULT_SLICE};
use crate::view::is_within;
use millpond_machine::Step;
use millpond_model::{CpuSet, PoolId};
use std::collections::BTreeMap;

impl Planner<'_> {
    pub(super) fn aim_tasks(&mut self) {
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
            // Named tasks are handled below. These are tasks that stay, or that must leave a set that ends.
            let named = whole.contains_key(&task.id.pid) || single.contains_key(&task.id.leader());
            if !named {
                self.aim_task(task.id, &task.at, None, task.pinned);
            }
        }
        for (task, at, to) in &self.wanted.moves {
            self.aim_task(*task, at, Some(*to), false);
        }
    }

    pub(super) fn aim_task(&mut self, id: TaskId, at: &str, to: Option<Destination>, pinned: bool) {
        let origin = self.origin_of(at);
        let to = to.unwrap_or_else(|| self.wanted.destination(at));
        let place = match to {
            Destination::Pool(pool, set) if self.view.systemd => {
                let slice = if set.is_default() { DEFAULT_SLICE.to_owned() } else { names::set_slice(set) };
                self.scope(&slice, Some(pool), id, at)
            }
            Destination::Pool(pool, set) => {
                let group = if set.is_default() { DEFAULT_GROUP.to_owned() } else { names::set_group(set) };
                self.leaf(&group, names::pool_leaf(pool, &origin), &origin)
            }
            Destination::Set(set) if self.view.systemd => self.scope(&names::set_slice(set), None, id, at),
            Destination::Set(set) => self.leaf(&names::set_group(set), names::leaf(&origin), &origin),
            Destination::Default if self.wanted.sets.is_empty() => self.home(&origin),
            Destination::Default if self.view.systemd => self.scope(DEFAULT_SLICE, None, id, at),
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

    /// The original cgroup of a task: from the name of its leaf if it is in one of ours, else its current cgroup.
    pub(super) fn origin_of(&self, at: &str) -> String {
        if names::owner(at).is_none() {
            return at.to_owned();
        }
        let known = self.view.groups.get(at).and_then(|g| g.origin.clone());
        known.filter(|o| self.view.is_home(o)).unwrap_or_else(|| "/".to_owned())
    }

    /// The cgroup of a task in the default set: its original cgroup. Exception: on version 1 the root cgroup cannot be narrowed.
    pub(super) fn home(&mut self, origin: &str) -> String {
        if self.view.v1 && origin == "/" && !self.exclusive.is_empty() {
            return self.leaf(DEFAULT_GROUP, names::leaf("/"), "/");
        }
        origin.to_owned()
    }

    pub(super) fn leaf(&mut self, group: &str, (name, whole): (String, bool), origin: &str) -> String {
        let path = format!("{group}/{name}");
        let above = self.targets.get(group).map(|t| t.cpus.clone()).unwrap_or_default();
        let cpus = if names::is_confined(&path) {
            self.default.clone()
        } else if !self.view.v1 {
            CpuSet::new()
        } else if group == DEFAULT_GROUP {
            self.open.clone()
        } else {
            above
        };
        let target = Target { cpus, origin: (!whole).then(|| origin.to_owned()), ..Target::default() };
        self.targets.insert(path.clone(), target);
        path
    }

    /// The scope of a task in a slice of ours: its current one, or a new one.
    fn scope(&mut self, slice: &str, pool: Option<PoolId>, id: TaskId, at: &str) -> String {
        if slice == DEFAULT_SLICE {
            let target = Target { cpus: self.default.clone(), ..Target::default() };
            self.targets.insert(slice.to_owned(), target);
        }
        if is_within(at, slice) && names::pool(at) == pool {
            return at.to_owned();
        }
        let free = (1..).map(|n| names::scope(slice, pool, id.pid, n));
        free.into_iter().find(|path| !self.view.groups.contains_key(path)).unwrap_or_default()
    }

    pub(super) fn move_tasks(&mut self) {
        for (task, at, to) in std::mem::take(&mut self.moves) {
            self.move_task(task, at, to);
        }
    }

    pub(super) fn move_task(&mut self, task: TaskId, at: String, to: String) {
        // Only moves of named tasks must succeed. A task that is moved out of the way may have ended.
        let named = self.wanted.moves.iter().any(|(t, _, _)| *t == task);
        let mut steps = vec![Step::new(LinuxKnob::CgroupOf(task).knob(), Some(at.clone()), Some(to.clone()))];
        if names::is_scope(&to) {
            let label = LinuxKnob::Label(to, Label::Origin).knob();
            steps.push(Step::new(label, None, Some(self.origin_of(&at))));
        }
        self.steps.extend(steps.into_iter().map(|step| if named { step } else { step.tolerant() }));
    }
}
