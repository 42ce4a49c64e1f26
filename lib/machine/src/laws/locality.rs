//! Invariants of lgroups and of the memory of sets, in every situation.

use super::bench::Bench;
use super::law::Law;
use super::observed::Observed;
use super::subject::Subject;
use crate::facets::NodeStatus;
use millpond_model::{CpuSet, GroupId, LgroupTree, LgrpId, SetMemory};
use std::collections::BTreeSet;

impl Bench {
    pub(super) fn lgroups<S: Subject + ?Sized>(&mut self, subject: &S, seen: &Observed) {
        let looked = subject.machine().lgroups().map_err(|absent| absent.to_string()).and_then(|facet| {
            let say = |refusal: crate::Refusal| refusal.to_string();
            Ok((facet.tree().map_err(say)?, facet.nodes().map_err(say)?))
        });
        match looked {
            Ok((tree, nodes)) => {
                self.tree(&tree);
                self.leaves(seen, &tree, &nodes);
                self.memory_of_sets(seen, &nodes);
            }
            Err(why) => self.ask(Law::LgroupsHoldEverything, false, || why),
        }
    }

    /// Children may overlap, and need not cover their parent: each leaf grows by its own nearest nodes.
    fn tree(&mut self, tree: &LgroupTree) {
        let nodes = |id: GroupId| tree.nodes_of(id).into_iter().collect::<BTreeSet<LgrpId>>();
        let all: BTreeSet<LgrpId> = tree.nodes().iter().copied().collect();
        self.ask(Law::LgroupsHoldEverything, nodes(GroupId::ROOT) == all, || {
            format!("the root has the nodes {:?} of {all:?}", nodes(GroupId::ROOT))
        });
        for group in tree.groups().iter().filter(|group| group.id != GroupId::ROOT) {
            let within = group.parent.is_some_and(|parent| {
                let (own, above) = (nodes(group.id), nodes(parent));
                own.is_subset(&above) && own != above
            });
            self.ask(Law::LgroupsHoldEverything, within, || {
                format!("lgroup {} is not a part of {:?}, its parent", group.id, group.parent)
            });
        }
        let leaves: Vec<LgrpId> = tree.leaves().flat_map(|leaf| tree.nodes_of(leaf.id)).collect();
        self.ask(Law::LgroupsHoldEverything, leaves == tree.nodes(), || {
            format!("the leaves have the nodes {leaves:?} of {all:?}")
        });
    }

    fn leaves(&mut self, seen: &Observed, tree: &LgroupTree, nodes: &[NodeStatus]) {
        let mut held = CpuSet::new();
        for node in nodes {
            let once = held.is_disjoint(&node.cpus);
            self.ask(Law::LgroupsHoldEverything, once, || {
                format!("of CPUs {} of node {} one is in another node, too", node.cpus, node.node)
            });
            let known = tree.leaf_of(node.node).is_some();
            self.ask(Law::LgroupsHoldEverything, known, || format!("node {} is no lgroup", node.node));
            held = &held | &node.cpus;
        }
        let active = seen.active();
        self.ask(Law::LgroupsHoldEverything, held == active, || {
            format!("the nodes have CPUs {held}, active are {active}")
        });
    }

    fn memory_of_sets(&mut self, seen: &Observed, nodes: &[NodeStatus]) {
        let ids = |wanted: &dyn Fn(&NodeStatus) -> bool| {
            nodes.iter().filter(|node| wanted(node)).map(|node| node.node).collect::<BTreeSet<LgrpId>>()
        };
        // If no node reports memory, each counts as having some.
        let tells = nodes.iter().any(|node| node.memory.is_some());
        let has_memory = |node: &NodeStatus| node.memory.is_some() || !tells;
        for (set, (wanted, is)) in &seen.memory {
            let cpus = seen.active_in(*set);
            let near = ids(&|node| has_memory(node) && !node.cpus.is_disjoint(&cpus));
            let want = match wanted {
                SetMemory::Nodes(nodes) => nodes.clone(),
                SetMemory::Local if !near.is_empty() => near,
                SetMemory::Local | SetMemory::All => ids(&|_| true),
            };
            self.ask(Law::MemoryIsThere, !is.is_empty() && *is == want, || {
                format!("the memory of set {set} ({cpus}) is to come from {wanted:?}, which means {want:?} and not {is:?}")
            });
        }
    }
}
