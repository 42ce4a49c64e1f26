//! NUMA nodes from sysfs.

use crate::Root;
use crate::cpu_lists::{NODE, cpus};
use crate::offline::Kept;
use millpond_model::{CpuId, CpuSet, Lgroup, LgrpId};
use std::collections::BTreeMap;

/// All nodes with their distances, CPUs and memory. `kept` supplies the recorded nodes of off-line CPUs.
pub(crate) fn read_nodes(root: &Root, present: &CpuSet, kept: impl FnOnce() -> Kept) -> Vec<Lgroup> {
    let nodes = root.sys.join("devices/system/node");
    let mut ids: Vec<u32> = root
        .names(&nodes)
        .unwrap_or_default()
        .iter()
        .filter_map(|n| n.strip_prefix("node")?.parse().ok())
        .collect();
    ids.sort_unstable();
    let mut lgroups: Vec<Lgroup> = ids
        .iter()
        .map(|id| {
            let dir = nodes.join(format!("node{id}"));
            let distances = root.read(&dir.join("distance")).ok().flatten().unwrap_or_default();
            let mut distances: Vec<u32> =
                distances.split_ascii_whitespace().filter_map(|d| d.parse().ok()).collect();
            distances.resize(ids.len(), 10);
            let memory = root.read(&dir.join("meminfo")).ok().flatten();
            let memory = memory.and_then(|t| {
                t.lines().find(|l| l.contains("MemTotal:"))?.split_ascii_whitespace().nth(3)?.parse().ok()
            });
            let cpus = cpus(root, &dir, &NODE).unwrap_or_default();
            Lgroup { id: LgrpId(*id), cpus: &cpus & present, distances, memory_kib: memory }
        })
        .collect();
    let known = lgroups.iter().fold(CpuSet::new(), |all, l| &all | &l.cpus);
    let stray = present - &known;
    // A kernel without NUMA has no nodes, and an off-line CPU is in no node. These CPUs are assigned to the first node.
    if !stray.is_empty() {
        if lgroups.is_empty() {
            lgroups.push(Lgroup::only(CpuSet::new()));
        }
        let kept = if lgroups.len() > 1 { kept() } else { Kept::default() };
        for cpu in stray.iter() {
            let place = |id| lgroups.iter().position(|l| l.id == id);
            let home = node_link(root, cpu).and_then(place).or_else(|| kept.lgroup(cpu).and_then(place));
            lgroups[home.unwrap_or(0)].cpus.insert(cpu);
        }
    }
    lgroups
}

/// The node of each CPU. Emulated nodes (`numa=fake`, the default on a Raspberry Pi 5) all list the same CPUs. There, the link in
/// the CPU's directory decides.
pub(crate) fn homes(root: &Root, lgroups: &[Lgroup], present: &CpuSet) -> BTreeMap<CpuId, LgrpId> {
    let (mut homes, mut shared) = (BTreeMap::new(), CpuSet::new());
    for lgroup in lgroups {
        for cpu in lgroup.cpus.iter() {
            if *homes.entry(cpu).or_insert(lgroup.id) != lgroup.id {
                shared.insert(cpu);
            }
        }
    }
    for cpu in (&shared & present).iter() {
        let lists = |id: &LgrpId| lgroups.iter().any(|l| l.id == *id && l.cpus.contains(cpu));
        homes.extend(node_link(root, cpu).filter(lists).map(|id| (cpu, id)));
    }
    homes
}

/// The node of a CPU from the link in its own directory. The link stays while the CPU is off-line.
fn node_link(root: &Root, cpu: CpuId) -> Option<LgrpId> {
    let dir = root.sys.join(format!("devices/system/cpu/cpu{cpu}"));
    let names = root.names(&dir).ok()?;
    names.iter().find_map(|n| n.strip_prefix("node")?.parse().ok()).map(LgrpId)
}

/// The nodes with memory, and their CPUs.
pub(crate) fn memory_nodes(nodes: &[Lgroup]) -> Vec<(LgrpId, CpuSet)> {
    let has_memory = |node: &&Lgroup| node.memory_kib.is_none_or(|kib| kib > 0);
    nodes.iter().filter(has_memory).map(|node| (node.id, node.cpus.clone())).collect()
}
