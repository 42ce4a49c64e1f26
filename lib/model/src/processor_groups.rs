//! Processor groups: CPUs that share hardware, from a pipeline to the whole system.
//!
//! A machine has a [`Topology`] of CPUs and caches. The groups follow from it. They form a tree: 0 is the system; below it are memory nodes
//! (if there are several), chips, caches from the last level to the first, and pipelines. If two kinds of hardware have the same CPUs, one
//! group is the child of the other. Hardware that belongs to a single CPU is not shared and forms no group.
//!
//! ```text
//!   0 System 0-31
//!   `-- 4 Data_Pipe_to_memory 0-31          numbered from the first CPU's innermost group outwards, then from the
//!       `-- 3 L2_Cache 0-31                 next CPU that has a group without a number
//!           |-- 2 L1_Cache 0-3
//!           |   `-- 1 Integer_Pipeline 0-3
//!           `-- 6 L1_Cache 4-7 …
//! ```
//!
//! Firmware may be wrong. Hardware that partly overlaps with a group does not fit into a tree: it is left out and listed by
//! [`ProcessorGroups::left_out`].

use crate::{Cache, CacheKind, ChipId, CoreId, CpuId, CpuSet, LgrpId, Topology};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::fmt;

/// The number of a processor group; 0 is the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct PgId(pub u32);

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hardware that the CPUs of a group share. The order is from the whole machine to the core: an outer cache comes before an inner one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relationship {
    /// The machine.
    System,
    /// Local memory: one of several nodes.
    Memory,
    /// The connection of their chip to memory.
    DataPipe,
    /// A cache, by its level; 1 is nearest to the core.
    Cache(u32),
    /// The execution units.
    Pipeline,
}

/// The name in listings, without blanks. `System`, `Data_Pipe_to_memory` and `Integer_Pipeline` are the names of Solaris.
impl fmt::Display for Relationship {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relationship::System => f.pad("System"),
            Relationship::Memory => f.pad("Memory"),
            Relationship::DataPipe => f.pad("Data_Pipe_to_memory"),
            Relationship::Cache(level) => f.pad(&format!("L{level}_Cache")),
            Relationship::Pipeline => f.pad("Integer_Pipeline"),
        }
    }
}

impl Ord for Relationship {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Relationship {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Relationship {
    fn rank(self) -> (u8, Reverse<u32>) {
        match self {
            Relationship::System => (0, Reverse(0)),
            Relationship::Memory => (1, Reverse(0)),
            Relationship::DataPipe => (2, Reverse(0)),
            Relationship::Cache(level) => (3, Reverse(level)),
            Relationship::Pipeline => (4, Reverse(0)),
        }
    }

    /// A description, to continue a sentence.
    #[must_use]
    pub fn meaning(self) -> String {
        match self {
            Relationship::System => "all CPUs of the machine".into(),
            Relationship::Memory => "the same memory is local: a NUMA node".into(),
            Relationship::DataPipe => "the way to memory: a chip".into(),
            Relationship::Cache(level) => format!("a cache of level {level}"),
            Relationship::Pipeline => "the pipeline of a core: its strands".into(),
        }
    }
}

crate::words! {
    /// A hardware part of the machine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Physical {
        /// The whole machine.
        System = "system",
        /// A chip.
        Chip = "chip",
        /// A core.
        Core = "core",
    }
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessorGroup {
    /// Its number.
    pub id: PgId,
    /// The shared hardware.
    pub relationship: Relationship,
    /// The CPUs that share it, including off-line ones as far as the machine reports them.
    pub cpus: CpuSet,
    /// Its parent; the system has none.
    pub parent: Option<PgId>,
    /// Physical parts of the machine with exactly these CPUs, largest first; empty for the system.
    pub physical: Vec<Physical>,
    /// The shared caches, data before instructions; empty for other relationships.
    pub caches: Vec<(CacheKind, Option<u64>)>,
}

/// The groups of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessorGroups {
    /// In depth-first order.
    groups: Vec<ProcessorGroup>,
    left_out: Vec<(Relationship, CpuSet)>,
}

/// A group without a number.
struct Draft {
    relationship: Relationship,
    cpus: CpuSet,
    caches: Vec<(CacheKind, Option<u64>)>,
    parent: Option<usize>,
}

impl ProcessorGroups {
    /// The groups of a machine.
    #[must_use]
    pub fn new(topology: &Topology) -> ProcessorGroups {
        let all = topology.cpus();
        let (mut candidates, left_out) = compatible(candidates(topology, &all));
        candidates.sort_by_key(|c| (Reverse(c.cpus.len()), c.relationship, c.cpus.lowest()));
        let root =
            Draft { relationship: Relationship::System, cpus: all.clone(), caches: Vec::new(), parent: None };
        let mut placed = vec![root];
        // The innermost group of each CPU so far: larger groups are placed first.
        let mut innermost: BTreeMap<CpuId, usize> = all.iter().map(|cpu| (cpu, 0)).collect();
        for mut candidate in candidates {
            candidate.parent = candidate.cpus.lowest().and_then(|cpu| innermost.get(&cpu).copied());
            innermost.extend(candidate.cpus.iter().map(|cpu| (cpu, placed.len())));
            placed.push(candidate);
        }
        ProcessorGroups { groups: in_order(placed, &innermost, &parts(topology)), left_out }
    }

    /// All groups in depth-first order, the system first.
    #[must_use]
    pub fn groups(&self) -> &[ProcessorGroup] {
        &self.groups
    }

    /// Hardware that overlaps with other groups and does not fit into the tree.
    #[must_use]
    pub fn left_out(&self) -> &[(Relationship, CpuSet)] {
        &self.left_out
    }
}

/// All hardware that at least two CPUs share, in no order.
fn candidates(topology: &Topology, all: &CpuSet) -> Vec<Draft> {
    let mut shared: BTreeMap<(Relationship, CpuSet), Draft> = BTreeMap::new();
    let mut add = |relationship, cpus: CpuSet, cache: Option<&Cache>| {
        let cpus = &cpus & all;
        if cpus.len() < 2 {
            return;
        }
        let new = || Draft { relationship, cpus: cpus.clone(), caches: Vec::new(), parent: None };
        let draft = shared.entry((relationship, cpus.clone())).or_insert_with(new);
        draft.caches.extend(cache.map(|cache| (cache.kind, cache.size_kib)));
    };
    let (mut nodes, mut chips) = (BTreeMap::<LgrpId, CpuSet>::new(), BTreeMap::<ChipId, CpuSet>::new());
    for processor in topology.processors() {
        nodes.entry(processor.lgroup).or_default().insert(processor.id);
        chips.entry(processor.chip).or_default().insert(processor.id);
    }
    if nodes.len() > 1 {
        nodes.into_values().for_each(|cpus| add(Relationship::Memory, cpus, None));
    }
    chips.into_values().for_each(|cpus| add(Relationship::DataPipe, cpus, None));
    let silent = silent_strands(topology);
    for cache in topology.caches() {
        add(Relationship::Cache(cache.level), with_silent(&cache.cpus, &silent), Some(cache));
    }
    topology.pipelines().into_iter().for_each(|cpus| add(Relationship::Pipeline, cpus, None));
    shared.into_values().collect()
}

/// Cores with some strands for which no cache is reported because they are off-line. For each of the other strands of the core: the
/// strands without and with caches.
fn silent_strands(topology: &Topology) -> BTreeMap<CpuId, (CpuSet, CpuSet)> {
    let told: CpuSet = topology.caches().iter().flat_map(|cache| cache.cpus.iter()).collect();
    let mut strands = BTreeMap::new();
    if topology.cpus().is_subset(&told) {
        return strands;
    }
    for core in topology.cores() {
        let (silent, rest) = (&core.cpus - &told, &core.cpus & &told);
        if !silent.is_empty() {
            strands.extend(rest.iter().map(|cpu| (cpu, (silent.clone(), rest.clone()))));
        }
    }
    strands
}

/// The CPUs that share a cache if all are on-line. A cache that extends beyond a core has all strands of that core; nothing is known about
/// other caches.
fn with_silent(cpus: &CpuSet, strands: &BTreeMap<CpuId, (CpuSet, CpuSet)>) -> CpuSet {
    let mut all = cpus.clone();
    if !strands.is_empty() {
        for (silent, rest) in cpus.iter().filter_map(|cpu| strands.get(&cpu)) {
            if rest.is_subset(cpus) && rest.len() < cpus.len() {
                all = &all | silent;
            }
        }
    }
    all
}

/// The groups that fit into one tree, and those that overlap with one of them. Cores, chips and nodes come before caches: the topology
/// has checked them against one another.
fn compatible(mut candidates: Vec<Draft>) -> (Vec<Draft>, Vec<(Relationship, CpuSet)>) {
    let is_cache = |draft: &Draft| matches!(draft.relationship, Relationship::Cache(_));
    candidates.sort_by_key(|c| (is_cache(c), Reverse(c.relationship), c.cpus.lowest()));
    let (mut kept, mut left_out): (Vec<Draft>, _) = (Vec::new(), Vec::new());
    let mut of: BTreeMap<CpuId, Vec<usize>> = BTreeMap::new();
    for candidate in candidates {
        // The number of its CPUs in each overlapping group: must be all of its own, or all of the other group.
        let mut met: BTreeMap<usize, usize> = BTreeMap::new();
        for at in candidate.cpus.iter().filter_map(|cpu| of.get(&cpu)).flatten() {
            *met.entry(*at).or_default() += 1;
        }
        let own = candidate.cpus.len();
        if met.iter().any(|(at, common)| *common != own && *common != kept[*at].cpus.len()) {
            left_out.push((candidate.relationship, candidate.cpus));
            continue;
        }
        for cpu in candidate.cpus.iter() {
            of.entry(cpu).or_default().push(kept.len());
        }
        kept.push(candidate);
    }
    (kept, left_out)
}

/// For each CPU its chip and its core, with the number of CPUs in both.
fn parts(topology: &Topology) -> Parts {
    let mut parts = Parts::default();
    for processor in topology.processors() {
        *parts.chips.entry(processor.chip).or_default() += 1;
        *parts.cores.entry(processor.core).or_default() += 1;
        parts.of.insert(processor.id, (processor.chip, processor.core));
    }
    parts
}

#[derive(Default)]
struct Parts {
    chips: BTreeMap<ChipId, usize>,
    cores: BTreeMap<CoreId, usize>,
    of: BTreeMap<CpuId, (ChipId, CoreId)>,
}

impl Parts {
    /// The physical parts with exactly these CPUs.
    fn with(&self, cpus: &CpuSet) -> Vec<Physical> {
        let of: Vec<_> = cpus.iter().filter_map(|cpu| self.of.get(&cpu)).collect();
        let Some((chip, core)) = of.first() else { return Vec::new() };
        let mut parts = Vec::new();
        if of.len() == self.of.len() {
            parts.push(Physical::System);
        }
        if self.chips.get(chip) == Some(&of.len()) && of.iter().all(|(other, _)| other == chip) {
            parts.push(Physical::Chip);
        }
        if self.cores.get(core) == Some(&of.len()) && of.iter().all(|(_, other)| other == core) {
            parts.push(Physical::Core);
        }
        parts
    }
}

/// Numbers the groups and sorts them depth first, siblings by their lowest CPU.
fn in_order(
    mut placed: Vec<Draft>,
    innermost: &BTreeMap<CpuId, usize>,
    parts: &Parts,
) -> Vec<ProcessorGroup> {
    let mut ids: Vec<Option<PgId>> = vec![None; placed.len()];
    ids[0] = Some(PgId(0));
    let mut next = 1;
    for at in innermost.values() {
        let mut at = Some(*at);
        while let Some(group) = at.filter(|group| ids[*group].is_none()) {
            ids[group] = Some(PgId(next));
            next += 1;
            at = placed[group].parent;
        }
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); placed.len()];
    let mut by_lowest: Vec<usize> = (1..placed.len()).collect();
    by_lowest.sort_by_key(|at| placed[*at].cpus.lowest());
    for at in by_lowest {
        if let Some(parent) = placed[at].parent {
            children[parent].push(at);
        }
    }
    let mut groups = Vec::with_capacity(placed.len());
    let mut open = vec![0];
    while let Some(at) = open.pop() {
        open.extend(children[at].iter().rev());
        let draft = &mut placed[at];
        let mut caches = std::mem::take(&mut draft.caches);
        caches.sort();
        groups.push(ProcessorGroup {
            id: ids[at].unwrap_or(PgId(0)),
            relationship: draft.relationship,
            physical: if at == 0 { Vec::new() } else { parts.with(&draft.cpus) },
            cpus: std::mem::take(&mut draft.cpus),
            parent: draft.parent.and_then(|parent| ids[parent]),
            caches,
        });
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoreKind, Lgroup, Processor};

    /// Chips of cores of strands, optionally an lgroup for each chip, and caches by level with the number of adjacent CPUs that share one.
    fn machine(chips: u32, cores: u32, strands: u32, nodes: bool, caches: &[(u32, u32)]) -> Topology {
        let (count, per_chip) = (chips * cores * strands, cores * strands);
        let node = |cpu: u32| if nodes { cpu / per_chip } else { 0 };
        let processors = (0..count).map(|n| Processor {
            id: CpuId(n),
            core: CoreId(n / strands),
            chip: ChipId(n / per_chip),
            lgroup: LgrpId(node(n)),
            kind: CoreKind::Uniform,
            isa: "i386".into(),
            clock_mhz: None,
            fpu: None,
            implementation: String::new(),
            brand: String::new(),
        });
        let cache = |level, first: u32, share: u32| Cache {
            level,
            kind: CacheKind::Unified,
            size_kib: Some(64),
            cpus: (first..first + share).map(CpuId).collect(),
        };
        let caches = caches
            .iter()
            .flat_map(|(level, share)| (0..count / share).map(move |n| cache(*level, n * share, *share)));
        let lgroups = if nodes { chips } else { 1 };
        let lgroup = |l: u32| Lgroup {
            id: LgrpId(l),
            cpus: (0..count).filter(|cpu| node(*cpu) == l).map(CpuId).collect(),
            distances: Lgroup::even_distances(l as usize, lgroups as usize),
            memory_kib: None,
        };
        Topology::new(processors.collect(), caches.collect(), (0..lgroups).map(lgroup).collect()).unwrap()
    }

    fn shown(topology: &Topology) -> Vec<String> {
        let line = |g: &ProcessorGroup| {
            let physical: Vec<&str> = g.physical.iter().map(|p| p.word()).collect();
            let parent = g.parent.map_or("-".to_owned(), |parent| parent.to_string());
            format!("{} {} {} in {parent} [{}]", g.id, g.relationship, g.cpus, physical.join(","))
        };
        ProcessorGroups::new(topology).groups().iter().map(line).collect()
    }

    #[test]
    fn numbers_go_outwards_from_the_first_cpu() {
        // A published Solaris listing of a chip with 32 strands has this numbering: 1 is the first pipeline, then the groups around it.
        assert_eq!(
            shown(&machine(1, 2, 4, false, &[(2, 8)])),
            [
                "0 System 0-7 in - []",
                "3 Data_Pipe_to_memory 0-7 in 0 [system,chip]",
                "2 L2_Cache 0-7 in 3 [system,chip]",
                "1 Integer_Pipeline 0-3 in 2 [core]",
                "4 Integer_Pipeline 4-7 in 2 [core]",
            ]
        );
    }

    #[test]
    fn what_one_cpu_has_alone_makes_no_group() {
        assert_eq!(shown(&machine(1, 1, 1, false, &[(1, 1), (2, 1)])), ["0 System 0 in - []"]);
        assert_eq!(
            shown(&machine(2, 2, 1, true, &[(1, 1)])),
            [
                "0 System 0-3 in - []",
                "2 Memory 0-1 in 0 [chip]",
                "1 Data_Pipe_to_memory 0-1 in 2 [chip]",
                "4 Memory 2-3 in 0 [chip]",
                "3 Data_Pipe_to_memory 2-3 in 4 [chip]",
            ]
        );
    }

    #[test]
    fn hardware_with_the_same_cpus_nests_from_the_outside() {
        assert_eq!(
            shown(&machine(1, 1, 2, false, &[(1, 2), (2, 2), (3, 2)])),
            [
                "0 System 0-1 in - []",
                "5 Data_Pipe_to_memory 0-1 in 0 [system,chip,core]",
                "4 L3_Cache 0-1 in 5 [system,chip,core]",
                "3 L2_Cache 0-1 in 4 [system,chip,core]",
                "2 L1_Cache 0-1 in 3 [system,chip,core]",
                "1 Integer_Pipeline 0-1 in 2 [system,chip,core]",
            ]
        );
    }

    #[test]
    fn pipelines_that_are_known_stand_for_cores() {
        let halves: Vec<CpuSet> = ["0-1", "2-3"].iter().map(|text| text.parse().unwrap()).collect();
        let topology = machine(1, 1, 4, false, &[]).with_pipelines(halves);
        assert_eq!(
            shown(&topology),
            [
                "0 System 0-3 in - []",
                "2 Data_Pipe_to_memory 0-3 in 0 [system,chip,core]",
                "1 Integer_Pipeline 0-1 in 2 []",
                "3 Integer_Pipeline 2-3 in 2 []",
            ]
        );
    }

    #[test]
    fn caches_of_one_level_with_the_same_cpus_are_one_group() {
        let mut caches = machine(1, 2, 1, false, &[(1, 2)]).caches().to_vec();
        caches.push(Cache { kind: CacheKind::Data, ..caches[0].clone() });
        let plain = machine(1, 2, 1, false, &[]);
        let topology = Topology::new(plain.processors().to_vec(), caches, plain.lgroups().to_vec()).unwrap();
        let groups = ProcessorGroups::new(&topology);
        let cache = groups.groups().last().unwrap();
        assert_eq!(cache.relationship, Relationship::Cache(1));
        assert_eq!(cache.caches, [(CacheKind::Data, Some(64)), (CacheKind::Unified, Some(64))]);
    }

    #[test]
    fn what_overlaps_is_left_out_and_said() {
        let plain = machine(2, 2, 1, false, &[]);
        let cache = |cpus: &str| Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_kib: None,
            cpus: cpus.parse().unwrap(),
        };
        // CPUs 1 and 2 are on different chips; the other cache also names a CPU that does not exist.
        let caches = vec![cache("1-2"), cache("2-3,900")];
        let topology = Topology::new(plain.processors().to_vec(), caches, plain.lgroups().to_vec()).unwrap();
        let groups = ProcessorGroups::new(&topology);
        assert_eq!(groups.left_out(), [(Relationship::Cache(3), "1-2".parse().unwrap())]);
        assert_eq!(groups.groups().last().unwrap().cpus, "2-3".parse().unwrap());
    }

    #[test]
    fn strands_that_are_off_line_stay_in_the_caches_around_their_core() {
        // The kernel reports no cache for CPU 3, and omits it from the caches of the others.
        let plain = machine(1, 2, 2, false, &[]);
        let cache = |level, cpus: &str| Cache {
            level,
            kind: CacheKind::Unified,
            size_kib: None,
            cpus: cpus.parse().unwrap(),
        };
        let caches = vec![cache(1, "0-1"), cache(1, "2"), cache(3, "0-2")];
        let topology = Topology::new(plain.processors().to_vec(), caches, plain.lgroups().to_vec()).unwrap();
        assert_eq!(
            shown(&topology),
            [
                "0 System 0-3 in - []",
                "4 Data_Pipe_to_memory 0-3 in 0 [system,chip]",
                "3 L3_Cache 0-3 in 4 [system,chip]",
                "2 L1_Cache 0-1 in 3 [core]",
                "1 Integer_Pipeline 0-1 in 2 [core]",
                "5 Integer_Pipeline 2-3 in 3 [core]",
            ]
        );
        assert_eq!(ProcessorGroups::new(&topology).left_out(), []);
    }

    #[test]
    fn every_group_stands_inside_its_parent_and_behind_it() {
        let topology = machine(4, 8, 2, true, &[(1, 2), (2, 2), (3, 16)]);
        let groups = ProcessorGroups::new(&topology);
        let mut ids: Vec<u32> = groups.groups().iter().map(|g| g.id.0).collect();
        for (at, group) in groups.groups().iter().enumerate().skip(1) {
            let parent = groups.groups()[..at].iter().find(|g| Some(g.id) == group.parent).unwrap();
            assert!(group.cpus.is_subset(&parent.cpus) && group.cpus.len() > 1, "{group:?}");
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..1 + 4 * 3 + 32 * 3).collect::<Vec<_>>());
    }
}
