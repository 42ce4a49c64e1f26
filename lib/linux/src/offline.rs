//! Topology of off-line CPUs.
//!
//! When a CPU goes off-line, the kernel removes its directories `topology` and `cache` and removes it from the lists of other
//! CPUs. The link `cpuN/nodeM` stays. Therefore Millpond writes the positions of all on-line CPUs to the record `topology` before
//! it takes a CPU off-line. What the kernel shows of on-line CPUs always takes precedence over the record.
//!
//! Without a record, for example after a boot with `nosmt`, the core is inferred from the CPU numbers:
//!
//! ```text
//!   SMT is limited                      a CPU is off-line
//!   on-line 0 2 4 6, off-line 1 3 5 7   cores 0-1 and 2-3, on-line 4: 4-5
//!   on-line 0-3, off-line 4-7           cores 0,4 and 1,5, on-line 2: 2,6
//! ```
//!
//! If the numbers do not follow such a pattern, as on hybrid machines, an off-line CPU gets a core of its own. Its chip is that
//! of the core; otherwise that of the node, if the node is on one chip.

use millpond_model::{Cache, ChipId, CoreKind, CpuId, CpuSet, LgrpId, Topology};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The record of positions.
pub(crate) const RECORD: &str = "topology";

/// The recorded position data of CPUs that were on-line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    seen: CpuSet,
    cores: Vec<KeptCore>,
    caches: Vec<Cache>,
    /// The core of each CPU, as index in `cores`.
    #[serde(skip)]
    index: BTreeMap<CpuId, usize>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeptCore {
    cpus: CpuSet,
    chip: ChipId,
    lgroup: LgrpId,
    kind: CoreKind,
}

/// Core and chip of each CPU. A core is identified by one of its CPUs.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub core: BTreeMap<CpuId, CpuId>,
    pub chip: BTreeMap<CpuId, ChipId>,
}

impl Kept {
    /// Parses a record; empty if it is invalid.
    pub(crate) fn parse(text: &str) -> Kept {
        let mut kept: Kept = serde_json::from_str(text).unwrap_or_default();
        for (at, core) in kept.cores.iter().enumerate() {
            kept.index.extend(core.cpus.iter().map(|cpu| (cpu, at)));
        }
        kept
    }

    /// The text of the record.
    pub(crate) fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// The data extended by a topology in which these CPUs are on-line.
    pub(crate) fn with(&self, topology: &Topology, online: &CpuSet) -> Kept {
        let seen = online | &self.seen;
        let core = |core: millpond_model::Core| {
            let cpus = &core.cpus & &seen;
            let first = topology.processor(cpus.lowest()?)?;
            Some(KeptCore { cpus, chip: first.chip, lgroup: first.lgroup, kind: first.kind })
        };
        let cores = topology.cores().into_iter().filter_map(core).collect();
        Kept { seen, cores, caches: topology.caches().to_vec(), index: BTreeMap::new() }
    }

    fn core(&self, cpu: CpuId) -> Option<&KeptCore> {
        self.index.get(&cpu).and_then(|at| self.cores.get(*at))
    }

    /// The recorded chip of a CPU.
    pub(crate) fn chip(&self, cpu: CpuId) -> Option<ChipId> {
        self.core(cpu).map(|core| core.chip)
    }

    /// The recorded kind of a CPU's core.
    pub(crate) fn kind(&self, cpu: CpuId) -> Option<CoreKind> {
        self.core(cpu).map(|core| core.kind)
    }

    /// The recorded node of a CPU.
    pub(crate) fn lgroup(&self, cpu: CpuId) -> Option<LgrpId> {
        self.core(cpu).map(|core| core.lgroup)
    }

    /// Adds off-line CPUs to the caches that they share while on-line.
    pub(crate) fn complete(&self, caches: &mut Vec<Cache>, offline: &CpuSet) {
        caches.sort();
        caches.dedup();
        let places: BTreeMap<_, _> =
            caches.iter().enumerate().map(|(at, c)| ((c.level, c.kind, c.cpus.clone()), at)).collect();
        for kept in self.caches.iter().filter(|kept| !kept.cpus.is_disjoint(offline)) {
            let seen = &kept.cpus - offline;
            if seen.is_empty() {
                caches.push(kept.clone());
            } else if let Some(at) = places.get(&(kept.level, kept.kind, seen)) {
                caches[*at].cpus = kept.cpus.clone();
            }
        }
    }
}

impl Places {
    /// Adds the positions of off-line CPUs. `node` returns the node of a CPU. `is_smt_limited`: the off-line CPUs are strands of
    /// on-line cores.
    pub(crate) fn complete(
        &mut self,
        offline: &CpuSet,
        kept: &Kept,
        is_smt_limited: bool,
        node: impl Fn(CpuId) -> LgrpId,
    ) {
        self.recall_cores(offline, kept);
        let unknown: CpuSet = offline.iter().filter(|cpu| !self.core.contains_key(cpu)).collect();
        let nodes: BTreeSet<LgrpId> = unknown.iter().map(&node).collect();
        for lgroup in nodes {
            let here = |cpu: &CpuId| node(*cpu) == lgroup;
            let unknown_here: CpuSet = unknown.iter().filter(here).collect();
            let cores = self.cores(here);
            let found = if is_smt_limited {
                limited(&cores, &unknown_here)
            } else if cores.is_empty() {
                by_pattern(&self.cores(|_| true), &unknown)
            } else {
                by_pattern(&cores, &unknown_here)
            };
            self.core.extend(found.into_iter().filter(|(cpu, _)| here(cpu)));
        }
        for cpu in unknown.iter() {
            self.core.entry(cpu).or_insert(cpu);
        }
        self.find_chips(offline, kept, node);
    }

    /// The known cores of the selected CPUs.
    fn cores(&self, wanted: impl Fn(&CpuId) -> bool) -> Vec<CpuSet> {
        let mut cores: BTreeMap<CpuId, CpuSet> = BTreeMap::new();
        for (cpu, leader) in self.core.iter().filter(|(cpu, _)| wanted(cpu)) {
            cores.entry(*leader).or_default().insert(*cpu);
        }
        cores.into_values().collect()
    }

    /// The cores from the record, unless they contradict the kernel.
    fn recall_cores(&mut self, offline: &CpuSet, kept: &Kept) {
        for core in kept.cores.iter().filter(|core| !core.cpus.is_disjoint(offline)) {
            let leaders: BTreeSet<Option<CpuId>> =
                (&core.cpus - offline).iter().map(|cpu| self.core.get(&cpu).copied()).collect();
            let silent = &core.cpus & offline;
            let leader = match leaders.first() {
                None => silent.lowest(),
                Some(leader) if leaders.len() == 1 => *leader,
                Some(_) => None,
            };
            if let Some(leader) = leader {
                self.core.extend(silent.iter().map(|cpu| (cpu, leader)));
            }
        }
    }

    fn find_chips(&mut self, offline: &CpuSet, kept: &Kept, node: impl Fn(CpuId) -> LgrpId) {
        let mut of_core: BTreeMap<CpuId, ChipId> = BTreeMap::new();
        let mut of_node: BTreeMap<LgrpId, BTreeSet<ChipId>> = BTreeMap::new();
        for (cpu, chip) in &self.chip {
            of_core.extend(self.core.get(cpu).map(|leader| (*leader, *chip)));
            of_node.entry(node(*cpu)).or_default().insert(*chip);
        }
        let mut numbers = of_node.values().flatten().copied().collect::<BTreeSet<_>>();
        numbers.extend(offline.iter().filter_map(|cpu| kept.chip(cpu)));
        // If each node is a chip, a node without on-line CPUs is one, too.
        let is_chip_each = of_node.values().all(|chips| chips.len() == 1) && numbers.len() == of_node.len();
        for cpu in offline.iter() {
            let leader = self.core[&cpu];
            let chips = of_node.get(&node(cpu));
            let of_its_node = || chips.filter(|chips| chips.len() == 1)?.first().copied();
            let new = || {
                let free = (0..).map(ChipId).find(|chip| !numbers.contains(chip));
                free.filter(|_| chips.is_none() && is_chip_each)
            };
            let below = || self.chip.range(..cpu).next_back().map(|(_, chip)| *chip);
            let chip = of_core.get(&leader).copied().or_else(|| kept.chip(cpu)).or_else(of_its_node);
            let chip = chip.or_else(new).or_else(below).unwrap_or(ChipId(0));
            if chips.is_none() {
                of_node.insert(node(cpu), BTreeSet::from([chip]));
                numbers.insert(chip);
            }
            of_core.insert(leader, chip);
            self.chip.insert(cpu, chip);
        }
    }
}

/// The cores of CPUs that are off-line because SMT is limited.
fn limited(cores: &[CpuSet], offline: &CpuSet) -> BTreeMap<CpuId, CpuId> {
    let leaders: Vec<CpuId> = cores.iter().filter_map(CpuSet::lowest).collect();
    let highest = cores.iter().filter_map(CpuSet::highest).max();
    if leaders.is_empty() {
        return BTreeMap::new();
    }
    if offline.lowest() > highest {
        // Numbering order: all first strands, then all second strands.
        let is_even = offline.len().is_multiple_of(leaders.len());
        return offline
            .iter()
            .zip(leaders.iter().cycle())
            .filter(|_| is_even)
            .map(|(c, l)| (c, *l))
            .collect();
    }
    // Numbering order: the strands of a core are adjacent. A core with only off-line CPUs is unknown.
    let mut found = BTreeMap::new();
    let mut claimed: BTreeMap<CpuId, usize> = BTreeMap::new();
    for cpu in offline.iter() {
        let at = leaders.partition_point(|leader| *leader < cpu);
        if let Some(leader) = at.checked_sub(1).map(|at| leaders[at]) {
            *claimed.entry(leader).or_default() += 1;
            found.insert(cpu, leader);
        }
    }
    let is_regular = claimed.len() == leaders.len() && claimed.values().collect::<BTreeSet<_>>().len() == 1;
    found.retain(|_, leader| is_regular || claimed[leader] == 1);
    found
}

/// The cores of off-line CPUs, from the numbering pattern of the on-line ones.
fn by_pattern(cores: &[CpuSet], offline: &CpuSet) -> BTreeMap<CpuId, CpuId> {
    let Some(full) = cores.iter().max_by_key(|core| core.len()).filter(|core| core.len() > 1) else {
        return BTreeMap::new();
    };
    let numbers: Vec<u32> = full.iter().map(|cpu| cpu.0).collect();
    let (strands, stride) = (u32::try_from(numbers.len()).unwrap_or(u32::MAX), numbers[1] - numbers[0]);
    // The lowest CPU, from which cores with a stride are counted.
    let first = cores.iter().filter_map(CpuSet::lowest).chain(offline.lowest()).min().map_or(0, |cpu| cpu.0);
    let core = |cpu: CpuId| -> CpuSet {
        let at = cpu.0.saturating_sub(first);
        let base = if stride == 1 { cpu.0 / strands * strands } else { first + at % stride };
        (0..strands).map(|strand| CpuId(base + strand * stride)).collect()
    };
    let fits = |seen: &CpuSet| {
        let whole = seen.lowest().map(core).unwrap_or_default();
        seen.is_subset(&whole) && (&whole - seen).is_subset(offline)
    };
    if !cores.iter().all(fits) {
        return BTreeMap::new();
    }
    let leader = |cpu: CpuId| {
        let whole = core(cpu);
        let seen = cores.iter().find(|seen| seen.is_subset(&whole));
        seen.and_then(CpuSet::lowest).or_else(|| (&whole & offline).lowest())
    };
    offline.iter().filter_map(|cpu| Some((cpu, leader(cpu)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(lists: &[&str]) -> Vec<CpuSet> {
        lists.iter().map(|list| list.parse().unwrap()).collect()
    }

    /// `CPU:core` of each off-line CPU whose core was found.
    fn told(found: &BTreeMap<CpuId, CpuId>) -> String {
        found.iter().map(|(cpu, leader)| format!("{cpu}:{leader}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn strands_that_a_limit_of_smt_keeps_off_line_belong_to_on_line_cores() {
        let of = |cores: &[&str], offline: &str| told(&limited(&sets(cores), &offline.parse().unwrap()));
        assert_eq!(of(&["0", "2"], "1,3"), "1:0 3:2");
        assert_eq!(of(&["0", "1"], "2-3"), "2:0 3:1");
        assert_eq!(of(&["0", "1"], "2-5"), "2:0 3:1 4:0 5:1", "four strands a core");
        assert_eq!(
            of(&["0-3", "8-11"], "4-7,12-15"),
            "4:0 5:0 6:0 7:0 12:8 13:8 14:8 15:8",
            "POWER, SMT 4 of 8"
        );
        assert_eq!(of(&["0", "2", "4", "5"], "1,3"), "1:0 3:2", "a hybrid machine");
        assert_eq!(of(&["0", "2", "6"], "1,3-5,7"), "1:0 7:6", "the whole core 4-5 is off-line");
        assert_eq!(of(&["0", "1"], "2-4"), "", "three for two cores");
        assert_eq!(of(&[], "0-1"), "");
    }

    #[test]
    fn other_cpus_that_are_off_line_follow_the_pattern_of_all_others() {
        let of = |cores: &[&str], offline: &str| told(&by_pattern(&sets(cores), &offline.parse().unwrap()));
        assert_eq!(of(&["0-1", "2-3", "4"], "5-7"), "5:4 6:6 7:6");
        assert_eq!(of(&["0,4", "1,5", "2"], "3,6-7"), "3:3 6:2 7:3");
        assert_eq!(of(&["4-5", "6"], "7"), "7:6", "the second node");
        assert_eq!(of(&["2,6", "7"], "3"), "3:7", "the second node, first strands first");
        assert_eq!(of(&["0-1", "2-3", "4", "5"], "6"), "", "a hybrid machine");
        assert_eq!(of(&["0", "1"], "2"), "", "one strand a core");
    }
}
