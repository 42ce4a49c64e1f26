//! What a plan is made from: the cgroup tree as it is, read once.

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

/// What is wanted of a set: the label of its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLabel {
    /// Members in order of arrival.
    pub members: Vec<CpuId>,
    /// `own` when it should be exclusive, `shared` when other processes are not pushed out. What comes of the wish is
    /// [`View::mode`].
    pub mode: PsetMode,
    /// Existing cgroups that are bound to the set as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Where the memory of what is bound to it comes from.
    #[serde(default, skip_serializing_if = "SetMemory::is_all")]
    pub memory: SetMemory,
    /// What makes it a fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fencing>,
    /// The sets from which members were taken, the last one last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub former: BTreeMap<CpuId, Vec<Former>>,
    /// Grows with each set made: the order of creation.
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

    /// As the label's text.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A cgroup as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// `cpuset.cpus`: what was asked for. Empty inherits on version 2.
    pub cpus: CpuSet,
    /// `cpuset.mems`: on version 2 only of the cgroups of sets, and absent where they inherit.
    pub mems: Option<Value>,
    /// `cpuset.memory_migrate` is on (version 1).
    pub migrates: bool,
    /// `cpuset.cpu_exclusive` is on (version 1; of cgroups of others).
    pub is_exclusive: bool,
    /// `cpuset.cpus.partition` unless it is `member`.
    pub partition: Option<Value>,
    /// `cpuset.cpus.exclusive` (version 2, since 6.7).
    pub exclusive: CpuSet,
    /// Whether the cpuset controller is enabled below it (version 2).
    pub controller: bool,
    /// What is wanted of it, for the cgroup of a set.
    pub label: Option<String>,
    /// Where the tasks of a leaf of ours came from.
    pub origin: Option<String>,
    /// Units of others that were started in it (a slice of ours).
    pub units: Vec<String>,
}

impl Group {
    /// Whether it is a valid partition.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        matches!(self.partition.as_deref(), Some("root" | "isolated"))
    }

    /// What it takes as a partition: its exclusive list where it has one.
    fn partition_cpus(&self) -> &CpuSet {
        if self.exclusive.is_empty() { &self.cpus } else { &self.exclusive }
    }
}

/// A task that left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The process, or a thread of it that was bound by itself.
    pub task: TaskId,
    /// Where it is.
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

/// A task and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAt {
    /// Which.
    pub id: TaskId,
    /// Its cgroup.
    pub at: String,
    /// A thread of the kernel.
    pub kernel: bool,
    /// The kernel refuses to move it.
    pub pinned: bool,
}

/// Whether the tasks of the root cgroup are listed too. Only version 1 needs them, where an exclusive set must move them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootTasks {
    /// No.
    Unlisted,
    /// If one of the live sets is exclusive.
    ForLiveSets,
    /// An exclusive set is to be made.
    Listed,
}

/// The tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// Version 1.
    pub v1: bool,
    /// The kernel knows partitions.
    pub partitions: bool,
    /// Partitions can stand below cgroups that are none (since 6.7).
    pub remote_partitions: bool,
    /// An overlapping sibling makes a partition invalid (until 6.19).
    pub overlap_kills: bool,
    /// A partition whose cgroup is removed gives its CPUs back before the removal returns (since 6.15), not some time after.
    pub prompt_removal: bool,
    /// systemd owns the tree.
    pub systemd: bool,
    /// Every CPU that there could be.
    pub possible: CpuSet,
    /// On-line CPUs.
    pub online: CpuSet,
    /// On-line CPUs that the topmost cgroup of a container does not have.
    pub outside: CpuSet,
    /// The CPUs that tasks of the root cgroup may use, where a set of ours is a partition (version 2).
    pub of_root: CpuSet,
    /// Nodes with memory and their CPUs, where a set's memory is confined.
    pub nodes: Vec<(LgrpId, CpuSet)>,
    /// The root's memory nodes (version 1).
    pub mems: Value,
    /// Every cgroup that matters, by path; parents sort before children. `/` is always there.
    pub groups: BTreeMap<String, Group>,
    /// Tasks in cgroups of ours, and on version 1 those of the root cgroup.
    pub tasks: Vec<TaskAt>,
    /// Tasks that left a set without a command: they are among `tasks` as if they were in it.
    pub left: Vec<Left>,
    /// Sets in which units start from now on, where systemd owns the tree.
    pub kept: BTreeSet<PsetId>,
    /// The configuration of pools as it was last committed, while they are enabled.
    pub recorded: Option<PoolsState>,
    /// The set of each pool of it.
    pub pools: BTreeMap<PoolId, PsetId>,
    /// Origins that still exist.
    pub origins: BTreeSet<String>,
    /// The original values of what is not ours.
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

    /// The same, with the neighbourhood of further cgroups that may become zones.
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
            // Without the controller there is no file to ask; but every kernel with cpusets on version 2 that
            // is still in use has partitions.
            match any.filter(|_| view.groups["/"].controller) {
                Some(path) => os.group(path).is_ok_and(|d| d.join("cpuset.cpus.partition").exists()),
                None => true,
            }
        };
        if view.sets().values().any(|set| !set.memory.is_all()) {
            view.read_nodes(os)?;
        }
        // The topmost cgroup of the machine has no such file, and has all that partitions leave it.
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

    /// The nodes that the memory of a set comes from now; `None` for anywhere: nothing was asked for, or none of them has memory.
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

    /// The same as the value of a list.
    pub(crate) fn wanted_mems(&self, label: &SetLabel) -> Option<Value> {
        let nodes = self.memory_nodes(label)?;
        // All of them is no limit.
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

    /// The cgroups on the way to a zone, with the neighbours of each.
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

    /// A cgroup of others with version 2, and those below it that can be partitions: below a partition, and where CPUs are exclusive.
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

    /// The CPUs that other programs have for themselves, by cgroup: those of partitions, and with version 1 of exclusive cpusets. The cpuset with
    /// the first CPU is what such a program leaves to the system.
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

    /// The CPUs that are in no set, and not in the default one either: other programs have them.
    #[must_use]
    pub fn reserved(&self) -> CpuSet {
        &(&self.partitioned() | &self.outside) - &self.own_cpus()
    }

    /// The CPUs that partitions take from the root cgroup now, ours and others.
    pub(crate) fn taken_from_root(&self) -> CpuSet {
        let partitions = self.groups.iter().filter(|(path, group)| *path != "/" && group.is_partition());
        partitions.fold(CpuSet::new(), |all, (_, group)| &all | group.partition_cpus())
    }

    /// The CPUs of isolated partitions, ours and others.
    pub(crate) fn isolated_partitions(&self) -> CpuSet {
        let isolated = self.groups.values().filter(|group| group.partition.as_deref() == Some("isolated"));
        isolated.fold(CpuSet::new(), |all, group| &all | group.partition_cpus())
    }

    /// The CPUs of a valid partition that tasks of the root cgroup may use all the same. There are none, but for kernels which lose count of a partition
    /// whose CPUs all went off-line and came back (6.13 and later).
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
            // The file of a threaded cgroup cannot be read; its tasks belong to the cgroup above.
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

    /// The sets that are live: what their labels say.
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

    /// The zones of a set that are there now. Others are remembered: a service that is stopped may start again.
    pub fn present<'l>(&self, label: &'l SetLabel) -> impl Iterator<Item = &'l String> {
        label.zones.iter().filter(|zone| self.groups.contains_key(*zone))
    }

    /// How a set is enforced here, given whether it has members that were moved or started by us.
    #[must_use]
    pub fn mode(&self, label: &SetLabel, has_tasks: bool) -> PsetMode {
        // One that was started in a set meanwhile does not stand where it stood.
        let moved = |zone: &String| {
            let unit = names::unit(zone);
            unit.is_some_and(|unit| self.groups.values().any(|group| group.units.contains(&unit)))
        };
        // The runtime removes the group of a container that ended without a word to us. A partition that goes so makes the kernel complain (6.17).
        let may_be_partition = !self.present(label).any(|zone| names::is_of_pod(zone));
        match (label.mode, self.present(label).filter(|zone| !moved(zone)).count()) {
            (PsetMode::Shared, _) => PsetMode::Shared,
            (_, 0) if self.v1 || self.partitions => PsetMode::Own,
            (_, 1) if !has_tasks && self.remote_partitions && may_be_partition => PsetMode::InPlace,
            _ => PsetMode::Steered,
        }
    }

    /// Whether units were started in a set, or will be.
    #[must_use]
    pub fn holds_units(&self, id: PsetId) -> bool {
        let started = self.groups.get(&self.set_group(id)).is_some_and(|group| !group.units.is_empty());
        started || self.kept.contains(&id)
    }

    /// Whether a set has members in its own cgroup.
    #[must_use]
    pub fn has_tasks(&self, id: PsetId) -> bool {
        self.holds_units(id) || self.tasks.iter().any(|t| names::owner(&t.at) == Some(id))
    }

    /// Whether a cgroup path can be gone back to.
    #[must_use]
    pub fn is_home(&self, origin: &str) -> bool {
        origin == "/" || self.origins.contains(origin) || self.groups.contains_key(origin)
    }

    /// The cgroup of a set.
    #[must_use]
    pub fn set_group(&self, id: PsetId) -> String {
        if self.systemd { names::set_slice(id) } else { names::set_group(id) }
    }

    /// The knob of a cgroup's CPUs.
    #[must_use]
    pub fn cpus_knob(&self, path: &str) -> LinuxKnob {
        match names::unit(path).filter(|_| self.systemd) {
            Some(_) => LinuxKnob::AllowedCpus(path.to_owned()),
            None => control(path, CpusetFile::Cpus),
        }
    }

    /// The knob of a cgroup of ours as a whole.
    #[must_use]
    pub fn group_knob(&self, path: &str) -> LinuxKnob {
        match names::unit(path).filter(|_| self.systemd) {
            Some(_) => LinuxKnob::Slice(path.to_owned()),
            None => LinuxKnob::Cgroup(path.to_owned()),
        }
    }

    /// The original value of a control file, where we changed it.
    #[must_use]
    pub fn baseline(&self, knob: &LinuxKnob) -> Option<&Option<Value>> {
        self.baselines.get(&knob.knob())
    }
}

/// Whether partitions can stand below the root that we see. The root of the machine has no such file; that of
/// a namespace has one, and holds partitions only if it is one itself.
fn may_hold_partitions(os: &Os, mount: &std::path::Path) -> bool {
    let flag = os.root.read_value(&mount.join("cpuset.cpus.partition")).ok().flatten();
    flag.is_none_or(|flag| matches!(flag.trim(), "root" | "isolated"))
}

/// The cgroups above a path, topmost first, without the root: `/a` and `/a/b` for `/a/b/c`.
#[must_use]
pub fn ancestors(path: &str) -> Vec<String> {
    path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(i, _)| path[..i].to_owned()).collect()
}

/// A path and all cgroups above it, the root first: `/`, `/a` and `/a/b` for `/a/b`.
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
    // Where the controller is not enabled there are no files of its own.
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

/// Where the tasks of a leaf of ours came from; `None` for a cgroup that is no leaf of ours.
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

/// Identifies a listed task; `None` when it has ended meanwhile.
fn task_at(os: &Os, number: u32, thread: bool, path: &str) -> Option<TaskAt> {
    let stat = os.stat(number, None).ok().flatten()?;
    let id = if thread {
        // `/proc/TID` works for every thread although it is not listed.
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

/// A refusal that concerns a process.
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
