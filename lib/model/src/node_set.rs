//! A set of NUMA nodes, in the list syntax of the kernel.

use crate::{CpuId, CpuSet, LgrpId, ListError};
use std::fmt;
use std::ops::{BitOr, Sub};
use std::str::FromStr;

/// A set of NUMA nodes. Parsing, printing and storage are those of [`CpuSet`], with node numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSet(CpuSet);

impl NodeSet {
    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all nodes are in another set.
    #[must_use]
    pub fn is_subset(&self, other: &NodeSet) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The nodes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = LgrpId> {
        self.0.iter().map(|bit| LgrpId(bit.0))
    }

    /// The bitmask for system calls: node 0 is the lowest bit of the first word.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        self.0.to_words()
    }
}

impl FromIterator<LgrpId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = LgrpId>>(nodes: I) -> Self {
        NodeSet(nodes.into_iter().map(|node| CpuId(node.0)).collect())
    }
}

impl FromStr for NodeSet {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        text.parse().map(NodeSet)
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl BitOr for &NodeSet {
    type Output = NodeSet;

    fn bitor(self, other: &NodeSet) -> NodeSet {
        NodeSet(&self.0 | &other.0)
    }
}

impl Sub for &NodeSet {
    type Output = NodeSet;

    fn sub(self, other: &NodeSet) -> NodeSet {
        NodeSet(&self.0 - &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_nodes_reads_as_it_is_written() {
        let nodes: NodeSet = "0-1,3".parse().unwrap();
        assert_eq!(nodes.iter().collect::<Vec<_>>(), [LgrpId(0), LgrpId(1), LgrpId(3)]);
        assert_eq!((nodes.to_string().as_str(), nodes.to_words()), ("0-1,3", vec![11]));
        let one: NodeSet = [LgrpId(3)].into_iter().collect();
        assert!(one.is_subset(&nodes) && !nodes.is_subset(&one));
        assert_eq!(((&nodes - &one).to_string(), &nodes | &one), ("0-1".to_owned(), nodes));
    }
}
