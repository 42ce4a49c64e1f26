//! Memory nodes of sets.
//!
//! On version 2 the list of a set's cgroup is sufficient: its children inherit it, and the kernel moves pages. On version 1 every
//! cgroup has a list of its own, a subset of its parent's, and pages move where `cpuset.memory_migrate` is on.

use super::Planner;
use crate::knob::CpusetFile;
use crate::names;
use crate::view::control;
use millpond_model::NodeSet;

/// The value of a flag that is on.
const ON: &str = "1";

impl Planner<'_> {
    /// Gives cgroups below a set the set's memory nodes, where they do not inherit them.
    pub(super) fn aim_memory(&mut self) {
        if !self.view.v1 {
            return;
        }
        let wanted = self.wanted;
        for (path, target) in &mut self.targets {
            let label = names::owner(path).and_then(|set| wanted.sets.get(&set));
            target.mems = label.and_then(|label| self.view.wanted_mems(label));
        }
    }

    /// Changes the lists of memory nodes: first those that grow, parents first; then those that shrink, children first.
    pub(super) fn confine_memory(&mut self) {
        let mut shrinking = Vec::new();
        for (path, target) in self.targets.clone() {
            let group = self.view.groups.get(&path).cloned();
            let is_new = group.is_none();
            let group = group.unwrap_or_default();
            // On version 2 leaves and scopes inherit. Their lists are not changed.
            if !self.view.v1
                && path != names::owner(&path).map_or_else(String::new, |set| self.view.set_group(set))
            {
                continue;
            }
            if !self.view.v1 {
                self.push(&self.view.mems_knob(&path), group.mems, target.mems);
                continue;
            }
            let on = |is: bool| is.then(|| ON.to_owned());
            let migrates = target.mems.is_some();
            if migrates {
                self.push(&control(&path, CpusetFile::MemoryMigrate), on(group.migrates), on(true));
            }
            // A new cgroup has just been given its list.
            if is_new || group.mems.is_none() || self.view.mems.is_empty() {
                continue;
            }
            let nodes = |list: &str| list.parse::<NodeSet>().unwrap_or_default();
            let is = nodes(group.mems.as_deref().unwrap_or_default());
            let to = nodes(target.mems.as_deref().unwrap_or(&self.view.mems));
            let both = &is | &to;
            self.push_nodes(&path, &is, &both);
            shrinking.push((path, both, to, group.migrates && !migrates));
        }
        for (path, is, to, stops) in shrinking.into_iter().rev() {
            self.push_nodes(&path, &is, &to);
            if stops {
                self.push(&control(&path, CpusetFile::MemoryMigrate), Some(ON.to_owned()), None);
            }
        }
    }

    fn push_nodes(&mut self, path: &str, is: &NodeSet, to: &NodeSet) {
        let value = crate::knob::node_list;
        self.push(&control(path, CpusetFile::Mems), value(is), value(to));
    }
}
