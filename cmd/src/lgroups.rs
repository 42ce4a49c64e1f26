//! Common code of commands about lgroups: the facet, operands, and the words for the memory of a set.

use crate::failure::{Complaint, Failure, facet, read};
use millpond_formats::{GroupOperand, parse_groups};
use millpond_machine::{Lgroups, Machine};
use millpond_model::{GroupId, LgroupTree, LgrpId, SetMemory};
use std::collections::BTreeSet;

/// The lgroups facet.
///
/// # Errors
/// [`Failure::Refused`] if the machine has none.
pub fn lgroups(machine: &dyn Machine) -> Result<&dyn Lgroups, Failure> {
    facet("lgroups", machine.lgroups())
}

/// The lgroup tree of the machine.
///
/// # Errors
/// [`Failure::Refused`] if the machine cannot be read.
pub fn tree(lgroups: &dyn Lgroups) -> Result<LgroupTree, Failure> {
    read("lgroups", lgroups.tree())
}

/// Parses a word as lgroups.
///
/// # Errors
/// [`Failure::Operand`] with the word and the position of the error.
pub fn operands(word: &str) -> Result<Vec<GroupOperand>, Failure> {
    parse_groups(word).map_err(|error| Failure::Operand(format!("cannot read `{word}` as lgroups: {error}")))
}

/// The lgroups of an operand.
///
/// # Errors
/// [`Complaint`] with the existing lgroups if there is no such lgroup.
pub fn expand(operand: GroupOperand, tree: &LgroupTree, verb: &str) -> Result<Vec<GroupId>, Complaint> {
    let meant = operand.expand(tree);
    if !meant.is_empty() {
        return Ok(meant);
    }
    let last = tree.groups().last().map_or(0, |group| group.id.0);
    let why = match last {
        0 => "there is no such lgroup (this machine has the root, 0, alone)".to_owned(),
        last => format!("there is no such lgroup (this machine has 0-{last})"),
    };
    Err(Complaint::new(format!("{verb} lgroup {operand}"), why).hint("lgrpinfo -T shows them"))
}

/// The nodes of operands, in ascending order.
///
/// # Errors
/// [`Complaint`] for the first operand without any lgroup.
pub fn nodes(
    operands: &[GroupOperand],
    tree: &LgroupTree,
    verb: &str,
) -> Result<BTreeSet<LgrpId>, Complaint> {
    let mut nodes = BTreeSet::new();
    for operand in operands {
        let groups = expand(*operand, tree, verb)?;
        nodes.extend(groups.into_iter().flat_map(|group| tree.nodes_of(group)));
    }
    Ok(nodes)
}

/// The memory policy of a set, as on the command line: `all`, `local`, or leaves.
pub fn memory_word(memory: &SetMemory, tree: &LgroupTree) -> String {
    match memory {
        SetMemory::All => "all".to_owned(),
        SetMemory::Local => "local".to_owned(),
        SetMemory::Nodes(nodes) => {
            let leaves = nodes.iter().filter_map(|node| tree.leaf_of(*node));
            leaves.map(|leaf| leaf.to_string()).collect::<Vec<_>>().join(",")
        }
    }
}
