//! The home of a thread. Linux does not assign one, so it is derived.
//!
//! The home is the first of these nodes that has CPUs that the thread may use:
//!
//! 1. the only node of its affinity mask;
//! 2. the node that the kernel's NUMA balancing prefers (`numa_preferred_nid` in its `sched` file);
//! 3. the node with most of the process's memory;
//! 4. the node of its last CPU.
//!
//! Without any of these, it is the first node of the mask.

use super::text;
use crate::LinuxMachine;
use crate::knob::TaskId;
use crate::procfs::{PROCESSOR, stat_field};
use millpond_machine::Lgroups;
use millpond_model::{CpuId, CpuSet, Lgroup, LgrpId, Pid};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// Data of a process, read on demand.
pub(super) struct Clues<'m> {
    machine: &'m LinuxMachine,
    pid: Pid,
    nodes: &'m [Lgroup],
    pages: OnceCell<BTreeMap<LgrpId, u64>>,
}

impl<'m> Clues<'m> {
    pub(super) fn new(machine: &'m LinuxMachine, pid: Pid, nodes: &'m [Lgroup]) -> Self {
        Clues { machine, pid, nodes, pages: OnceCell::new() }
    }

    /// The home of a thread that may use the CPUs `allowed`.
    pub(super) fn home(&mut self, task: TaskId, allowed: &CpuSet) -> LgrpId {
        let open = reached(self.nodes, allowed);
        if let (Some(only), 1) = (open.first(), open.len()) {
            return *only;
        }
        let root = &self.machine.os.root;
        let dir = root.proc.join(format!("{}/task/{}", task.pid, task.leader()));
        let read = |name: &str| root.read(&dir.join(name)).ok().flatten();
        let preferred = read("sched").and_then(|text| text::parse_preferred(&text));
        let last = read("stat").and_then(|text| stat_field(&text, PROCESSOR)?.parse().ok()).map(CpuId);
        choose(self.nodes, &open, preferred, || self.memory(), last)
    }

    /// The node with most of the process's memory; `None` for a tie.
    fn memory(&self) -> Option<LgrpId> {
        let pages = self.pages.get_or_init(|| self.machine.pages(self.pid).unwrap_or_default());
        let most = pages.values().copied().max().filter(|kib| *kib > 0)?;
        let mut with_most = pages.iter().filter(|(_, kib)| **kib == most).map(|(node, _)| *node);
        with_most.next().filter(|_| with_most.next().is_none())
    }
}

/// The nodes that contain some of these CPUs.
fn reached(nodes: &[Lgroup], cpus: &CpuSet) -> BTreeSet<LgrpId> {
    nodes.iter().filter(|node| !node.cpus.is_disjoint(cpus)).map(|node| node.id).collect()
}

fn choose(
    nodes: &[Lgroup],
    open: &BTreeSet<LgrpId>,
    preferred: Option<LgrpId>,
    memory: impl Fn() -> Option<LgrpId>,
    last: Option<CpuId>,
) -> LgrpId {
    let usable = |node: &LgrpId| open.contains(node);
    let last = || nodes.iter().find(|node| last.is_some_and(|cpu| node.cpus.contains(cpu))).map(|n| n.id);
    preferred
        .filter(usable)
        .or_else(|| memory().filter(usable))
        .or_else(|| last().filter(usable))
        .or_else(|| open.first().copied())
        .unwrap_or(LgrpId(0))
}

/// The nodes of a mask that excludes some nodes of the thread's cpuset; empty if it excludes none.
pub(super) fn preferred(nodes: &[Lgroup], allowed: &CpuSet, cpuset: &CpuSet) -> BTreeSet<LgrpId> {
    let (own, all) = (reached(nodes, allowed), reached(nodes, cpuset));
    if all.is_subset(&own) { BTreeSet::new() } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Lgroup> {
        let node = |id: u32, cpus: &str| Lgroup {
            id: LgrpId(id),
            cpus: cpus.parse().unwrap(),
            distances: vec![10, 20],
            memory_kib: None,
        };
        vec![node(0, "0-1"), node(1, "2-3")]
    }

    #[test]
    fn the_kernels_wish_comes_before_memory_and_memory_before_the_last_processor() {
        let nodes = nodes();
        let both = BTreeSet::from([LgrpId(0), LgrpId(1)]);
        let home = |open: &BTreeSet<LgrpId>, wish: Option<u32>, memory: Option<u32>, last: u32| {
            choose(&nodes, open, wish.map(LgrpId), || memory.map(LgrpId), Some(CpuId(last))).0
        };
        assert_eq!(home(&both, Some(1), Some(0), 0), 1);
        assert_eq!(home(&both, None, Some(1), 0), 1);
        assert_eq!(home(&both, None, None, 3), 1);
        assert_eq!(home(&BTreeSet::from([LgrpId(0)]), Some(1), Some(1), 3), 0, "where it may run");
    }

    #[test]
    fn a_mask_is_an_affinity_only_where_it_leaves_a_node_of_the_set_out() {
        let nodes = nodes();
        let strong = |allowed: &str, cpuset: &str| {
            let strong = preferred(&nodes, &allowed.parse().unwrap(), &cpuset.parse().unwrap());
            strong.into_iter().map(|node| node.0).collect::<Vec<_>>()
        };
        assert_eq!(strong("0-3", "0-3"), [0; 0]);
        assert_eq!(strong("2-3", "0-3"), [1]);
        assert_eq!(strong("2-3", "2-3"), [0; 0], "the set is there");
        assert_eq!(strong("0,2", "0-3"), [0; 0], "some of each");
    }
}
