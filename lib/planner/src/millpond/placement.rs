//! Chooses the CPUs that move: by their position in the topology, and by the set that had them last.
//!
//! The number of CPUs from one set to another is given. First a locality group is chosen: for a tight receiver a group that it is already
//! in, for a loose one a group that it is not in; the reverse for the donor. A set without a locality objective counts as slightly tight,
//! because nearby CPUs are cheaper. Within a group, cores stay whole: first strands whose siblings the receiver has, then whole cores, then
//! strands of cores that are already shared with other sets. A whole core is split only if nothing else is left. Of equal CPUs, those that
//! left the receiver most recently come first (its data may still be cached there), then idle ones.

use crate::convert::real;
use crate::{Frame, SetFrame};
use millpond_model::pools::{Locality, Objective};
use millpond_model::{CpuId, Move, Nanos, PsetId};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// No set, core or group, or an unknown one.
const NONE: usize = usize::MAX;

/// The distance of a locality group to itself.
const LOCAL: f64 = 10.0;

/// The tightness of a set without a locality objective; 1 is that of a tight set.
const BY_HABIT: f64 = 0.5;

/// The previous set of a CPU, and when the CPU left it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Left {
    pub set: PsetId,
    pub at: Nanos,
}

/// The positions of CPUs and their sets, updated by moves.
pub(super) struct Placement<'f> {
    frame: &'f Frame,
    /// By CPU number: the index of its set; [`NONE`] for off-line CPUs.
    owner: Vec<usize>,
    /// By CPU number: whether it may be moved.
    is_free: Vec<bool>,
    /// By CPU number: its locality group.
    group: Vec<usize>,
    /// By CPU number: its core.
    core: Vec<usize>,
    /// On-line strands of each core.
    strands: Vec<Vec<CpuId>>,
    /// By set, then group: the number of CPUs.
    counts: Vec<Vec<usize>>,
    /// On-line CPUs of each group. The last entry is for CPUs without a group.
    sizes: Vec<usize>,
    /// By set: 1 tight, -1 loose.
    lean: Vec<f64>,
}

/// Strands of one core that are in one set.
struct Unit {
    cpus: Vec<CpuId>,
    order: (u8, Reverse<Nanos>, bool, CpuId),
}

fn at(cpu: CpuId) -> usize {
    usize::try_from(cpu.0).unwrap_or(NONE)
}

fn lean(set: &SetFrame) -> f64 {
    let mut asked = set.objectives.iter().filter_map(|weighted| match weighted.objective {
        Objective::Locality(locality) => Some(locality),
        Objective::WtLoad | Objective::Utilization(..) => None,
    });
    match asked.next_back() {
        Some(Locality::Tight) => 1.0,
        Some(Locality::Loose) => -1.0,
        Some(Locality::None) => 0.0,
        None => BY_HABIT,
    }
}

impl<'f> Placement<'f> {
    /// The positions in a frame. `may_move` selects the CPUs that may be moved; pinned ones never are.
    pub fn new(frame: &'f Frame, may_move: impl Fn(CpuId) -> bool) -> Placement<'f> {
        let places = &frame.places;
        let highest = frame.sets.iter().filter_map(|set| set.cpus.highest()).max();
        let width = highest.map_or(0, |cpu| at(cpu) + 1);
        let last = places.lgroups.len();
        let mut placement = Placement {
            frame,
            owner: vec![NONE; width],
            is_free: vec![false; width],
            group: vec![last; width],
            core: vec![NONE; width],
            strands: vec![Vec::new(); places.cores.len()],
            counts: vec![vec![0; last + 1]; frame.sets.len()],
            sizes: vec![0; last + 1],
            lean: frame.sets.iter().map(lean).collect(),
        };
        for (index, group) in places.lgroups.iter().enumerate() {
            group.cpus.iter().filter(|cpu| at(*cpu) < width).for_each(|cpu| placement.group[at(cpu)] = index);
        }
        for (index, set) in frame.sets.iter().enumerate() {
            for cpu in set.cpus.iter() {
                let group = placement.group[at(cpu)];
                placement.owner[at(cpu)] = index;
                placement.is_free[at(cpu)] = !set.pinned.contains(cpu) && may_move(cpu);
                placement.counts[index][group] += 1;
                placement.sizes[group] += 1;
            }
        }
        for (index, core) in places.cores.iter().enumerate() {
            for cpu in core.iter().filter(|cpu| at(*cpu) < width && placement.owner[at(*cpu)] != NONE) {
                placement.core[at(cpu)] = index;
                placement.strands[index].push(cpu);
            }
        }
        placement
    }

    /// The number of CPUs of a set that may be moved.
    pub fn free(&self, set: usize) -> usize {
        let cpus = self.frame.sets[set].cpus.iter();
        cpus.filter(|cpu| self.owner[at(*cpu)] == set && self.is_free[at(*cpu)]).count()
    }

    /// The number of its CPUs in groups that the other set is also in.
    pub fn beside(&self, set: usize, other: usize) -> usize {
        let both = self.counts[set].iter().zip(&self.counts[other]);
        both.filter(|(_, other)| **other > 0).map(|(own, _)| *own).sum()
    }

    /// How strongly a set prefers tight (positive) or loose (negative) placement.
    pub fn lean(&self, set: usize) -> f64 {
        self.lean[set]
    }

    /// Moves up to `count` CPUs and returns how many. Adds to `far` their distances beyond local, in tenths.
    pub fn take(
        &mut self,
        (from, to): (usize, usize),
        count: usize,
        left: &BTreeMap<CpuId, Left>,
        moves: &mut Vec<Move>,
        far: &mut f64,
    ) -> usize {
        let mut units = self.units(from, to, left);
        // For a loose set, the best group changes with each core that moves.
        let one_by_one = self.lean[from] < 0.0 || self.lean[to] < 0.0;
        let mut missing = count;
        while missing > 0 {
            let open = (0..units.len()).filter(|group| !units[*group].is_empty());
            let best = open.max_by(|a, b| {
                let scores = (self.score(*a, from, to, missing), self.score(*b, from, to, missing));
                // Of equal groups the first.
                scores.0.total_cmp(&scores.1).then(b.cmp(a))
            });
            let Some(best) = best else { break };
            let mut waiting = std::mem::take(&mut units[best]);
            loop {
                let fits = waiting.iter().rposition(|unit| unit.cpus.len() <= missing);
                let unit = waiting.remove(fits.unwrap_or(waiting.len() - 1));
                let cpus = unit.cpus.iter().take(missing);
                let distance = self.distance(best, to);
                for cpu in cpus {
                    self.owner[at(*cpu)] = to;
                    self.counts[from][best] -= 1;
                    self.counts[to][best] += 1;
                    let (from, to) = (self.frame.sets[from].id, self.frame.sets[to].id);
                    moves.push(Move { cpu: *cpu, from, to });
                    *far += distance / LOCAL;
                    missing -= 1;
                }
                if missing == 0 || waiting.is_empty() || one_by_one {
                    break;
                }
            }
            units[best] = waiting;
        }
        count - missing
    }

    /// The value, for both sets, of taking CPUs from a group when `missing` are still to move.
    fn score(&self, group: usize, from: usize, to: usize, missing: usize) -> f64 {
        let part = |set: usize| real(self.counts[set][group]) / real(self.sizes[group].max(1));
        let near = if self.lean[to] < 0.0 { 0.0 } else { -self.distance(group, to) / (10.0 * LOCAL) };
        let pull = self.lean[to] * part(to) - self.lean[from] * part(from) + near;
        let is_new = self.frame.sets[to].cpus.is_empty() && self.lean[to] > 0.0;
        // A set that has no CPU in any group begins in one that can provide all.
        let enough = real(self.counts[from][group].min(missing)) / real(missing.max(1));
        if is_new { pull + 2.0 * enough } else { pull }
    }

    /// The mean distance of a group to the CPUs of a set; local if the set has none.
    fn distance(&self, group: usize, set: usize) -> f64 {
        let Some(from) = self.frame.places.lgroups.get(group) else { return LOCAL };
        let (mut sum, mut all) = (0.0, 0.0);
        for (other, count) in self.counts[set].iter().enumerate().filter(|(_, count)| **count > 0) {
            let distance = from.distances.get(other).map_or(LOCAL, |distance| f64::from(*distance));
            sum += distance * real(*count);
            all += real(*count);
        }
        if all > 0.0 { sum / all } else { LOCAL }
    }

    /// The units that a set could give to another, by group, best last.
    fn units(&self, from: usize, to: usize, left: &BTreeMap<CpuId, Left>) -> Vec<Vec<Unit>> {
        let set = &self.frame.sets[from];
        let receiver = self.frame.sets[to].id;
        let cpus = set.cpus.iter().filter(|cpu| self.owner[at(*cpu)] == from && self.is_free[at(*cpu)]);
        let mut by_core: Vec<(usize, usize, CpuId)> =
            cpus.map(|cpu| (self.core[at(cpu)], self.group[at(cpu)], cpu)).collect();
        by_core.sort_unstable();
        let mut units: Vec<Vec<Unit>> = self.sizes.iter().map(|_| Vec::new()).collect();
        for run in by_core.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1) && a.0 != NONE) {
            let cpus: Vec<CpuId> = run.iter().map(|(.., cpu)| *cpu).collect();
            let all = self.strands.get(run[0].0).map_or(&cpus[..], |strands| &strands[..]);
            let class = match () {
                () if all.iter().any(|cpu| self.owner[at(*cpu)] == to) => 0,
                () if all.len() == cpus.len() => 1,
                () => 2,
            };
            let was_there =
                |cpu: &CpuId| left.get(cpu).filter(|left| left.set == receiver).map(|left| left.at);
            let recent = cpus.iter().filter_map(was_there).max().unwrap_or_default();
            let is_busy = !cpus.iter().all(|cpu| set.idle.contains(*cpu));
            let order = (class, Reverse(recent), is_busy, cpus[0]);
            units[self.group[at(cpus[0])]].push(Unit { cpus, order });
        }
        units.iter_mut().for_each(|units| units.sort_unstable_by_key(|unit| Reverse(unit.order)));
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LOOSE, TIGHT, frame, places, set, wanting};

    fn took(frame: &Frame, count: usize, left: &[(u32, u32, u64)]) -> Vec<u32> {
        let left =
            left.iter().map(|(cpu, set, at)| (CpuId(*cpu), Left { set: PsetId(*set), at: Nanos(*at) }));
        let (mut moves, mut far) = (Vec::new(), 0.0);
        let mut placement = Placement::new(frame, |_| true);
        placement.take((0, 1), count, &left.collect(), &mut moves, &mut far);
        moves.iter().map(|one| one.cpu.0).collect()
    }

    #[test]
    fn a_tight_set_takes_where_it_stands() {
        let mut frame = frame(vec![set(0, "0-3,6-7"), wanting(set(1, "4-5"), 1, TIGHT)]);
        frame.places = places(&["0-3", "4-7"], &[]);
        assert_eq!(took(&frame, 3, &[]), [6, 7, 0]);
    }

    #[test]
    fn a_loose_set_takes_in_turns() {
        let mut frame = frame(vec![set(0, "0-7"), wanting(set(1, ""), 1, LOOSE)]);
        frame.places = places(&["0-3", "4-7"], &[]);
        assert_eq!(took(&frame, 4, &[]), [0, 4, 1, 5]);
    }

    #[test]
    fn a_tight_donor_gives_where_it_has_least() {
        let mut frame = frame(vec![
            wanting(set(0, "0-4"), 1, TIGHT),
            wanting(set(1, ""), 1, Objective::Locality(Locality::None)),
            set(2, "5-7"),
        ]);
        frame.places = places(&["0-3", "4-7"], &[]);
        assert_eq!(took(&frame, 2, &[]), [4, 0]);
    }

    #[test]
    fn a_set_that_has_nothing_begins_where_most_can_be_had() {
        let mut frame = frame(vec![set(0, "0,4-7"), wanting(set(1, ""), 1, TIGHT)]);
        frame.places = places(&["0-3", "4-7"], &[]);
        assert_eq!(took(&frame, 2, &[]), [4, 5]);
    }

    #[test]
    fn cores_stay_whole_as_long_as_possible() {
        let mut frame = frame(vec![set(0, "0-4,6"), set(1, "7")]);
        frame.places = places(&["0-7"], &["0-1", "2-3", "4-5", "6-7"]);
        // 5 is off-line: 4 is a whole core. 6 joins its sibling.
        assert_eq!(took(&frame, 1, &[]), [6]);
        assert_eq!(took(&frame, 3, &[]), [6, 0, 1]);
        assert_eq!(took(&frame, 4, &[]), [6, 0, 1, 4], "rather than half of 2-3");
        assert_eq!(took(&frame, 2, &[]), [6, 4]);
    }

    #[test]
    fn strands_of_shared_cores_go_before_a_core_is_split() {
        let mut frame = frame(vec![set(0, "0-2"), set(1, "8"), set(2, "3")]);
        frame.places = places(&["0-9"], &["0-1", "2-3", "8-9"]);
        assert_eq!(took(&frame, 1, &[]), [2]);
        assert_eq!(took(&frame, 3, &[]), [0, 1, 2]);
    }

    #[test]
    fn those_that_left_last_come_back_first_then_idle_ones() {
        let idle = |cpus: &str| SetFrame { idle: cpus.parse().unwrap(), ..set(0, "0-5") };
        let frame = frame(vec![idle("4-5"), set(1, "6")]);
        let left = [(1, 1, 50), (2, 1, 90), (3, 2, 99)];
        assert_eq!(took(&frame, 6, &left), [2, 1, 4, 5, 0, 3]);
    }

    #[test]
    fn pinned_ones_stay_and_nothing_is_made_up() {
        let frame = frame(vec![SetFrame { pinned: "0-1".parse().unwrap(), ..set(0, "0-2") }, set(1, "3")]);
        assert_eq!(took(&frame, 3, &[]), [2]);
        assert_eq!(Placement::new(&frame, |cpu| cpu != CpuId(2)).free(0), 0);
    }

    #[test]
    fn the_way_between_groups_is_counted() {
        let mut frame = frame(vec![set(0, "0-5"), set(1, "6-7")]);
        frame.places = places(&["0-3", "4-7"], &[]);
        let (mut moves, mut far) = (Vec::new(), 0.0);
        Placement::new(&frame, |_| true).take((0, 1), 3, &BTreeMap::new(), &mut moves, &mut far);
        // Two local ones, one at twice the distance.
        assert!((far - 4.0).abs() < 1e-9, "{far}");
    }
}
