//! CPU topology: strands in cores, cores in chips, chips in locality groups, and shared caches.

use crate::{ChipId, CoreId, CpuId, CpuSet, LgrpId, ParseIdError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The CPUs of a machine and their grouping. Built once and checked by [`Topology::new`], then read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    processors: Vec<Processor>,
    caches: Vec<Cache>,
    lgroups: Vec<Lgroup>,
    /// If strands of a core have several pipelines: the strands that share each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pipelines: Vec<CpuSet>,
}

/// One CPU (a strand of a core).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Its number.
    pub id: CpuId,
    /// Its core.
    pub core: CoreId,
    /// Its chip.
    pub chip: ChipId,
    /// Its locality group; if several share the CPU, the one that the kernel reports.
    pub lgroup: LgrpId,
    /// The type of its core.
    pub kind: CoreKind,
    /// Instruction set family as in `psrinfo -v` (`i386`, `sparcv9`, `aarch64`).
    pub isa: String,
    /// Nominal clock in MHz, if known.
    pub clock_mhz: Option<u64>,
    /// The floating-point unit as in `psrinfo -v`, if any.
    pub fpu: Option<String>,
    /// The implementation line of its chip in `psrinfo -pv`.
    pub implementation: String,
    /// The brand line of its chip in `psrinfo -pv`; may be empty.
    pub brand: String,
}

crate::words! {
    /// The kind of a core.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum CoreKind {
        /// All cores are alike.
        #[default]
        Uniform = "uniform",
        /// The fast cores of a hybrid machine.
        Performance = "performance",
        /// The slower, power-saving cores of a hybrid machine.
        Efficiency = "efficiency",
    }
    else ParseIdError, |text| ParseIdError { text, noun: "core type" }
}

/// The contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One cache and the CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity in KiB, if known.
    pub size_kib: Option<u64>,
    /// The CPUs that share it.
    pub cpus: CpuSet,
}

/// A locality group: CPUs and memory with the same distance to everything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lgroup {
    /// Its number.
    pub id: LgrpId,
    /// Its CPUs; empty for memory only. Emulated nodes (`numa=fake`) share their CPUs.
    pub cpus: CpuSet,
    /// Relative distance to each lgroup of the machine in ascending order of their numbers; 10 is local
    /// (the ACPI convention).
    pub distances: Vec<u32>,
    /// Memory in KiB, if known.
    pub memory_kib: Option<u64>,
}

impl Lgroup {
    /// The distance within an lgroup.
    const NEAR: u32 = 10;
    /// The distance between two lgroups if a machine reports none.
    const FAR: u32 = 20;

    /// The only lgroup of a machine without NUMA, or of one that reports no nodes.
    #[must_use]
    pub fn only(cpus: CpuSet) -> Lgroup {
        Lgroup { id: LgrpId(0), cpus, distances: Self::even_distances(0, 1), memory_kib: None }
    }

    /// The distances of the lgroup at index `at` of `count` that are equally far from each other.
    #[must_use]
    pub fn even_distances(at: usize, count: usize) -> Vec<u32> {
        (0..count).map(|other| if other == at { Self::NEAR } else { Self::FAR }).collect()
    }

    /// The numbers of these.
    #[must_use]
    pub fn ids(lgroups: &[Lgroup]) -> BTreeSet<LgrpId> {
        lgroups.iter().map(|lgroup| lgroup.id).collect()
    }
}

/// A core with its strands and chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub id: CoreId,
    /// Its chip.
    pub chip: ChipId,
    /// Its strands.
    pub cpus: CpuSet,
}

/// A contradiction in the description of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There are no CPUs.
    #[error("it has no CPU")]
    Empty,
    /// A CPU is described twice.
    #[error("CPU {0} is described twice")]
    Twice(CpuId),
    /// Strands of one core are on two chips.
    #[error("core {0} stands on two chips")]
    SplitCore(CoreId),
    /// The lgroup of a CPU is not in the list of lgroups, or does not contain the CPU; or an lgroup contains an unknown CPU.
    #[error("CPU {cpu} and lgroup {lgroup} do not know each other")]
    Lgroup {
        /// The CPU.
        cpu: CpuId,
        /// The group.
        lgroup: LgrpId,
    },
    /// The table of distances is not square.
    #[error("lgroup {lgroup} gives {given} distances where {wanted} are needed")]
    Distances {
        /// The group.
        lgroup: LgrpId,
        /// The number of distances of the group.
        given: usize,
        /// The number of groups.
        wanted: usize,
    },
}

impl Topology {
    /// Builds a topology: CPUs and lgroups are sorted by number and checked against each other.
    ///
    /// # Errors
    /// [`TopologyError`] if the parts contradict each other.
    pub fn new(
        mut processors: Vec<Processor>,
        mut caches: Vec<Cache>,
        mut lgroups: Vec<Lgroup>,
    ) -> Result<Topology, TopologyError> {
        if processors.is_empty() {
            return Err(TopologyError::Empty);
        }
        processors.sort_by_key(|p| p.id);
        lgroups.sort_by_key(|l| l.id);
        caches.sort();
        caches.dedup();
        let mut chip_of = BTreeMap::new();
        for pair in processors.windows(2) {
            if pair[0].id == pair[1].id {
                return Err(TopologyError::Twice(pair[0].id));
            }
        }
        for p in &processors {
            if *chip_of.entry(p.core).or_insert(p.chip) != p.chip {
                return Err(TopologyError::SplitCore(p.core));
            }
            let known = lgroups.iter().any(|l| l.id == p.lgroup && l.cpus.contains(p.id));
            if !known {
                return Err(TopologyError::Lgroup { cpu: p.id, lgroup: p.lgroup });
            }
        }
        for l in &lgroups {
            if l.distances.len() != lgroups.len() {
                let (given, wanted) = (l.distances.len(), lgroups.len());
                return Err(TopologyError::Distances { lgroup: l.id, given, wanted });
            }
            for cpu in l.cpus.iter() {
                if processors.binary_search_by_key(&cpu, |p| p.id).is_err() {
                    return Err(TopologyError::Lgroup { cpu, lgroup: l.id });
                }
            }
        }
        Ok(Topology { processors, caches, lgroups, pipelines: Vec::new() })
    }

    /// The same topology with known pipelines: the strands that share each. Without them all strands of a core share one.
    #[must_use]
    pub fn with_pipelines(self, pipelines: Vec<CpuSet>) -> Topology {
        Topology { pipelines, ..self }
    }

    /// Every CPU, ascending, including off-line ones.
    #[must_use]
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// One CPU.
    #[must_use]
    pub fn processor(&self, id: CpuId) -> Option<&Processor> {
        self.processors.binary_search_by_key(&id, |p| p.id).ok().map(|i| &self.processors[i])
    }

    /// Every CPU number.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.processors.iter().map(|p| p.id).collect()
    }

    /// Caches, sorted by level; empty if unknown.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Locality groups, ascending.
    #[must_use]
    pub fn lgroups(&self) -> &[Lgroup] {
        &self.lgroups
    }

    /// Relative distance between two lgroups; 10 is local.
    #[must_use]
    pub fn distance(&self, from: LgrpId, to: LgrpId) -> Option<u32> {
        let column = self.lgroups.iter().position(|l| l.id == to)?;
        self.lgroups.iter().find(|l| l.id == from)?.distances.get(column).copied()
    }

    /// The CPUs that share the core of `id`, itself included.
    #[must_use]
    pub fn siblings(&self, id: CpuId) -> CpuSet {
        let core = self.processor(id).map(|p| p.core);
        self.processors.iter().filter(|p| Some(p.core) == core).map(|p| p.id).collect()
    }

    /// The CPUs that share each pipeline.
    #[must_use]
    pub fn pipelines(&self) -> Vec<CpuSet> {
        if self.pipelines.is_empty() {
            return self.cores().into_iter().map(|core| core.cpus).collect();
        }
        self.pipelines.clone()
    }

    /// Cores, ascending by their lowest CPU.
    #[must_use]
    pub fn cores(&self) -> Vec<Core> {
        let mut cores: Vec<Core> = Vec::new();
        let mut index = BTreeMap::new();
        for p in &self.processors {
            let at = *index.entry(p.core).or_insert_with(|| {
                cores.push(Core { id: p.core, chip: p.chip, cpus: CpuSet::new() });
                cores.len() - 1
            });
            cores[at].cpus.insert(p.id);
        }
        cores
    }

    /// The cores of each chip, in one pass.
    #[must_use]
    pub fn cores_by_chip(&self) -> BTreeMap<ChipId, Vec<Core>> {
        let mut chips: BTreeMap<ChipId, Vec<Core>> = BTreeMap::new();
        for core in self.cores() {
            chips.entry(core.chip).or_default().push(core);
        }
        chips
    }

    /// Chips, ascending by number.
    #[must_use]
    pub fn chips(&self) -> Vec<ChipId> {
        self.processors.iter().map(|p| p.chip).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The CPUs of a chip.
    #[must_use]
    pub fn chip_cpus(&self, chip: ChipId) -> CpuSet {
        self.processors.iter().filter(|p| p.chip == chip).map(|p| p.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A regular machine: `lgroups` chips, each with `cores` cores of `strands` strands.
    fn regular(lgroups: u32, cores: u32, strands: u32) -> (Vec<Processor>, Vec<Lgroup>) {
        let per_chip = cores * strands;
        let processors: Vec<_> = (0..lgroups * per_chip)
            .map(|n| Processor {
                id: CpuId(n),
                core: CoreId(n / strands),
                chip: ChipId(n / per_chip),
                lgroup: LgrpId(n / per_chip),
                kind: CoreKind::Uniform,
                isa: "i386".into(),
                clock_mhz: Some(2600),
                fpu: None,
                implementation: String::new(),
                brand: String::new(),
            })
            .collect();
        let groups = (0..lgroups)
            .map(|l| Lgroup {
                id: LgrpId(l),
                cpus: (l * per_chip..(l + 1) * per_chip).map(CpuId).collect(),
                distances: Lgroup::even_distances(l as usize, lgroups as usize),
                memory_kib: None,
            })
            .collect();
        (processors, groups)
    }

    #[test]
    fn lgroups_that_are_equally_far_have_two_distances() {
        assert_eq!(Lgroup::even_distances(1, 3), [20, 10, 20]);
        let only = Lgroup::only("0-3".parse().unwrap());
        assert_eq!((only.id, only.distances.as_slice(), only.cpus.len()), (LgrpId(0), &[10][..], 4));
        let other = Lgroup { id: LgrpId(7), ..only.clone() };
        assert_eq!(Lgroup::ids(&[other, only]), [LgrpId(0), LgrpId(7)].into());
    }

    proptest! {
        #[test]
        fn every_processor_is_in_one_core_one_chip_and_one_lgroup(
            lgroups in 1u32..5, cores in 1u32..5, strands in 1u32..5
        ) {
            let (processors, groups) = regular(lgroups, cores, strands);
            let t = Topology::new(processors, vec![], groups).unwrap();
            let mut seen = CpuSet::new();
            for core in t.cores() {
                prop_assert!(core.cpus.is_disjoint(&seen));
                seen = &seen | &core.cpus;
            }
            prop_assert_eq!(&seen, &t.cpus());
            let by_chip: usize = t.chips().iter().map(|c| t.chip_cpus(*c).len()).sum();
            prop_assert_eq!(by_chip, t.cpus().len());
            for p in t.processors() {
                prop_assert!(t.siblings(p.id).contains(p.id));
                prop_assert_eq!(t.siblings(p.id).len(), strands as usize);
                prop_assert_eq!(t.distance(p.lgroup, p.lgroup), Some(10));
            }
            let json = serde_json::to_string(&t).unwrap();
            prop_assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), t);
        }

        #[test]
        fn the_order_of_description_does_not_matter(seed in any::<u64>()) {
            let (mut processors, mut groups) = regular(2, 2, 2);
            let want = Topology::new(processors.clone(), vec![], groups.clone()).unwrap();
            processors.rotate_left((seed % 8) as usize);
            groups.rotate_left((seed % 2) as usize);
            prop_assert_eq!(Topology::new(processors, vec![], groups).unwrap(), want);
        }
    }

    #[test]
    fn lgroups_may_share_cpus() {
        let (processors, mut groups) = regular(2, 2, 1);
        groups.iter_mut().for_each(|group| group.cpus = "0-3".parse().unwrap());
        let t = Topology::new(processors, vec![], groups).unwrap();
        assert_eq!(t.lgroups().iter().map(|l| l.cpus.len()).collect::<Vec<_>>(), [4, 4]);
    }

    #[test]
    fn contradictions_are_refused() {
        let (mut processors, groups) = regular(2, 2, 1);
        assert_eq!(Topology::new(vec![], vec![], groups.clone()), Err(TopologyError::Empty));
        processors[1].core = CoreId(2);
        assert_eq!(
            Topology::new(processors.clone(), vec![], groups.clone()),
            Err(TopologyError::SplitCore(CoreId(2)))
        );
        let (mut processors, mut groups) = regular(2, 2, 1);
        let stray = processors.pop().unwrap().id;
        assert_eq!(
            Topology::new(processors.clone(), vec![], groups.clone()),
            Err(TopologyError::Lgroup { cpu: stray, lgroup: LgrpId(1) })
        );
        processors[0].lgroup = LgrpId(1);
        assert!(matches!(
            Topology::new(processors, vec![], groups.clone()),
            Err(TopologyError::Lgroup { cpu: CpuId(0), .. })
        ));
        groups[1].distances.pop();
        let (processors, _) = regular(2, 2, 1);
        assert!(matches!(
            Topology::new(processors, vec![], groups),
            Err(TopologyError::Distances { given: 1, wanted: 2, .. })
        ));
    }
}
