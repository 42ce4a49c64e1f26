//! Chooses cores for a fence or for a new set.
//!
//! A core that the system, a set or another program uses is never taken. The others are ordered by these rules:
//!
//! 1. Performance cores before the efficiency cores of a hybrid machine. Cores that the caller prefers to keep (`last`) come last.
//! 2. Cores that share as much as possible: an L2 cache with enough free cores, else an L3 cache, else a locality group.
//! 3. Of several such places, the one with the fewest free cores. This keeps large free places for later requests.
//! 4. The highest CPU numbers: programs and interrupts with a fixed CPU number usually have a low one.
//!
//! If no locality group has enough free cores, the cores come from as few groups as possible, and of these from the closest ones. The
//! groups with the most free cores are taken whole.

use millpond_model::{CacheKind, CoreKind, CpuId, CpuSet, Lgroup, LgrpId, Topology};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A request for cores.
#[derive(Debug, Clone, Copy)]
pub struct CoreWish<'a> {
    /// The number of cores.
    pub count: usize,
    /// The machine.
    pub topology: &'a Topology,
    /// The on-line CPUs.
    pub online: &'a CpuSet,
    /// Cores with one of these CPUs are not taken.
    pub taken: &'a CpuSet,
    /// Cores with one of these CPUs are taken only if there are not enough others.
    pub last: &'a CpuSet,
    /// If set, only cores of these CPUs are taken.
    pub near: Option<&'a CpuSet>,
}

/// The chosen cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenCores {
    /// The on-line CPUs of each core, ascending.
    pub cores: Vec<CpuSet>,
    /// The innermost place that contains all of them.
    pub place: CorePlace,
}

/// The innermost place that contains all chosen cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorePlace {
    /// A cache of this level, on a machine with several such caches.
    Cache(u32),
    /// One of several locality groups.
    Lgroup(LgrpId),
    /// Several locality groups: their number.
    Lgroups(usize),
    /// Only the machine.
    Machine,
}

/// A free core.
#[derive(Debug, Clone)]
struct Candidate {
    cpus: CpuSet,
    lowest: CpuId,
    rank: (bool, bool),
    /// The places that contain it, outermost first: its locality group, then a cache for each level.
    places: Vec<Option<usize>>,
}

/// Chooses cores.
///
/// # Errors
/// The number of free cores, if it is below the requested count.
pub fn choose_cores(wish: &CoreWish<'_>) -> Result<ChosenCores, usize> {
    let (free, levels) = candidates(wish);
    if free.len() < wish.count {
        return Err(free.len());
    }
    let ranks: BTreeSet<(bool, bool)> = free.iter().map(|core| core.rank).collect();
    let mut chosen: Vec<&Candidate> = Vec::new();
    for rank in ranks {
        let equals: Vec<&Candidate> = free.iter().filter(|core| core.rank == rank).collect();
        let most = (wish.count - chosen.len()).min(equals.len());
        let equals = of_closest(equals, most, &chosen, wish.topology);
        take(equals, most, &mut chosen);
    }
    chosen.sort_by_key(|core| core.lowest);
    let place = place(&chosen, &levels, wish.topology);
    Ok(ChosenCores { cores: chosen.iter().map(|core| core.cpus.clone()).collect(), place })
}

/// The free cores, and the cache levels among their places.
fn candidates(wish: &CoreWish<'_>) -> (Vec<Candidate>, Vec<u32>) {
    let topology = wish.topology;
    let frugal: CpuSet =
        topology.processors().iter().filter(|p| p.kind == CoreKind::Efficiency).map(|p| p.id).collect();
    let is_data = |kind| matches!(kind, CacheKind::Unified | CacheKind::Data);
    let mut by_level: BTreeMap<Reverse<u32>, BTreeMap<CpuId, usize>> = BTreeMap::new();
    for (at, cache) in topology.caches().iter().enumerate() {
        if cache.level > 1 && is_data(cache.kind) {
            let of = by_level.entry(Reverse(cache.level)).or_default();
            for cpu in cache.cpus.iter() {
                of.entry(cpu).or_insert(at);
            }
        }
    }
    // A cache that is private to each core does not group cores.
    by_level.retain(|_, of| {
        let core = |cpu: &CpuId| topology.processor(*cpu).map(|p| p.core);
        let in_core: BTreeMap<usize, _> = of.iter().map(|(cpu, at)| (*at, core(cpu))).collect();
        of.iter().any(|(cpu, at)| in_core[at] != core(cpu))
    });
    let places = |cpu: CpuId| {
        let lgroup = topology.processor(cpu).map(|p| usize::try_from(p.lgroup.0).unwrap_or(usize::MAX));
        std::iter::once(lgroup).chain(by_level.values().map(|of| of.get(&cpu).copied())).collect()
    };
    let first = wish.online.lowest();
    let free = topology.cores().into_iter().filter_map(|core| {
        let cpus = &core.cpus & wish.online;
        let lowest = cpus.lowest()?;
        // The core of the lowest CPU stays with the system.
        let is_first = first.is_some_and(|first| cpus.contains(first));
        let is_near = wish.near.is_none_or(|near| cpus.is_subset(near));
        let is_free = !is_first && is_near && cpus.is_disjoint(wish.taken);
        let rank = (!cpus.is_disjoint(wish.last), !cpus.is_disjoint(&frugal));
        is_free.then(|| Candidate { lowest, rank, places: places(lowest), cpus })
    });
    (free.collect(), by_level.into_keys().map(|Reverse(level)| level).collect())
}

/// The cores of each place at a depth, keyed by the path of enclosing places. Cores without a place share one entry.
fn by_place<'c>(cores: &[&'c Candidate], depth: usize) -> BTreeMap<&'c [Option<usize>], Vec<&'c Candidate>> {
    let mut places: BTreeMap<_, Vec<&Candidate>> = BTreeMap::new();
    for core in cores {
        places.entry(&core.places[..=depth]).or_default().push(core);
    }
    places
}

/// The free cores of locality groups, by group number, and the distances between groups.
struct Lgroups<'c> {
    free: BTreeMap<usize, Vec<&'c Candidate>>,
    distances: BTreeMap<(usize, usize), u64>,
}

impl Lgroups<'_> {
    /// The number of free cores of a group, and its lowest one.
    fn size(&self, lgroup: usize) -> (usize, Option<CpuId>) {
        let free = self.free.get(&lgroup).map(Vec::as_slice).unwrap_or_default();
        (free.len(), free.first().map(|core| core.lowest))
    }

    fn distance(&self, from: usize, to: &[usize]) -> u64 {
        to.iter().filter_map(|to| self.distances.get(&(from, *to))).sum()
    }

    /// Adds locality groups until they have enough cores: each time the closest one, or the one with the most cores. A group that has all the
    /// missing cores ends the search.
    fn reach(&self, mut all: Vec<usize>, mut count: usize, is_closest_first: bool) -> Vec<usize> {
        let mut others: Vec<usize> = self.free.keys().copied().filter(|id| !all.contains(id)).collect();
        count -= all.iter().map(|id| self.size(*id).0).sum::<usize>().min(count);
        while count > 0 && !others.is_empty() {
            let key = |id: &usize| {
                let ((size, lowest), distance) = (self.size(*id), self.distance(*id, &all));
                let has_all = size >= count;
                // Among groups with enough cores the smallest, among others the largest.
                let by_size = if has_all { (0, size) } else { (1, usize::MAX - size) };
                let far = if is_closest_first { distance } else { 0 };
                let apart = if has_all { distance } else { 0 };
                (far, by_size.0, apart, by_size.1, distance, Reverse(lowest))
            };
            let Some(next) = others.iter().copied().min_by_key(key) else { break };
            others.retain(|id| *id != next);
            count -= self.size(next).0.min(count);
            all.push(next);
        }
        all
    }

    /// The number of locality groups, and the sum of the distances between them.
    fn cost(&self, all: &[usize]) -> (usize, u64) {
        (all.len(), all.iter().map(|id| self.distance(*id, all)).sum())
    }
}

/// The cores of the locality groups to take `count` cores from. Used if no group has enough, or if some cores are `chosen` already.
fn of_closest<'c>(
    mut cores: Vec<&'c Candidate>,
    count: usize,
    chosen: &[&Candidate],
    topology: &Topology,
) -> Vec<&'c Candidate> {
    let mut free: BTreeMap<usize, Vec<&Candidate>> = BTreeMap::new();
    for core in &cores {
        // Cores without a locality group stay as they are.
        let Some(lgroup) = core.places[0] else { return cores };
        free.entry(lgroup).or_default().push(core);
    }
    let anchors: BTreeSet<usize> = chosen.iter().filter_map(|core| core.places[0]).collect();
    if free.len() < 2 || (anchors.is_empty() && free.values().any(|cores| cores.len() >= count)) {
        return cores;
    }
    let number = |lgroup: LgrpId| usize::try_from(lgroup.0).unwrap_or(usize::MAX);
    let numbers: Vec<usize> = topology.lgroups().iter().map(|lgroup| number(lgroup.id)).collect();
    let row = |lgroup: &Lgroup| {
        let from = number(lgroup.id);
        let row = numbers.iter().zip(&lgroup.distances);
        row.map(|(to, distance)| ((from, *to), u64::from(*distance))).collect::<Vec<_>>()
    };
    let lgroups = Lgroups { free, distances: topology.lgroups().iter().flat_map(row).collect() };
    let mut starts: Vec<Vec<usize>> = match anchors.is_empty() {
        true => lgroups.free.keys().map(|id| vec![*id]).collect(),
        false => vec![anchors.into_iter().collect()],
    };
    // Of equally good results the first one is kept.
    starts.sort_by_key(|start| Reverse(start.first().map(|id| lgroups.size(*id))));
    let ways = starts.into_iter().flat_map(|start| {
        [false, true].map(|is_closest_first| lgroups.reach(start.clone(), count, is_closest_first))
    });
    let best = ways.min_by_key(|way| lgroups.cost(way)).unwrap_or_default();
    cores.retain(|core| core.places[0].is_some_and(|lgroup| best.contains(&lgroup)));
    cores
}

/// Takes cores of the innermost place that has enough. If no inner place has, its largest inner places are taken whole first.
fn take<'c>(mut cores: Vec<&'c Candidate>, mut count: usize, chosen: &mut Vec<&'c Candidate>) {
    let depths = cores.first().map_or(0, |core| core.places.len());
    loop {
        let (mut place, depth) = innermost(cores, count, depths);
        place.sort_by_key(|core| core.lowest);
        if count == place.len() || depth == depths {
            chosen.extend(place.split_off(place.len() - count));
            return;
        }
        let mut inside: Vec<Vec<&Candidate>> = by_place(&place, depth).into_values().collect();
        inside.sort_by_key(|place| (place.len(), place.first().map(|core| core.lowest)));
        while let Some(largest) = inside.pop_if(|largest| largest.len() < count) {
            count -= largest.len();
            chosen.extend(largest);
        }
        cores = inside.into_iter().flatten().collect();
    }
}

/// The cores of the innermost place with at least `count` cores, and the depth of the places inside it; all cores if there is no such
/// place. Of several places it is the one with the fewest cores, then the one whose enclosing place has the fewest.
fn innermost(cores: Vec<&Candidate>, count: usize, depths: usize) -> (Vec<&Candidate>, usize) {
    let levels: Vec<_> = (0..depths).map(|depth| by_place(&cores, depth)).collect();
    for depth in (0..depths).rev() {
        let sizes = |key: &[Option<usize>]| -> Vec<usize> {
            (0..=depth).rev().map(|outer| levels[outer][&key[..=outer]].len()).collect()
        };
        let fits = levels[depth].iter().filter(|(_, place)| place.len() >= count);
        // Cores without such a cache share nothing at this level.
        let best = fits.min_by_key(|(key, place)| {
            (key[depth].is_none(), sizes(key), place.first().map(|core| Reverse(core.lowest)))
        });
        if let Some((_, place)) = best {
            return (place.clone(), depth + 1);
        }
    }
    (cores, 0)
}

/// The innermost place of all chosen cores, if the machine has several places of its kind.
fn place(chosen: &[&Candidate], levels: &[u32], topology: &Topology) -> CorePlace {
    let common = |depth: usize| -> Option<usize> {
        let places: BTreeSet<_> = chosen.iter().map(|core| core.places[depth]).collect();
        if places.len() == 1 { places.first().copied().flatten() } else { None }
    };
    let lgroups: BTreeSet<LgrpId> = topology.processors().iter().map(|p| p.lgroup).collect();
    // A cache that all CPUs of the machine share does not distinguish cores.
    let is_one_of_several = |level: u32, cache: usize| {
        let shared = &topology.caches()[cache].cpus;
        topology.caches().iter().any(|other| other.level == level && other.cpus.is_disjoint(shared))
    };
    for (at, level) in levels.iter().enumerate().rev().filter(|_| chosen.len() > 1) {
        if common(at + 1).is_some_and(|cache| is_one_of_several(*level, cache)) {
            return CorePlace::Cache(*level);
        }
    }
    let used: BTreeSet<_> = chosen.iter().map(|core| core.places[0]).collect();
    match common(0).and_then(|id| u32::try_from(id).ok()) {
        Some(id) if lgroups.len() > 1 => CorePlace::Lgroup(LgrpId(id)),
        None if used.len() > 1 => CorePlace::Lgroups(used.len()),
        _ => CorePlace::Machine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Cache, ChipId, CoreId, Lgroup, Processor};
    use proptest::prelude::*;

    /// A machine: cores as lists of CPUs, with `e` for efficiency cores; `;` between L2 caches, `|` between L3 caches, `/` between lgroups.
    fn machine(text: &str) -> Topology {
        let (mut processors, mut caches, mut lgroups) = (Vec::new(), Vec::new(), Vec::new());
        let cores = |part: &str| -> Vec<(CpuSet, bool)> {
            let words = part.split([' ', ';', '|']).filter(|word| !word.is_empty());
            words.map(|word| (word.trim_end_matches('e').parse().unwrap(), word.ends_with('e'))).collect()
        };
        let cpus = |part: &str| cores(part).iter().fold(CpuSet::new(), |all, (core, _)| &all | core);
        let cache = |level, cpus| Cache { level, kind: CacheKind::Unified, size_kib: None, cpus };
        let count = text.split('/').count();
        for (at, lgroup) in text.split('/').enumerate() {
            let id = LgrpId(u32::try_from(at).unwrap());
            let distances = Lgroup::even_distances(at, count);
            lgroups.push(Lgroup { id, cpus: cpus(lgroup), distances, memory_kib: None });
            if text.contains('|') {
                caches.extend(lgroup.split('|').map(|part| cache(3, cpus(part))));
            }
            if text.contains(';') {
                caches.extend(lgroup.split(['|', ';']).map(|part| cache(2, cpus(part))));
            }
            for (core, is_frugal) in cores(lgroup) {
                let kind = if is_frugal { CoreKind::Efficiency } else { CoreKind::Performance };
                processors.extend(core.iter().map(|cpu| Processor {
                    id: cpu,
                    core: CoreId(core.lowest().unwrap().0),
                    chip: ChipId(id.0),
                    lgroup: id,
                    kind: if text.contains('e') { kind } else { CoreKind::Uniform },
                    isa: String::new(),
                    clock_mhz: None,
                    fpu: None,
                    implementation: String::new(),
                    brand: String::new(),
                }));
            }
        }
        Topology::new(processors, caches, lgroups).unwrap()
    }

    fn list(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    /// The chosen cores and their common place, or the number of free cores. The lists: off-line, taken, last.
    fn choose(text: &str, count: usize, [off, taken, last]: [&str; 3]) -> String {
        let topology = machine(text);
        let online = &topology.cpus() - &list(off);
        let (taken, last) = (list(taken), list(last));
        let wish =
            CoreWish { count, topology: &topology, online: &online, taken: &taken, last: &last, near: None };
        match choose_cores(&wish) {
            Ok(chosen) => {
                let cores: Vec<String> = chosen.cores.iter().map(ToString::to_string).collect();
                format!("{}: {:?}", cores.join(" "), chosen.place)
            }
            Err(free) => format!("{free} free"),
        }
    }

    const NONE: [&str; 3] = ["", "", ""];

    #[test]
    fn the_highest_cores_are_taken_and_never_the_first() {
        assert_eq!(choose("0 1 2 3", 2, NONE), "2 3: Machine");
        assert_eq!(choose("0-1 2-3 4-5", 2, NONE), "2-3 4-5: Machine");
        assert_eq!(choose("0-1 2-3 4-5", 3, NONE), "2 free");
        assert_eq!(choose("0-1 2-3 4-5", 1, ["0,4", "", ""]), "5: Machine", "its strand that is on-line");
        assert_eq!(choose("0-1 2-3 4-5", 1, ["0-1", "", ""]), "4-5: Machine");
        assert_eq!(choose("0-1 2-3 4-5", 2, ["0-1", "", ""]), "1 free", "the core of CPU 2 is the first");
    }

    #[test]
    fn a_cache_with_just_so_many_free_cores_comes_first() {
        assert_eq!(choose("0 1 2 3 | 4 5 | 6 7 8", 2, NONE), "4 5: Cache(3)");
        assert_eq!(choose("0 1 2 3 | 4 5 | 6 7 8", 3, NONE), "6 7 8: Cache(3)");
        assert_eq!(choose("0 1; 2 3 | 4 5; 6 7", 2, NONE), "2 3: Cache(2)", "the other L3 cache keeps four");
        assert_eq!(choose("0 1; 2 3 | 4 5; 6 7", 2, ["", "7", ""]), "4 5: Cache(2)");
        assert_eq!(choose("0 1; 2 3 | 4 5; 6 7", 3, NONE), "1 2 3: Cache(3)");
        assert_eq!(choose("0 1; 2 3 | 4 5; 6 7", 1, NONE), "1: Machine", "two whole caches are left");
    }

    #[test]
    fn an_lgroup_that_has_so_many_comes_before_several() {
        assert_eq!(choose("0 1 / 2 3", 2, NONE), "2 3: Lgroup(LgrpId(1))");
        assert_eq!(choose("0 1 2 | 3 4 5 / 6 7 | 8 9", 3, NONE), "3 4 5: Cache(3)");
        assert_eq!(choose("0 1 2 | 3 4 5 / 6 7 | 8 9", 4, NONE), "6 7 8 9: Lgroup(LgrpId(1))");
        assert_eq!(choose("0 1 / 2 3 / 4 5", 3, NONE), "1 4 5: Lgroups(2)");
        assert_eq!(choose("0 1 / 2 3 / 4 5", 4, NONE), "2 3 4 5: Lgroups(2)");
    }

    /// Two chips of two lgroups each; the lgroups of a chip are close to each other.
    fn chips(text: &str) -> Topology {
        let topology = machine(text);
        let mut lgroups = topology.lgroups().to_vec();
        for (at, lgroup) in lgroups.iter_mut().enumerate() {
            let distance = |to: usize| match (at == to, at / 2 == to / 2) {
                (true, _) => 10,
                (_, true) => 12,
                _ => 32,
            };
            lgroup.distances = (0..4).map(distance).collect();
        }
        Topology::new(topology.processors().to_vec(), topology.caches().to_vec(), lgroups).unwrap()
    }

    #[test]
    fn of_several_lgroups_the_closest_are_taken() {
        let choose = |text: &str, count: usize, [taken, last]: [&str; 2]| {
            let topology = chips(text);
            let (online, taken, last) = (topology.cpus(), list(taken), list(last));
            let wish = CoreWish {
                count,
                topology: &topology,
                online: &online,
                taken: &taken,
                last: &last,
                near: None,
            };
            let chosen = choose_cores(&wish).unwrap();
            let cores: Vec<String> = chosen.cores.iter().map(ToString::to_string).collect();
            format!("{}: {:?}", cores.join(" "), chosen.place)
        };
        let four = "0 1 2 / 3 4 5 / 6 7 8 / 9 10 11";
        assert_eq!(choose(four, 5, ["", ""]), "7 8 9 10 11: Lgroups(2)", "lgroup 0 has two, but is far");
        assert_eq!(choose(four, 5, ["9-10", ""]), "1 2 3 4 5: Lgroups(2)", "a pair that is close");
        assert_eq!(choose(four, 6, ["9-10", ""]), "3 4 5 6 7 8: Lgroups(2)", "two lgroups before three");
        // The first choice comes from one lgroup; the remaining core comes from the adjacent one.
        assert_eq!(choose("0 1 / 2 3 / 4 5 / 6 7", 3, ["1-2", "3-5"]), "5 6 7: Lgroups(2)");
    }

    #[test]
    fn fast_cores_come_before_frugal_ones_and_those_to_be_left_come_last() {
        let hybrid = "0-1 2-3 4-5 6e 7e 8e 9e";
        assert_eq!(choose(hybrid, 2, NONE), "2-3 4-5: Machine");
        assert_eq!(choose(hybrid, 3, NONE), "2-3 4-5 9: Machine");
        assert_eq!(choose(hybrid, 1, ["", "4-5", ""]), "2-3: Machine");
        assert_eq!(choose(hybrid, 2, ["", "2-5", "9"]), "7 8: Machine");
        assert_eq!(choose("0 1 2 3", 2, ["", "", "2-3"]), "1 3: Machine");
        assert_eq!(choose("0 1 2 3", 1, ["", "", "3"]), "2: Machine");
    }

    #[test]
    fn near_a_device_only_its_cpus_are_taken() {
        let topology = machine("0 1 2 3 / 4 5 6 7");
        let (online, none, near) = (topology.cpus(), CpuSet::new(), list("0-3"));
        let wish = |count| CoreWish {
            count,
            topology: &topology,
            online: &online,
            taken: &none,
            last: &none,
            near: Some(&near),
        };
        assert_eq!(choose_cores(&wish(2)).unwrap().cores, [list("2"), list("3")]);
        assert_eq!(choose_cores(&wish(4)), Err(3));
    }

    #[test]
    fn cores_without_a_cache_that_others_share_are_chosen_too() {
        let whole = machine("0 1 | 2 3 4 5");
        let caches = whole.caches().iter().take(1).cloned().collect();
        let topology = Topology::new(whole.processors().to_vec(), caches, whole.lgroups().to_vec()).unwrap();
        let (online, none) = (topology.cpus(), CpuSet::new());
        let chosen = |count| {
            let wish = CoreWish {
                count,
                topology: &topology,
                online: &online,
                taken: &none,
                last: &none,
                near: None,
            };
            choose_cores(&wish).unwrap().cores.iter().fold(CpuSet::new(), |all, core| &all | core).to_string()
        };
        assert_eq!([2, 4, 5].map(chosen), ["4-5", "2-5", "1-5"]);
    }

    #[test]
    fn thousands_of_cores_are_chosen_one_place_after_another() {
        let cores: Vec<String> = (0..4_096).map(|core| format!("{}-{}", 2 * core, 2 * core + 1)).collect();
        let pairs: Vec<String> = cores.chunks(2).map(|pair| pair.join(" ")).collect();
        let text = pairs.join(";");
        assert!(choose(&text, 4_000, NONE).ends_with(" 8190-8191: Machine"));
    }

    proptest! {
        #[test]
        fn as_many_free_cores_as_were_wanted_in_one_place_where_one_has_them(
            count in 1usize..9, taken in proptest::collection::btree_set(0u32..16, 0..8)
        ) {
            let topology = machine("0 1; 2 3 | 4 5; 6 7 / 8 9; 10 11 | 12 13; 14 15");
            let taken: CpuSet = taken.into_iter().map(CpuId).collect();
            let (online, last) = (topology.cpus(), CpuSet::new());
            let wish =
                CoreWish { count, topology: &topology, online: &online, taken: &taken, last: &last, near: None };
            let free = &(&online - &taken) - &list("0");
            match choose_cores(&wish) {
                Err(found) => prop_assert!(found == free.len() && found < count),
                Ok(chosen) => {
                    let cpus = chosen.cores.iter().fold(CpuSet::new(), |all, core| &all | core);
                    prop_assert_eq!(cpus.len(), count);
                    prop_assert!(cpus.is_subset(&free));
                    // From the smallest place to the largest: the first size with enough free cores holds all chosen cores.
                    for each in [2, 4, 8] {
                        let places: Vec<CpuSet> =
                            (0..16 / each).map(|at| (at * each..(at + 1) * each).map(CpuId).collect()).collect();
                        if places.iter().any(|place| (place & &free).len() >= count) {
                            prop_assert!(places.iter().any(|place| cpus.is_subset(place)), "{cpus} of {free}");
                            break;
                        }
                    }
                }
            }
        }
    }
}
