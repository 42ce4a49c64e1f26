//! The lgroups facet: nodes from sysfs, homes and pages from procfs, the memory of sets from the cpuset tree.
//!
//! | Data | Source | Fallback |
//! |---|---|---|
//! | nodes, their CPUs, distances | `/sys/devices/system/node` | one node with everything |
//! | memory of a node | its `meminfo` | of a single node `/proc/meminfo` |
//! | load of a node | threads that currently run or wait on its CPUs: `/proc/PID/task/TID/stat` | |
//! | CPUs and memory of the caller | its affinity mask, `Mems_allowed_list` of its `status` | everything |
//! | home of a thread | see `homes` | |
//! | affinity for an lgroup | strong for the nodes of a mask that excludes other nodes of the thread's set | none |
//! | pages of a process | `numa_maps` | |
//!
//! A thread's home is set through its affinity mask. When all threads of a process get the same home, its memory is moved there,
//! as far as possible. The memory of a set is an attribute in the set's label, from which the plan computes `cpuset.mems`.

mod homes;
mod text;

use crate::LinuxMachine;
use crate::knob::{LinuxKnob, TaskId, node_list};
use crate::numa::memory_nodes;
use crate::plan::Wanted;
use crate::view::{View, about};
use homes::Clues;
use millpond_machine::facets::{Homed, Lgroups, NodeMemory, NodeStatus, Reach, nothing_near};
use millpond_machine::{Absent, Change, KnobError, Reason, Refusal, Step, Subject};
use millpond_model::{Affinity, CpuSet, Lgroup, LgroupTree, LgrpId, Lwp, LwpId, Pid, PsetId, SetMemory};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

fn machine(error: &io::Error) -> Refusal {
    Refusal::operation(Reason::Machine(error.to_string()))
}

impl LinuxMachine {
    /// The nodes, with their on-line CPUs.
    pub(crate) fn online_nodes(&self) -> Result<Vec<Lgroup>, Refusal> {
        let unreadable = |error: KnobError| error.into_refusal(Subject::Operation, "the list of CPUs");
        let present = self.os.cpu_list("present").map_err(unreadable)?;
        let online = self.os.online().map_err(unreadable)?;
        let mut nodes = self.os.nodes(&present);
        nodes.iter_mut().for_each(|node| node.cpus = &node.cpus & &online);
        Ok(nodes)
    }

    fn memory_of_node(&self, node: LgrpId, only: bool) -> Option<NodeMemory> {
        let read = |path: std::path::PathBuf| self.os.root.read(&path).ok().flatten();
        let own = read(self.os.root.sys.join(format!("devices/system/node/node{node}/meminfo")));
        let text = own.or_else(|| read(self.os.root.proc.join("meminfo")).filter(|_| only))?;
        text::parse_meminfo(&text).filter(|memory| memory.installed_kib > 0)
    }

    fn homed(&self, pid: Pid, tasks: &[TaskId]) -> Result<Vec<Homed>, Refusal> {
        let nodes = self.online_nodes()?;
        let mut clues = Clues::new(self, pid, &nodes);
        let mut homed = Vec::new();
        for task in tasks {
            // A thread that has ended has no home.
            let (Ok(allowed), Ok(cpuset)) = (self.os.mask(*task), self.cpuset_of(*task)) else { continue };
            let home = clues.home(*task, &allowed);
            let strong = homes::preferred(&nodes, &allowed, &cpuset);
            let lwp = Lwp { pid, lwp: LwpId(task.leader()) };
            let affinities = strong.into_iter().map(|node| (node, Affinity::Strong)).collect();
            homed.push(Homed { lwp, home, affinities });
        }
        Ok(homed)
    }

    /// The step that sets a thread's mask to the CPUs of some nodes, or to all of its set if that is the same.
    fn confinement(
        &self,
        task: TaskId,
        nodes: &[Lgroup],
        wanted: &BTreeSet<LgrpId>,
    ) -> Result<Option<Step>, Refusal> {
        let lwp = Lwp { pid: Pid(task.pid), lwp: LwpId(task.leader()) };
        let gone = |_| Refusal::new(Subject::Process(lwp.pid), Reason::ExitedMeanwhile);
        let refuse = |why: String, hint: &str| {
            Err(Refusal::new(Subject::Thread(lwp), Reason::Machine(why)).hint(hint))
        };
        let bound = self.status(task).map_err(gone)?.cpus;
        if !bound.is_empty() {
            let noun = if bound.len() > 1 { "processors" } else { "processor" };
            return refuse(format!("it is bound to {noun} {bound}"), "unbind it first: pbind -u");
        }
        let cpuset = self.cpuset_of(task).map_err(gone)?;
        let of_nodes = nodes.iter().filter(|n| wanted.contains(&n.id));
        let cpus = of_nodes.fold(CpuSet::new(), |all, node| &all | &(&node.cpus & &cpuset));
        if cpus.is_empty() && !wanted.is_empty() {
            let tree = Lgroups::tree(self)?;
            let groups: Vec<String> =
                wanted.iter().filter_map(|n| tree.leaf_of(*n)).map(|g| g.to_string()).collect();
            return refuse(
                format!("lgroup {} has no CPU that it may use", groups.join(", ")),
                "bind it to a set with CPUs there first: psrset -b",
            );
        }
        let before = self.mask_value(task).map_err(gone)?;
        let whole = cpus.is_empty() || cpus == cpuset;
        let after = if whole { crate::masks::ALL.to_owned() } else { cpus.to_string() };
        let step = || Step::new(LinuxKnob::Affinity(task).knob(), Some(before.clone()), Some(after.clone()));
        Ok((before != after).then(step))
    }

    /// A view with the nodes to which memory of sets can be confined.
    pub(crate) fn nodes_in_view(&self, view: &View) -> Result<View, Refusal> {
        let mut view = view.clone();
        view.nodes = memory_nodes(&self.online_nodes()?);
        Ok(view)
    }
}

impl Lgroups for LinuxMachine {
    fn tree(&self) -> Result<LgroupTree, Refusal> {
        let nodes = self.online_nodes()?;
        let row = |node: &Lgroup| node.distances.iter().map(|d| u64::from(*d)).collect();
        let rows: Vec<Vec<u64>> = nodes.iter().map(row).collect();
        Ok(LgroupTree::of(&nodes, &rows))
    }

    fn nodes(&self) -> Result<Vec<NodeStatus>, Refusal> {
        let nodes = self.online_nodes()?;
        let runnable = self.runnable()?;
        let one = |node: &Lgroup| {
            let load = 1_000 * runnable.iter().filter(|cpu| node.cpus.contains(**cpu)).count() as u64;
            NodeStatus {
                node: node.id,
                cpus: node.cpus.clone(),
                memory: self.memory_of_node(node.id, nodes.len() == 1),
                load_milli: (!node.cpus.is_empty()).then_some(load),
            }
        };
        Ok(nodes.iter().map(one).collect())
    }

    fn own_reach(&self) -> Result<Reach, Refusal> {
        let nodes = self.online_nodes()?;
        let all = Lgroup::ids(&nodes);
        let mut cpus = nodes.iter().fold(CpuSet::new(), |all, node| &all | &node.cpus);
        let own = self.os.fs.own_affinity(&self.os).map_err(|e| machine(&e))?;
        if let Some(own) = &own {
            cpus = &cpus & own;
        }
        let status = self.os.root.read(&self.os.root.proc.join("self/status")).ok().flatten();
        let mems = status.filter(|_| own.is_some()).and_then(|text| text::parse_mems_allowed(&text));
        let nodes = match mems {
            Some(mems) => all.into_iter().filter(|node| mems.contains(node)).collect(),
            None => all,
        };
        Ok(Reach { cpus, nodes })
    }

    fn homes(&self, pid: Pid) -> Result<Vec<Homed>, Refusal> {
        self.os.identify(pid, None)?;
        let tids = self.os.tids(pid.0).map_err(|e| machine(&e))?;
        let tasks: Vec<TaskId> =
            tids.iter().filter_map(|tid| Some(self.os.identify(pid, Some(*tid)).ok()?.0)).collect();
        self.homed(pid, &tasks)
    }

    fn pages(&self, pid: Pid) -> Result<BTreeMap<LgrpId, u64>, Refusal> {
        let (_, leader) = self.os.identify(pid, None)?;
        if leader.kernel {
            return Err(Refusal::new(Subject::Process(pid), Reason::KernelThread));
        }
        let file = self.os.root.proc.join(format!("{pid}/numa_maps"));
        match self.os.root.read(&file) {
            Ok(Some(text)) => Ok(text::parse_numa_maps(&text)),
            Ok(None) => Err(Refusal::new(
                Subject::Process(pid),
                Reason::Machine("the kernel does not tell where its pages are".into()),
            )
            .hint("a kernel with CONFIG_NUMA has /proc/PID/numa_maps")),
            Err(error) => {
                Err(crate::os::knob_error(error).into_refusal(Subject::Process(pid), "the list of its pages"))
            }
        }
    }

    fn set_memory(&self, set: PsetId) -> Result<(SetMemory, BTreeSet<LgrpId>), Refusal> {
        let refuse = |reason| Refusal::new(Subject::Pset(set), reason);
        if set.is_default() {
            return Err(refuse(Reason::DefaultPset));
        }
        let nodes = self.online_nodes()?;
        let all = Lgroup::ids(&nodes);
        if !self.has_cgroups() {
            return Ok((SetMemory::All, all));
        }
        let (view, sets) = self.live_sets()?;
        let label = sets.get(&set).ok_or_else(|| refuse(Reason::NoSuchPset))?;
        let view = self.nodes_in_view(&view)?;
        Ok((label.memory.clone(), view.memory_nodes(label).unwrap_or(all)))
    }

    fn prepare_set_memory(&self, set: PsetId, to: SetMemory) -> Result<Change<SetMemory>, Refusal> {
        let refuse = |reason| Refusal::new(Subject::Pset(set), reason);
        if !self.has_cgroups() {
            let absent = Absent::with_help(
                "without the rights to change cgroups a set cannot say where memory comes from",
                "this needs the rights of the superuser; or start its programs by numactl --membind",
            );
            return Err(absent.into());
        }
        if set.is_default() {
            return Err(refuse(Reason::DefaultPset));
        }
        let (view, mut sets) = self.live_sets()?;
        let view = self.nodes_in_view(&view)?;
        let Some(label) = sets.get_mut(&set) else { return Err(refuse(Reason::NoSuchPset)) };
        if let Some(zone) = label.zones.first().filter(|_| !to.is_all()) {
            let why = format!("{zone} is bound to it where it stands, and its memory is its own affair");
            return Err(refuse(Reason::Machine(why))
                .hint("bind its processes instead (psrset -b), or set its AllowedMemoryNodes="));
        }
        if let SetMemory::Nodes(nodes) = &to
            && (nodes.is_empty() || !nodes.iter().all(|n| view.nodes.iter().any(|(known, _)| known == n)))
        {
            return Err(refuse(Reason::Machine("one of the lgroups has no memory".into()))
                .hint("lgrpinfo -m shows which have"));
        }
        let before = std::mem::replace(&mut label.memory, to);
        let nowhere = !label.memory.is_all() && view.memory_nodes(label).is_none();
        let steps = self.with_plan(&view, Vec::new(), &Wanted::of(&view, sets, Vec::new()))?;
        let mut change = Change::new(format!("confine the memory of set {set}"), steps, before);
        if nowhere {
            change.notes.push(nothing_near(set));
        }
        Ok(change)
    }

    fn prepare_homes(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        homes: &[LgrpId],
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        let tasks: Vec<TaskId> = self.selected(pid, lwps)?.into_iter().map(|(task, _)| task).collect();
        let nodes = self.online_nodes()?;
        let before = self.homed(pid, &tasks)?;
        let mut steps = Vec::new();
        for (task, home) in tasks.iter().zip(homes.iter().cycle()) {
            steps.extend(self.confinement(*task, &nodes, &BTreeSet::from([*home]))?);
        }
        let mut change = Change::new(format!("move process {pid} home"), steps, before);
        match (lwps, homes) {
            (None, [home]) if memory_nodes(&nodes).iter().any(|(node, _)| node == home) => {
                let (whole, _) = self.os.identify(pid, None)?;
                let to = node_list(&[*home].into_iter().collect());
                let step = Step::new(LinuxKnob::MemoryOf(whole).knob(), None, to);
                change.steps.push(step.tolerant());
            }
            _ => change.notes.push(format!(
                "the memory of process {pid} stays where it is: its threads have it in common"
            )),
        }
        Ok(change)
    }

    fn prepare_affinities(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        affinities: &BTreeMap<LgrpId, Affinity>,
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        if affinities.values().any(|affinity| *affinity == Affinity::Weak) {
            return Err(about(pid.0, Reason::Machine("Linux knows no affinity that gives way".into()))
                .hint("strong keeps it there, none lets it go anywhere"));
        }
        let tasks: Vec<TaskId> = self.selected(pid, lwps)?.into_iter().map(|(task, _)| task).collect();
        let nodes = self.online_nodes()?;
        let before = self.homed(pid, &tasks)?;
        let mut steps = Vec::new();
        for task in &tasks {
            let now = before.iter().find(|h| h.lwp.lwp.0 == task.leader());
            let mut strong: BTreeSet<LgrpId> =
                now.into_iter().flat_map(|h| h.affinities.keys().copied()).collect();
            for (node, affinity) in affinities {
                match affinity {
                    Affinity::Strong => strong.insert(*node),
                    _ => strong.remove(node),
                };
            }
            steps.extend(self.confinement(*task, &nodes, &strong)?);
        }
        Ok(Change::new(format!("set affinities of process {pid}"), steps, before))
    }
}
