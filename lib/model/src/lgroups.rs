//! The tree of lgroups: sets of CPUs and memory within some latency of each other.
//!
//! A machine has nodes and the distances between them. The lgroups follow from these. Number 0 is the root, which contains
//! everything. The leaves, 1 and up in the order of the nodes, are the nodes. If there are more than two levels of distance, there are
//! intermediate lgroups, numbered after the leaves: each leaf is extended level by level by the next nearest nodes, and every distinct
//! set of nodes that results is one lgroup. A machine with one node has only the root.

use crate::{Lgroup, LgrpId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The number of an lgroup in the tree; 0 is the root. It is not the number of a NUMA node.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The root, which contains everything.
    pub const ROOT: GroupId = GroupId(0);
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::words! {
    /// The position of an lgroup in the tree.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum GroupKind {
        /// The whole machine. On a machine with one node it is also a leaf.
        Root = "root",
        /// Several nodes, but not all.
        Intermediate = "intermediate",
        /// A single node.
        Leaf = "leaf",
    }
}

/// One lgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// Its kind.
    pub kind: GroupKind,
    /// Its parent; none for the root.
    pub parent: Option<GroupId>,
    /// Its direct children, ascending.
    pub children: Vec<GroupId>,
    /// Its nodes, as indices into the list of nodes of the tree, ascending.
    nodes: Vec<usize>,
}

/// The tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LgroupTree {
    nodes: Vec<LgrpId>,
    latency: Vec<Vec<u64>>,
    groups: Vec<Group>,
}

impl LgroupTree {
    /// The tree of a machine with these nodes, ascending, and the distance from each node to each node, in any unit. A missing distance
    /// counts as the longest.
    #[must_use]
    pub fn new(nodes: &[LgrpId], latency: &[Vec<u64>]) -> Self {
        let longest = latency.iter().flatten().copied().max().unwrap_or(0);
        let at = |row: usize, column: usize| {
            latency.get(row).and_then(|row| row.get(column)).copied().unwrap_or(longest)
        };
        let count = nodes.len();
        let latency: Vec<Vec<u64>> =
            (0..count).map(|row| (0..count).map(|column| at(row, column)).collect()).collect();
        let groups = grow(&latency);
        LgroupTree { nodes: nodes.to_vec(), latency, groups }
    }

    /// The tree for the nodes of a topology, which are ascending.
    #[must_use]
    pub fn of(nodes: &[Lgroup], latency: &[Vec<u64>]) -> Self {
        Self::new(&nodes.iter().map(|node| node.id).collect::<Vec<_>>(), latency)
    }

    /// Every lgroup, by number.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// One lgroup.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0 as usize)
    }

    /// The nodes of the machine, ascending.
    #[must_use]
    pub fn nodes(&self) -> &[LgrpId] {
        &self.nodes
    }

    /// The nodes of an lgroup, ascending; empty if the lgroup does not exist.
    #[must_use]
    pub fn nodes_of(&self, id: GroupId) -> Vec<LgrpId> {
        self.group(id).into_iter().flat_map(|group| group.nodes.iter().map(|at| self.nodes[*at])).collect()
    }

    /// The smallest lgroup that contains a node: its leaf, or the root on a machine with one node.
    #[must_use]
    pub fn leaf_of(&self, node: LgrpId) -> Option<GroupId> {
        let at = self.nodes.iter().position(|known| *known == node)?;
        self.groups.iter().filter(|g| g.nodes == [at]).map(|g| g.id).next_back()
    }

    /// The leaves, ascending; the root on a machine with one node.
    pub fn leaves(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|g| g.children.is_empty())
    }

    /// The largest distance from a CPU of one lgroup to memory of another; `None` if one does not exist, or no distance is known.
    #[must_use]
    pub fn latency(&self, from: GroupId, to: GroupId) -> Option<u64> {
        let (from, to) = (self.group(from)?, self.group(to)?);
        let pairs = from.nodes.iter().flat_map(|row| to.nodes.iter().map(move |column| (*row, *column)));
        pairs.map(|(row, column)| self.latency[row][column]).max().filter(|latency| *latency > 0)
    }
}

/// The lgroups for a matrix of distances.
fn grow(latency: &[Vec<u64>]) -> Vec<Group> {
    let count = latency.len();
    let whole: Vec<usize> = (0..count).collect();
    let mut sets = vec![whole];
    if count > 1 {
        sets.extend((0..count).map(|node| vec![node]));
    }
    let chains: Vec<Vec<Vec<usize>>> = (0..count).map(|node| chain(node, &latency[node])).collect();
    for set in chains.iter().flatten() {
        if !sets.contains(set) {
            sets.push(set.clone());
        }
    }
    let number = |set: &Vec<usize>| sets.iter().position(|known| known == set).unwrap_or(0);
    let mut groups: Vec<Group> = Vec::new();
    for (at, nodes) in sets.iter().enumerate() {
        let next = chains.iter().flat_map(|chain| chain.windows(2)).filter(|pair| pair[0] == *nodes);
        // The smallest lgroup that contains it is its parent.
        let parent = next.map(|pair| (pair[1].len(), number(&pair[1]))).min().map(|(_, parent)| parent);
        let kind = match nodes.len() {
            _ if at == 0 => GroupKind::Root,
            1 => GroupKind::Leaf,
            _ => GroupKind::Intermediate,
        };
        let parent = parent.filter(|_| at > 0).map(id);
        groups.push(Group { id: id(at), kind, parent, children: Vec::new(), nodes: nodes.clone() });
    }
    for at in 1..groups.len() {
        if let Some(parent) = groups[at].parent {
            groups[parent.0 as usize].children.push(id(at));
        }
    }
    groups
}

fn id(at: usize) -> GroupId {
    GroupId(u32::try_from(at).unwrap_or(u32::MAX))
}

/// The sets of nodes that a node is extended to: itself, then with the next nearest nodes, at last all nodes.
fn chain(node: usize, row: &[u64]) -> Vec<Vec<usize>> {
    let levels: BTreeSet<u64> = row.iter().copied().collect();
    let mut chain = vec![vec![node]];
    for level in levels {
        let near: Vec<usize> =
            (0..row.len()).filter(|other| *other == node || row[*other] <= level).collect();
        if chain.last() != Some(&near) {
            chain.push(near);
        }
    }
    chain
}

crate::words! {
    /// A thread's affinity for an lgroup.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Affinity {
        /// No preference.
        #[default]
        None = "none",
        /// Preferred unless something prevents it.
        Weak = "weak",
        /// Preferred whenever the thread can run there.
        Strong = "strong",
    }
    else NoSuchAffinity, NoSuchAffinity
}

/// A word that is not an affinity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no affinity; none, weak and strong are")]
pub struct NoSuchAffinity(pub String);

/// Where memory of threads bound to a set is allocated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetMemory {
    /// On any node, as without sets.
    #[default]
    All,
    /// On the nodes of the CPUs of the set, also when these change.
    Local,
    /// On these nodes.
    Nodes(BTreeSet<LgrpId>),
}

impl SetMemory {
    /// Whether there is no restriction.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == SetMemory::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(latency: &[&[u64]]) -> LgroupTree {
        let nodes: Vec<LgrpId> = (0..latency.len()).map(|n| LgrpId(u32::try_from(n).unwrap())).collect();
        LgroupTree::new(&nodes, &latency.iter().map(|row| row.to_vec()).collect::<Vec<_>>())
    }

    /// `id kind parent nodes` of each.
    fn said(tree: &LgroupTree) -> Vec<String> {
        let one = |g: &Group| {
            let parent = g.parent.map_or("-".to_owned(), |p| p.to_string());
            format!("{} {} {parent} {:?}", g.id, g.kind, g.nodes)
        };
        tree.groups().iter().map(one).collect()
    }

    #[test]
    fn a_machine_of_one_node_is_the_root_alone() {
        let tree = tree(&[&[10]]);
        assert_eq!(said(&tree), ["0 root - [0]"]);
        assert_eq!(tree.leaf_of(LgrpId(0)), Some(GroupId::ROOT));
        assert_eq!(tree.leaves().count(), 1);
        assert_eq!(tree.latency(GroupId(0), GroupId(0)), Some(10));
    }

    #[test]
    fn two_nodes_are_leaves_below_the_root_which_is_as_far_as_the_farthest() {
        let tree = tree(&[&[56, 83], &[83, 56]]);
        assert_eq!(said(&tree), ["0 root - [0, 1]", "1 leaf 0 [0]", "2 leaf 0 [1]"]);
        assert_eq!(tree.group(GroupId(0)).unwrap().children, [GroupId(1), GroupId(2)]);
        let far = |a, b| tree.latency(GroupId(a), GroupId(b)).unwrap();
        assert_eq!([far(0, 0), far(0, 1), far(1, 1), far(1, 2)], [83, 83, 56, 83]);
        assert_eq!(tree.leaf_of(LgrpId(1)), Some(GroupId(2)));
    }

    #[test]
    fn two_boards_of_two_nodes_have_an_intermediate_lgroup_each() {
        let tree = tree(&[&[10, 16, 22, 22], &[16, 10, 22, 22], &[22, 22, 10, 16], &[22, 22, 16, 10]]);
        assert_eq!(
            said(&tree)[1..],
            [
                "1 leaf 5 [0]",
                "2 leaf 5 [1]",
                "3 leaf 6 [2]",
                "4 leaf 6 [3]",
                "5 intermediate 0 [0, 1]",
                "6 intermediate 0 [2, 3]"
            ]
        );
    }

    #[test]
    fn in_a_ring_of_four_each_leaf_has_an_intermediate_lgroup_of_its_own() {
        let tree = tree(&[&[10, 20, 30, 20], &[20, 10, 20, 30], &[30, 20, 10, 20], &[20, 30, 20, 10]]);
        assert_eq!(
            said(&tree)[4..],
            [
                "4 leaf 8 [3]",
                "5 intermediate 0 [0, 1, 3]",
                "6 intermediate 0 [0, 1, 2]",
                "7 intermediate 0 [1, 2, 3]",
                "8 intermediate 0 [0, 2, 3]"
            ]
        );
    }

    #[test]
    fn affinities_are_read_as_they_are_written() {
        assert_eq!("weak".parse(), Ok(Affinity::Weak));
        assert_eq!("Strong".parse::<Affinity>().unwrap_err().0, "Strong");
    }

    proptest! {
        #[test]
        fn every_tree_leads_to_the_root_and_has_every_node_in_one_leaf(
            count in 1usize..7, cells in proptest::collection::vec(1u64..5, 49)
        ) {
            let latency: Vec<Vec<u64>> = (0..count)
                .map(|a| (0..count).map(|b| if a == b { 1 } else { cells[a * 7 + b] }).collect())
                .collect();
            let rows: Vec<&[u64]> = latency.iter().map(Vec::as_slice).collect();
            let tree = tree(&rows);
            for group in tree.groups() {
                let mut at = group;
                let mut steps = 0;
                while let Some(parent) = at.parent {
                    let above = tree.group(parent).unwrap();
                    prop_assert!(above.children.contains(&at.id));
                    prop_assert!(at.nodes.iter().all(|n| above.nodes.contains(n)) && above.nodes.len() > at.nodes.len());
                    at = above;
                    steps += 1;
                    prop_assert!(steps <= count);
                }
                prop_assert_eq!(at.id, GroupId::ROOT);
            }
            for node in tree.nodes() {
                let leaf = tree.leaf_of(*node).unwrap();
                prop_assert_eq!(tree.nodes_of(leaf), vec![*node]);
            }
        }
    }
}
