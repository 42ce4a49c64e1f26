//! The topology of a machine file: CPUs, caches and memory.

use super::{CHIPS_MAX, Description, PROCESSORS_MAX, Wrong};
use millpond_model::{
    CPU_MAX, Cache, CacheKind, ChipId, Core, CoreId, CoreKind, CpuId, CpuSet, Lgroup, LgrpId, Processor,
    Topology,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Numbering {
    #[default]
    CoreMajor,
    StrandMajor,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheDescription {
    pub level: u32,
    pub kind: CacheKind,
    pub size_kib: Option<u64>,
    pub shared_by: Sharing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sharing {
    Core,
    Chip,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LgroupDescription {
    chips: Vec<u32>,
    memory_kib: Option<u64>,
}

/// The strands of a core, by number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CoreDescription {
    chip: u32,
    strands: Vec<u32>,
}

/// Boards: groups of chips with common memory.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoardDescription {
    chips: u32,
    memory_kib: Option<u64>,
}

/// A core: its chip and its strands.
type Stand = (u32, Vec<u32>);

pub(super) fn topology(d: &Description) -> Result<Topology, Wrong> {
    let cores = if d.cores.is_empty() { counted(d)? } else { named(d)? };
    let chips = cores.iter().map(|(chip, _)| chip.saturating_add(1)).max().unwrap_or(0);
    if chips > CHIPS_MAX {
        let place = if d.cores.is_empty() { "chips" } else { "cores" };
        return Err((place, format!("there are {chips} chips; 1 to {CHIPS_MAX} are possible")));
    }
    let groups = groups(d, chips)?;
    let lgroup_of = lgroup_of_chip(&groups, chips)?;
    let mut processors = Vec::new();
    for ((chip, strands), core) in cores.iter().zip(0u32..) {
        for id in strands {
            processors.push(Processor {
                id: CpuId(*id),
                core: CoreId(core),
                chip: ChipId(*chip),
                lgroup: lgroup_of[*chip as usize],
                kind: CoreKind::Uniform,
                isa: d.processor.isa.clone(),
                clock_mhz: d.processor.clock_mhz,
                fpu: d.processor.fpu.clone(),
                implementation: d.processor.implementation.replace("{chip}", &chip.to_string()),
                brand: d.processor.brand.clone(),
            });
        }
    }
    let (caches, lgroups) = (caches(d, &processors), lgroups(d, &groups, &processors));
    let place = if d.distances.is_empty() { "lgroups" } else { "distances" };
    let topology = Topology::new(processors, caches, lgroups).map_err(|error| (place, error.to_string()))?;
    match d.pipeline {
        Some(pipeline) if pipeline.strands > 0 => {
            let shared = pipelines(&topology, pipeline.strands as usize);
            Ok(topology.with_pipelines(shared))
        }
        _ => Ok(topology),
    }
}

/// The strands of each pipeline, in the order of their cores.
fn pipelines(topology: &Topology, strands: usize) -> Vec<CpuSet> {
    let of_core = |core: Core| {
        let cpus: Vec<CpuId> = core.cpus.iter().collect();
        cpus.chunks(strands).map(|cpus| cpus.iter().copied().collect()).collect::<Vec<CpuSet>>()
    };
    topology.cores().into_iter().flat_map(of_core).collect()
}

/// Cores from the numbers of chips, cores and strands.
fn counted(d: &Description) -> Result<Vec<Stand>, Wrong> {
    let count = u64::from(d.chips) * u64::from(d.cores_per_chip);
    let count = count.saturating_mul(u64::from(d.strands_per_core));
    if count == 0 {
        let given = [
            ("chips", d.chips),
            ("cores_per_chip", d.cores_per_chip),
            ("strands_per_core", d.strands_per_core),
        ];
        let key = given.into_iter().find(|(_, number)| *number > 0).map_or("name", |(key, _)| key);
        let what = format!(
            "{} chips of {} cores of {} strands are no CPUs: chips, cores_per_chip and strands_per_core are all needed, or cores",
            d.chips, d.cores_per_chip, d.strands_per_core
        );
        return Err((key, what));
    }
    if count > u64::from(PROCESSORS_MAX) {
        let what = format!("chips, cores and strands make {count} CPUs; 1 to {PROCESSORS_MAX} are possible");
        return Err(("chips", what));
    }
    let cores = d.chips * d.cores_per_chip;
    let strands = |core: u32| {
        let number = |strand: u32| match d.numbering {
            Numbering::CoreMajor => core * d.strands_per_core + strand,
            Numbering::StrandMajor => strand * cores + core,
        };
        (0..d.strands_per_core).map(number).collect()
    };
    Ok((0..cores).map(|core| (core / d.cores_per_chip, strands(core))).collect())
}

/// Cores from an explicit list of strands.
fn named(d: &Description) -> Result<Vec<Stand>, Wrong> {
    if (d.chips, d.cores_per_chip, d.strands_per_core) != (0, 0, 0) {
        let what = "the file names every core, and says how many chips, cores or strands there are beside that; leave one of the two out";
        return Err(("cores", what.into()));
    }
    let count = d.cores.iter().map(|core| core.strands.len() as u64).sum::<u64>();
    if count > u64::from(PROCESSORS_MAX) {
        let what = format!("the cores have {count} CPUs; 1 to {PROCESSORS_MAX} are possible");
        return Err(("cores", what));
    }
    let mut seen = BTreeMap::new();
    for (core, number) in d.cores.iter().zip(0u32..) {
        if core.strands.is_empty() {
            return Err(("cores", format!("core {number} has no strand; name one, or leave the core out")));
        }
        for strand in &core.strands {
            if *strand > CPU_MAX {
                let what =
                    format!("core {number} has a strand {strand}; strands are numbered up to {CPU_MAX}");
                return Err(("cores", what));
            }
            if let Some(other) = seen.insert(*strand, number) {
                let what = if other == number {
                    format!("strand {strand} is in core {number} twice; leave one out")
                } else {
                    format!("strand {strand} is in cores {other} and {number}; leave it out of one of them")
                };
                return Err(("cores", what));
            }
        }
    }
    let chips: BTreeSet<u32> = d.cores.iter().map(|core| core.chip).collect();
    if let Some((chip, missing)) = chips.iter().zip(0u32..).find(|(chip, wanted)| *chip != wanted) {
        let what =
            format!("there is a chip {chip}, and no chip {missing}; chips are numbered from 0 without a gap");
        return Err(("cores", what));
    }
    Ok(d.cores.iter().map(|core| (core.chip, core.strands.clone())).collect())
}

/// The chips of each lgroup; one lgroup for all by default.
fn groups(d: &Description, chips: u32) -> Result<Vec<LgroupDescription>, Wrong> {
    let Some(board) = d.board else {
        let clone =
            |l: &LgroupDescription| LgroupDescription { chips: l.chips.clone(), memory_kib: l.memory_kib };
        return Ok(d.lgroups.iter().map(clone).collect());
    };
    if !d.lgroups.is_empty() {
        return Err((
            "board",
            "the file has board and lgroups, which say the same; leave one of the two out".into(),
        ));
    }
    if board.chips == 0 {
        return Err(("board", "a board has 0 chips; 1 and more are possible".into()));
    }
    let group = |first: u32| LgroupDescription {
        chips: (first..chips.min(first + board.chips)).collect(),
        memory_kib: board.memory_kib,
    };
    Ok((0..chips).step_by(board.chips as usize).map(group).collect())
}

/// The lgroup of each chip; every chip is in exactly one.
fn lgroup_of_chip(groups: &[LgroupDescription], chips: u32) -> Result<Vec<LgrpId>, Wrong> {
    if groups.is_empty() {
        return Ok(vec![LgrpId(0); chips as usize]);
    }
    let mut of: Vec<Option<LgrpId>> = vec![None; chips as usize];
    for (group, id) in groups.iter().zip((0u32..).map(LgrpId)) {
        for chip in &group.chips {
            match of.get_mut(*chip as usize) {
                None => {
                    return Err((
                        "lgroups",
                        format!("lgroup {id} has chip {chip}, and there are chips 0 to {}", chips - 1),
                    ));
                }
                Some(Some(other)) => {
                    return Err((
                        "lgroups",
                        format!("chip {chip} is in lgroups {other} and {id}; leave it out of one of them"),
                    ));
                }
                Some(slot) => *slot = Some(id),
            }
        }
    }
    of.into_iter()
        .zip(0u32..)
        .map(|(id, chip)| {
            id.ok_or_else(|| ("lgroups", format!("chip {chip} is in no lgroup; add it to one")))
        })
        .collect()
}

fn caches(d: &Description, processors: &[Processor]) -> Vec<Cache> {
    let mut caches = Vec::new();
    for (index, c) in d.caches.iter().enumerate() {
        // Ignore a cache that is described twice.
        if d.caches[..index].contains(c) {
            continue;
        }
        let mut sharers: BTreeMap<u32, CpuSet> = BTreeMap::new();
        for p in processors {
            let by = match c.shared_by {
                Sharing::Core => p.core.0,
                Sharing::Chip => p.chip.0,
            };
            sharers.entry(by).or_default().insert(p.id);
        }
        let cache = |cpus| Cache { level: c.level, kind: c.kind, size_kib: c.size_kib, cpus };
        caches.extend(sharers.into_values().map(cache));
    }
    caches
}

fn lgroups(d: &Description, groups: &[LgroupDescription], processors: &[Processor]) -> Vec<Lgroup> {
    let cpus = |id| processors.iter().filter(|p| p.lgroup == id).map(|p| p.id).collect::<CpuSet>();
    if groups.is_empty() {
        return vec![Lgroup::only(cpus(LgrpId(0)))];
    }
    let distances = |id: LgrpId| match d.board {
        Some(_) => Lgroup::even_distances(id.0 as usize, groups.len()),
        None => d.distances.get(id.0 as usize).cloned().unwrap_or_default(),
    };
    let group = |(group, id): (&LgroupDescription, LgrpId)| Lgroup {
        id,
        cpus: cpus(id),
        distances: distances(id),
        memory_kib: group.memory_kib,
    };
    groups.iter().zip((0u32..).map(LgrpId)).map(group).collect()
}
