//! The listing of `lgrpinfo`.

use super::{Instead, Options};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, read};
use crate::lgroups;
use millpond_formats::GroupOperand;
use millpond_formats::lgrpinfo::{self as listing, About};
use millpond_machine::Machine;
use millpond_machine::facets::NodeStatus;
use millpond_model::{CpuId, CpuSet, Group, GroupId, GroupKind, LgroupTree, LgrpId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// The selected lgroups.
#[derive(Serialize, JsonSchema)]
pub struct Lgroups<'t> {
    lgroups: Vec<Lgroup<'t>>,
    /// Between each pair of the machine's lgroups, in the order of their numbers; null if unknown.
    latencies: Vec<Vec<Option<u64>>>,
}

#[derive(Serialize, JsonSchema)]
struct Lgroup<'t> {
    id: GroupId,
    kind: GroupKind,
    /// Null for the root.
    parent: Option<GroupId>,
    children: &'t [GroupId],
    /// CPUs that your processes may use; all of them with `-G`.
    processors: Vec<CpuId>,
    /// Null if it has no usable memory.
    memory: Option<Memory>,
    /// Running and runnable threads; for an lgroup with children their mean.
    load: Option<f64>,
    /// Within the lgroup.
    latency: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Memory {
    installed_kib: u64,
    free_kib: u64,
}

/// Lgroups with their usable CPUs and memory.
struct View {
    tree: LgroupTree,
    nodes: Vec<NodeStatus>,
}

impl View {
    fn read(machine: &dyn Machine, whole_machine: bool) -> Result<View, Failure> {
        let facet = lgroups::lgroups(machine)?;
        let tree = lgroups::tree(facet)?;
        let mut nodes = read("lgroups", facet.nodes())?;
        if !whole_machine {
            let own = read("what may be used", facet.own_reach())?;
            for node in &mut nodes {
                node.cpus = &node.cpus & &own.cpus;
                node.memory = node.memory.filter(|_| own.nodes.contains(&node.node));
                node.load_milli = node.load_milli.filter(|_| !node.cpus.is_empty());
            }
        }
        Ok(View { tree, nodes })
    }

    fn about<'v>(&'v self, group: &'v Group) -> About<'v> {
        let members: BTreeSet<LgrpId> = self.tree.nodes_of(group.id).into_iter().collect();
        let inside: Vec<&NodeStatus> = self.nodes.iter().filter(|n| members.contains(&n.node)).collect();
        let leaf = |node: &&NodeStatus| self.tree.leaf_of(node.node);
        let memory: Vec<_> = inside.iter().filter_map(|n| n.memory).collect();
        let sum = |kib: &dyn Fn(&millpond_machine::facets::NodeMemory) -> u64| memory.iter().map(kib).sum();
        let loads: Vec<u64> = inside.iter().filter_map(|n| n.load_milli).collect();
        let mean = loads.iter().sum::<u64>().checked_div(loads.len() as u64);
        About {
            group,
            cpus: inside.iter().fold(CpuSet::new(), |all, node| &all | &node.cpus),
            cpu_leaves: inside
                .iter()
                .copied()
                .filter(|n| !n.cpus.is_empty())
                .filter_map(|n| leaf(&n))
                .collect(),
            memory_leaves: inside
                .iter()
                .copied()
                .filter(|n| n.memory.is_some())
                .filter_map(|n| leaf(&n))
                .collect(),
            memory_kib: (!memory.is_empty()).then(|| (sum(&|m| m.installed_kib), sum(&|m| m.free_kib))),
            load_milli: mean,
            latency: self.tree.latency(group.id, group.id),
        }
    }

    fn groups(&self, ids: &BTreeSet<GroupId>) -> Vec<&Group> {
        ids.iter().filter_map(|id| self.tree.group(*id)).collect()
    }
}

pub(super) fn run(
    machine: &dyn Machine,
    options: Options,
    wanted: &[GroupOperand],
    json: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let view = View::read(machine, options.whole_machine)?;
    let mut exit = Exit::DONE;
    let mut chosen = BTreeSet::new();
    for operand in wanted {
        // A word may match no lgroup: a machine without intermediate lgroups is valid.
        match lgroups::expand(*operand, &view.tree, "show") {
            Ok(groups) => chosen.extend(groups),
            Err(complaint) => {
                ctx.complain(&complaint);
                exit = Exit::REFUSED;
            }
        }
    }
    if wanted.is_empty() {
        chosen.extend(view.tree.groups().iter().map(|group| group.id));
    }
    let chosen = relatives(&view, chosen, options.instead);
    if chosen.is_empty() {
        if exit == Exit::DONE {
            let noun = if options.instead == Instead::Parents { "parent" } else { "child" };
            ctx.warn(format_args!("there is no lgroup to show: none of these has a {noun}"));
            ctx.hint("lgrpinfo -T shows the tree");
        }
        return Ok(Exit::REFUSED);
    }
    if json {
        ctx.json(&document(&view, &chosen));
        return Ok(exit);
    }
    if options.ids {
        ctx.out.line(ids(&view, &chosen, options.shown.cpus && !is_default(&options)));
        return Ok(exit);
    }
    if options.tree {
        ctx.out.text(&tree(&view, &options));
    } else if options.listing {
        for group in view.groups(&chosen) {
            ctx.out.line(listing::title(group));
            for line in listing::lines(&view.about(group), &options.shown) {
                ctx.out.line(format_args!("\t{line}"));
            }
        }
    }
    if options.table {
        ctx.out.text(&listing::latencies(&view.tree));
    }
    Ok(exit)
}

/// Whether no option selects what is shown.
fn is_default(options: &Options) -> bool {
    options.shown.topology
}

fn relatives(view: &View, groups: BTreeSet<GroupId>, instead: Instead) -> BTreeSet<GroupId> {
    let of = |group: &Group| match instead {
        Instead::Themselves => vec![group.id],
        Instead::Children => group.children.clone(),
        Instead::Parents => group.parent.into_iter().collect(),
    };
    view.groups(&groups).into_iter().flat_map(of).collect()
}

fn ids(view: &View, chosen: &BTreeSet<GroupId>, cpus: bool) -> String {
    let numbers: Vec<String> = if cpus {
        let all = view.groups(chosen).into_iter().map(|group| view.about(group).cpus);
        all.fold(CpuSet::new(), |all, cpus| &all | &cpus).iter().map(|cpu| cpu.to_string()).collect()
    } else {
        chosen.iter().map(ToString::to_string).collect()
    };
    numbers.join(" ")
}

fn tree(view: &View, options: &Options) -> String {
    let is_alone = view.tree.groups().len() == 1;
    let said = |group: &Group| match listing::in_tree(group.kind, is_alone, &options.shown) {
        Some(shown) => listing::lines(&view.about(group), &shown),
        None => Vec::new(),
    };
    listing::tree(&view.tree, &said)
}

fn document<'v>(view: &'v View, chosen: &BTreeSet<GroupId>) -> Lgroups<'v> {
    let one = |group: &'v Group| {
        let about = view.about(group);
        #[allow(clippy::cast_precision_loss)] // thousandths
        let load = about.load_milli.map(|load| load as f64 / 1_000.0);
        Lgroup {
            id: group.id,
            kind: group.kind,
            parent: group.parent,
            children: &group.children,
            processors: about.cpus.iter().collect(),
            memory: about.memory_kib.map(|(installed_kib, free_kib)| Memory { installed_kib, free_kib }),
            load,
            latency: about.latency,
        }
    };
    let all = view.tree.groups();
    let row = |from: &Group| all.iter().map(|to| view.tree.latency(from.id, to.id)).collect();
    Lgroups {
        lgroups: view.groups(chosen).into_iter().map(one).collect(),
        latencies: all.iter().map(row).collect(),
    }
}
