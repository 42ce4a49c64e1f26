//! The cgroup tree, read once: the input of a plan.

use crate::Os;
use crate::hierarchy::lists_cpuset;
use crate::knob::{ControlFile, CpusetFile, LinuxKnob, TaskId, node_list};
use crate::names;
use crate::numa;
use crate::os::knob_error;
use millpond_machine::{Journal, Knob, KnobError, Reason, Refusal, Subject, Value};
use millpond_model::pools::PoolsState;
use millpond_model::{CpuId, CpuSet, Fencing, Former, LgrpId, Others, PoolId, PsetId, PsetMode, SetMemory};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The requested attributes of a set: the label of its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLabel {
    /// Members in order of arrival.
    pub members: Vec<CpuId>,
    /// `own` for an exclusive set, `shared` if other processes may run there, too. [`View::mode`] is the resulting mode.
    pub mode: PsetMode,
    /// Existing cgroups that are bound to the set in place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// The memory nodes for its tasks.
    #[serde(default, skip_serializing_if = "SetMemory::is_all")]
    pub memory: SetMemory,
    /// The settings of a fence, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fencing>,
    /// The sets from which members were taken, the last one last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<CpuId, Vec<Former>>,
    /// Increases with each created set: the order of creation.
    pub serial: u64,
}

impl SetLabel {
    /// The members as a set.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.members.iter().copied().collect()
    }

    /// The type of its partition.
    pub(crate) fn partition(&self) -> &'static str {
        match &self.fence {
            Some(fence) if fence.shelter.others == Others::Isolated => "isolated",
            _ => "root",
        }
    }

    /// The label's text.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The current state of a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// `cpuset.cpus`: the requested list. Empty means inherited on version 2.
    pub cpus: CpuSet,
    /// `cpuset.mems`: on version 2 only for cgroups of sets, and `None` where they inherit.
    pub mems: Option<Value>,
    /// `cpuset.memory_migrate` is on (version 1).
    pub migrates: bool,
    /// `cpuset.cpu_exclusive` is on (version 1; foreign cgroups only).
    pub is_exclusive: bool,
    /// `cpuset.cpus.partition` unless it is `member`.
    pub partition: Option<Value>,
    /// `cpuset.cpus.exclusive` (version 2, since 6.7).
    pub exclusive: CpuSet,
    /// Whether the cpuset controller is enabled below it (version 2).
    pub controller: bool,
    /// The label of a set's cgroup.
    pub label: Option<String>,
    /// The original cgroup of the tasks in a leaf of ours.
    pub origin: Option<String>,
    /// Foreign units that were started in it (a slice of ours).
    pub units: Vec<String>,
}

impl Group {
    /// Whether it is a valid partition.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        matches!(self.partition.as_deref(), Some("root" | "isolated"))
    }

    /// The CPUs that it takes as a partition: its exclusive list if it has one.
    fn partition_cpus(&self) -> &CpuSet {
        if self.exclusive.is_empty() { &self.cpus } else { &self.exclusive }
    }
}

/// A task that left its set without a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The process, or a thread that was bound individually.
    pub task: TaskId,
    /// Its current cgroup.
    pub at: String,
    /// Its leaf.
    pub leaf: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task.tid {
            None => write!(f, "process {}", self.task.pid),
            Some(tid) => write!(f, "thread {}/{tid}", self.task.pid),
        }
    }
}

/// A task and its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAt {
    /// The task.
    pub id: TaskId,
    /// Its cgroup.
    pub at: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Whether the kernel refuses to move it.
    pub pinned: bool,
}

/// Whether to list the tasks of the root cgroup. Only version 1 needs them, because an exclusive set must move them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootTasks {
    /// Never.
    Unlisted,
    /// If one of the live sets is exclusive.
    ForLiveSets,
    /// Always: an exclusive set is to be created.
    Listed,
}

/// The tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// Whether it is version 1.
    pub v1: bool,
    /// Whether the kernel supports partitions.
    pub partitions: bool,
    /// Whether partitions can be below cgroups that are not partitions (since 6.7).
    pub remote_partitions: bool,
    /// Whether an overlapping sibling makes a partition invalid (until 6.19).
    pub overlap_kills: bool,
    /// Whether the removal of a partition's cgroup returns its CPUs before it completes (since 6.15), not some time later.
    pub prompt_removal: bool,
    /// Whether systemd owns the tree.
    pub systemd: bool,
    /// All possible CPUs.
    pub possible: CpuSet,
    /// On-line CPUs.
    pub online: CpuSet,
    /// On-line CPUs that the root cgroup of a container does not have.
    pub outside: CpuSet,
    /// The CPUs that tasks of the root cgroup may use, where a set of ours is a partition (version 2).
    pub of_root: CpuSet,
    /// Nodes with memory and their CPUs, where a set's memory is confined.
    pub nodes: Vec<(LgrpId, CpuSet)>,
    /// The root's memory nodes (version 1).
    pub mems: Value,
    /// The relevant cgroups, by path; parents sort before children. `/` is always present.
    pub groups: BTreeMap<String, Group>,
    /// Tasks in our cgroups, and on version 1 those in the root cgroup.
    pub tasks: Vec<TaskAt>,
    /// Tasks that left a set without a command. `tasks` lists them as if they were in it.
    pub left: Vec<Left>,
    /// Sets in which units will start, if systemd owns the tree.
    pub kept: BTreeSet<PsetId>,
    /// The last committed configuration of pools, while pools are enabled.
    pub recorded: Option<PoolsState>,
    /// The set of each of its pools.
    pub pools: BTreeMap<PoolId, PsetId>,
    /// Original cgroups that still exist.
    pub origins: BTreeSet<String>,
    /// The original values of foreign settings.
    pub baselines: BTreeMap<Knob, Option<Value>>,
}

impl View {
    /// Reads the tree.
    ///
    /// # Errors
    /// [`Refusal`] when something cannot be read.
    pub fn read(os: &Os, journal: &dyn Journal, root: RootTasks) -> Result<View, Refusal> {
        Self::read_with(os, journal, root, &[])
    }

    /// The same, including the siblings of further cgroups that may become zones.
    ///
    /// # Errors
    /// As for [`View::read`].
    pub fn read_with(
        os: &Os,
        journal: &dyn Journal,
        root: RootTasks,
        zones: &[String],
    ) -> Result<View, Refusal> {
        let recorded = crate::records::recorded_pools(os)?;
        Self::try_read(os, journal, root, zones, recorded).map_err(|(what, error)| {
            let reason = match error {
                KnobError::NotPermitted => Reason::NotPermitted,
                other => Reason::Machine(format!("{what} cannot be read: {other}")),
            };
            Refusal::operation(reason)
        })
    }

    fn try_read(
        os: &Os,
        journal: &dyn Journal,
        root: RootTasks,
        zones: &[String],
        recorded: Option<PoolsState>,
    ) -> Result<View, (String, KnobError)> {
        let v1 = os.hierarchy.is_v1();
        let mut view = View {
            v1,
            overlap_kills: os.overlap_invalidates(),
            prompt_removal: os.returns_cpus_promptly(),
            systemd: os.systemd,
            kept: os.kept_sets(),
            possible: os.possible().clone(),
            online: os.online().map_err(|e| ("the list of on-line CPUs".into(), e))?,
            baselines: journal.baselines(),
            pools: recorded.as_ref().map(PoolsState::sets).unwrap_or_default(),
            recorded,
            ..View::default()
        };
        let Some(mount) = os.hierarchy.mount().cloned() else { return Ok(view) };
        let at = |what: &str| {
            let what = what.to_owned();
            move |e: std::io::Error| (what.clone(), knob_error(e))
        };
        let top = read_group(os, "/")?;
        view.mems = top.mems.clone().unwrap_or_default();
        view.groups.insert("/".into(), top);
        for name in os.root.dirs(&mount).map_err(at("/"))? {
            let path = format!("/{name}");
            let ours = names::owner(&path).is_some();
            if ours {
                view.read_ours(os, &path)?;
            } else if v1 {
                view.read_below(os, &path)?;
            } else {
                view.read_partitions(os, &path)?;
            }
        }
        view.partitions = !v1 && may_hold_partitions(os, &mount) && {
            let any = view.groups.keys().find(|p| *p != "/");
            // Without the controller no such file exists. But every version 2 kernel with cpusets that is still in use has
            // partitions.
            match any.filter(|_| view.groups["/"].controller) {
                Some(path) => os.group(path).is_ok_and(|d| d.join("cpuset.cpus.partition").exists()),
                None => true,
            }
        };
        if view.sets().values().any(|set| !set.memory.is_all()) {
            view.read_nodes(os)?;
        }
        // The root cgroup of the machine has no such file. It has all CPUs outside partitions.
        if !v1 && os.root.read_value(&mount.join("cpuset.cpus.partition")).map_err(at("/"))?.is_some() {
            let has = os.effective("/").map_err(|e| ("/".to_owned(), e))?;
            view.outside = &(&view.online - &has) - &(&view.own_cpus() | &view.partitioned());
        }
        if !v1 {
            view.remote_partitions = view.partitions && os.has_remote_partitions();
            let live = view.sets().into_values().flat_map(|s| s.zones);
            for zone in live.chain(zones.iter().cloned()).collect::<BTreeSet<_>>() {
                view.read_along(os, &zone)?;
            }
        }
        if !view.sets().is_empty() && view.groups.values().any(Group::is_partition) {
            view.of_root = os.effective("/").map_err(|e| ("/".to_owned(), e))?;
        }
        let listed = match root {
            RootTasks::Unlisted => false,
            RootTasks::ForLiveSets => v1 && view.sets().values().any(|s| s.mode.is_exclusive()),
            RootTasks::Listed => v1,
        };
        if listed {
            view.read_tasks(os, "/")?;
        }
        view.recall_left(os);
        Ok(view)
    }

    fn read_nodes(&mut self, os: &Os) -> Result<(), (String, KnobError)> {
        let present = os.cpu_list("present").map_err(|e| ("the list of CPUs".into(), e))?;
        self.nodes = numa::memory_nodes(&os.nodes(&present));
        Ok(())
    }

    /// The nodes for the memory of a set; `None` without a limit: none was requested, or none of the nodes has memory.
    #[must_use]
    pub fn memory_nodes(&self, label: &SetLabel) -> Option<BTreeSet<LgrpId>> {
        let active = &label.cpus() & &self.online;
        let meant = |(node, cpus): &&(LgrpId, CpuSet)| match &label.memory {
            SetMemory::All => false,
            SetMemory::Local => !cpus.is_disjoint(&active),
            SetMemory::Nodes(nodes) => nodes.contains(node),
        };
        let nodes: BTreeSet<LgrpId> = self.nodes.iter().filter(meant).map(|(node, _)| *node).collect();
        (!nodes.is_empty()).then_some(nodes)
    }

    /// The same, as the value of a list.
    pub(crate) fn wanted_mems(&self, label: &SetLabel) -> Option<Value> {
        let nodes = self.memory_nodes(label)?;
        // All nodes are no limit.
        if nodes.len() == self.nodes.len() {
            return None;
        }
        node_list(&nodes.into_iter().collect())
    }

    /// The knob of a cgroup's memory nodes.
    #[must_use]
    pub fn mems_knob(&self, path: &str) -> LinuxKnob {
        match names::unit(path).filter(|_| self.systemd) {
            Some(_) => LinuxKnob::AllowedMemoryNodes(path.to_owned()),
            None => control(path, CpusetFile::Mems),
        }
    }

    /// Reads the ancestors of a zone, with the siblings of each.
    fn read_along(&mut self, os: &Os, zone: &str) -> Result<(), (String, KnobError)> {
        for above in ancestors(zone) {
            let dir = os.group(&above).map_err(|e| (above.clone(), e))?;
            for name in os.root.dirs(&dir).map_err(|e| (above.clone(), knob_error(e)))? {
                let path = format!("{above}/{name}");
                if !self.groups.contains_key(&path) {
                    self.groups.insert(path.clone(), read_group(os, &path)?);
                }
            }
        }
        Ok(())
    }

    fn read_ours(&mut self, os: &Os, path: &str) -> Result<(), (String, KnobError)> {
        let mut group = read_group(os, path)?;
        group.label = os.label(path, "set").map_err(|e| (path.to_owned(), e))?;
        self.groups.insert(path.to_owned(), group);
        self.read_tasks(os, path)?;
        let dir = os.group(path).map_err(|e| (path.to_owned(), e))?;
        for name in os.root.dirs(&dir).map_err(|e| (path.to_owned(), knob_error(e)))? {
            let leaf = format!("{path}/{name}");
            let Some(origin) = leaf_origin(os, path, &name)? else {
                if let Some(group) = self.groups.get_mut(path).filter(|_| os.systemd) {
                    group.units.extend(names::unit(&leaf));
                }
                continue;
            };
            let mut group = read_group(os, &leaf)?;
            if origin == "/" || os.group(&origin).is_ok_and(|d| d.is_dir()) {
                self.origins.insert(origin.clone());
            }
            group.origin = Some(origin);
            self.groups.insert(leaf.clone(), group);
            self.read_tasks(os, &leaf)?;
        }
        Ok(())
    }

    /// Reads a foreign version 2 cgroup, and its descendants that can be partitions: those below a partition, and those with
    /// exclusive CPUs.
    fn read_partitions(&mut self, os: &Os, path: &str) -> Result<(), (String, KnobError)> {
        let group = read_group(os, path)?;
        let holds = group.controller && (group.is_partition() || !group.exclusive.is_empty());
        self.groups.insert(path.to_owned(), group);
        if holds {
            let dir = os.group(path).map_err(|e| (path.to_owned(), e))?;
            for name in os.root.dirs(&dir).map_err(|e| (path.to_owned(), knob_error(e)))? {
                self.read_partitions(os, &format!("{path}/{name}"))?;
            }
        }
        Ok(())
    }

    /// The CPUs that other programs have reserved, by cgroup: those of partitions, and with version 1 of exclusive cpusets. The
    /// cpuset with the first CPU is the one that such a program leaves to the system.
    #[must_use]
    pub fn foreign_partitions(&self) -> BTreeMap<&str, CpuSet> {
        let is_foreign = |path: &str| path != "/" && names::owner(path).is_none();
        let is_ours = |path: &str| self.baseline(&control(path, CpusetFile::Partition)).is_some();
        let first = self.online.lowest();
        let is_apart = |path: &str, group: &Group| match self.v1 {
            true => group.is_exclusive && first.is_none_or(|first| !group.cpus.contains(first)),
            false => group.is_partition() && !is_ours(path),
        };
        let found = self.groups.iter().filter(|(path, group)| is_foreign(path) && is_apart(path, group));
        found.map(|(path, group)| (path.as_str(), group.partition_cpus().clone())).collect()
    }

    fn partitioned(&self) -> CpuSet {
        self.foreign_partitions().values().fold(CpuSet::new(), |all, cpus| &all | cpus)
    }

    /// The members of all sets.
    fn own_cpus(&self) -> CpuSet {
        self.sets().values().fold(CpuSet::new(), |all, set| &all | &set.cpus())
    }

    /// The CPUs in no set, not even the default one: other programs have reserved them.
    #[must_use]
    pub fn reserved(&self) -> CpuSet {
        &(&self.partitioned() | &self.outside) - &self.own_cpus()
    }

    /// The CPUs that partitions currently take from the root cgroup, ours and foreign ones.
    pub(crate) fn taken_from_root(&self) -> CpuSet {
        let partitions = self.groups.iter().filter(|(path, group)| *path != "/" && group.is_partition());
        partitions.fold(CpuSet::new(), |all, (_, group)| &all | group.partition_cpus())
    }

    /// The CPUs of isolated partitions, ours and others.
    pub(crate) fn isolated_partitions(&self) -> CpuSet {
        let isolated = self.groups.values().filter(|group| group.partition.as_deref() == Some("isolated"));
        isolated.fold(CpuSet::new(), |all, group| &all | group.partition_cpus())
    }

    /// The CPUs of a valid partition that tasks of the root cgroup can use nevertheless. Only kernels since 6.13 have any: they lose track of a
    /// partition after all of its CPUs went off-line and returned.
    #[must_use]
    pub fn shared_with_root(&self, path: &str) -> CpuSet {
        let group = self.groups.get(path).filter(|group| group.is_partition());
        group.map(|group| group.partition_cpus() & &self.of_root).unwrap_or_default()
    }

    fn read_below(&mut self, os: &Os, path: &str) -> Result<(), (String, KnobError)> {
        self.groups.insert(path.to_owned(), read_group(os, path)?);
        let dir = os.group(path).map_err(|e| (path.to_owned(), e))?;
        for name in os.root.dirs(&dir).map_err(|e| (path.to_owned(), knob_error(e)))? {
            self.read_below(os, &format!("{path}/{name}"))?;
        }
        Ok(())
    }

    /// Lists the tasks of a cgroup: threads on version 1, processes on version 2.
    fn read_tasks(&mut self, os: &Os, path: &str) -> Result<(), (String, KnobError)> {
        let file = if self.v1 { "tasks" } else { "cgroup.procs" };
        let dir = os.group(path).map_err(|e| (path.to_owned(), e))?;
        let text = match os.root.read(&dir.join(file)) {
            Ok(text) => text.unwrap_or_default(),
            // The file of a threaded cgroup cannot be read. Its tasks belong to the parent.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => String::new(),
            Err(error) => return Err((path.to_owned(), knob_error(error))),
        };
        for number in text.split_ascii_whitespace().filter_map(|n| n.parse::<u32>().ok()) {
            if let Some(task) = task_at(os, number, self.v1, path) {
                self.tasks.push(task);
            }
        }
        Ok(())
    }

    /// The live sets, from their labels.
    #[must_use]
    pub fn sets(&self) -> BTreeMap<PsetId, SetLabel> {
        let mut sets = BTreeMap::new();
        for (path, group) in &self.groups {
            let Some(id) = names::owner(path) else { continue };
            if let Some(label) = group.label.as_deref().and_then(|text| serde_json::from_str(text).ok()) {
                sets.insert(id, label);
            }
        }
        sets
    }

    /// The existing zones of a set. Missing ones stay in the label, because a stopped service may start again.
    pub fn present<'l>(&self, label: &'l SetLabel) -> impl Iterator<Item = &'l String> {
        label.zones.iter().filter(|zone| self.groups.contains_key(*zone))
    }

    /// The mode in which a set is enforced, given whether it has members that we moved or started.
    #[must_use]
    pub fn mode(&self, label: &SetLabel, has_tasks: bool) -> PsetMode {
        // A unit that was started in a set meanwhile has left its former cgroup.
        let moved = |zone: &String| {
            let unit = names::unit(zone);
            unit.is_some_and(|unit| self.groups.values().any(|group| group.units.contains(&unit)))
        };
        // The runtime removes the cgroup of an ended container without a notification. Removing a partition this way causes a
        // kernel warning (6.17).
        let may_be_partition = !self.present(label).any(|zone| names::is_of_pod(zone));
        match (label.mode, self.present(label).filter(|zone| !moved(zone)).count()) {
            (PsetMode::Shared, _) => PsetMode::Shared,
            (_, 0) if self.v1 || self.partitions => PsetMode::Own,
            (_, 1) if !has_tasks && self.remote_partitions && may_be_partition => PsetMode::InPlace,
            _ => PsetMode::Steered,
        }
    }

    /// Whether units were started in a set, or will start there.
    #[must_use]
    pub fn holds_units(&self, id: PsetId) -> bool {
        let started = self.groups.get(&self.set_group(id)).is_some_and(|group| !group.units.is_empty());
        started || self.kept.contains(&id)
    }

    /// Whether the set's own cgroup has members.
    #[must_use]
    pub fn has_tasks(&self, id: PsetId) -> bool {
        self.holds_units(id) || self.tasks.iter().any(|t| names::owner(&t.at) == Some(id))
    }

    /// Whether a task can be moved back to this cgroup.
    #[must_use]
    pub fn is_home(&self, origin: &str) -> bool {
        origin == "/" || self.origins.contains(origin) || self.groups.contains_key(origin)
    }

    /// The cgroup of a set.
    #[must_use]
    pub fn set_group(&self, id: PsetId) -> String {
        if self.systemd { names::set_slice(id) } else { names::set_group(id) }
    }

    /// The knob of a cgroup's CPU list.
    #[must_use]
    pub fn cpus_knob(&self, path: &str) -> LinuxKnob {
        match names::unit(path).filter(|_| self.systemd) {
            Some(_) => LinuxKnob::AllowedCpus(path.to_owned()),
            None => control(path, CpusetFile::Cpus),
        }
    }

    /// The knob of one of our cgroups as a whole.
    #[must_use]
    pub fn group_knob(&self, path: &str) -> LinuxKnob {
        match names::unit(path).filter(|_| self.systemd) {
            Some(_) => LinuxKnob::Slice(path.to_owned()),
            None => LinuxKnob::Cgroup(path.to_owned()),
        }
    }

    /// The original value of a control file that we changed.
    #[must_use]
    pub fn baseline(&self, knob: &LinuxKnob) -> Option<&Option<Value>> {
        self.baselines.get(&knob.knob())
    }
}

/// Whether partitions can exist below the visible root. The root of the machine has no such file. The root of a cgroup namespace
/// has one, and can have partitions only if it is one itself.
fn may_hold_partitions(os: &Os, mount: &std::path::Path) -> bool {
    let flag = os.root.read_value(&mount.join("cpuset.cpus.partition")).ok().flatten();
    flag.is_none_or(|flag| matches!(flag.trim(), "root" | "isolated"))
}

/// The ancestors of a path, topmost first, without the root: `/a` and `/a/b` for `/a/b/c`.
#[must_use]
pub fn ancestors(path: &str) -> Vec<String> {
    path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(i, _)| path[..i].to_owned()).collect()
}

/// A path and all its ancestors, the root first: `/`, `/a` and `/a/b` for `/a/b`.
pub(crate) fn with_ancestors(path: &str) -> Vec<String> {
    let own = (path.len() > 1).then(|| path.to_owned());
    std::iter::once("/".to_owned()).chain(ancestors(path)).chain(own).collect()
}

/// Whether `path` is `top` or below it.
#[must_use]
pub fn is_within(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read_group(os: &Os, path: &str) -> Result<Group, (String, KnobError)> {
    let dir = os.group(path).map_err(|e| (path.to_owned(), e))?;
    let read = |name: &str| match os.root.read_value(&dir.join(name)) {
        Ok(text) => Ok(text),
        Err(error) => Err((format!("{path}/{name}"), knob_error(error))),
    };
    let value = |file: CpusetFile| Ok(read(file.name())?.and_then(|t| file.value_of(t.trim_end())));
    let list = |text: Option<String>| text.and_then(|t| t.trim_end().parse().ok()).unwrap_or_default();
    let mut group = Group::default();
    // Without the controller the cgroup has no such files.
    let cpus = read("cpuset.cpus")?;
    let has_cpusets = cpus.is_some();
    group.cpus = list(cpus);
    if os.hierarchy.is_v1() {
        group.mems = value(CpusetFile::Mems)?;
        if names::owner(path).is_some() {
            group.migrates = value(CpusetFile::MemoryMigrate)?.is_some();
        } else {
            group.is_exclusive = read("cpuset.cpu_exclusive")?.is_some_and(|text| text.trim() == "1");
        }
        return Ok(group);
    }
    if has_cpusets {
        group.partition = value(CpusetFile::Partition)?;
        if names::owner(path).is_some() {
            group.mems = os.limit_of_nodes(value(CpusetFile::Mems)?);
        }
        group.exclusive = list(read("cpuset.cpus.exclusive")?);
    }
    let subtree = read("cgroup.subtree_control")?;
    group.controller = subtree.is_some_and(|text| lists_cpuset(&text));
    Ok(group)
}

/// The original cgroup of the tasks in a leaf of ours; `None` if the cgroup is not one.
fn leaf_origin(os: &Os, path: &str, name: &str) -> Result<Option<String>, (String, KnobError)> {
    if let Some(origin) = names::origin(name) {
        return Ok(Some(origin));
    }
    let leaf = format!("{path}/{name}");
    if names::is_scope(&leaf) {
        let origin = os.label(&leaf, "origin").map_err(|e| (leaf, e))?;
        return Ok(Some(origin.unwrap_or_else(|| "/".to_owned())));
    }
    if !name.contains('~') {
        return Ok(None);
    }
    os.label(&leaf, "origin").map_err(|e| (leaf, e))
}

/// Identifies a listed task; `None` if it has ended.
fn task_at(os: &Os, number: u32, thread: bool, path: &str) -> Option<TaskAt> {
    let stat = os.stat(number, None).ok().flatten()?;
    let id = if thread {
        // `/proc/TID` exists for every thread, although it is not listed.
        let pid = if stat.kernel { number } else { os.process_of_started(number, stat.start)? };
        TaskId { pid, tid: Some(number), start: stat.start }
    } else {
        TaskId { pid: number, tid: None, start: stat.start }
    };
    Some(TaskAt { id, at: path.to_owned(), kernel: stat.kernel, pinned: stat.pinned })
}

/// A control file of the hierarchy, as a knob.
#[must_use]
pub fn control(group: &str, file: CpusetFile) -> LinuxKnob {
    LinuxKnob::File(ControlFile::cpuset(group, file))
}

/// A refusal about a process.
#[must_use]
pub fn about(pid: u32, reason: Reason) -> Refusal {
    Refusal::new(Subject::Process(millpond_model::Pid(pid)), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_go_from_the_top_down() {
        assert_eq!(ancestors("/a/b/c"), ["/a", "/a/b"]);
        assert_eq!(ancestors("/a"), Vec::<String>::new());
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && !is_within("/ab", "/a"));
    }

    #[test]
    fn fuzz_labels_of_sets() {
        let seeds = [
            r#"{"members":[1,3],"mode":"own","zones":["/system.slice/a.service"],"serial":4}"#,
            r#"{"members":[],"mode":"shared","serial":18446744073709551615}"#,
        ];
        millpond_fuzz::check_text("linux-labels", &seeds, |text| {
            let mut view = View::default();
            let group = Group { label: Some(text.to_owned()), ..Group::default() };
            view.groups.insert("/mpset1".to_owned(), group);
            for label in view.sets().into_values() {
                assert_eq!(serde_json::from_str::<SetLabel>(&label.text()).ok(), Some(label.clone()));
                let highest = label.cpus().highest();
                assert!(highest.is_none_or(|cpu| cpu.0 <= millpond_model::CPU_MAX), "{highest:?}");
            }
        });
    }
}
