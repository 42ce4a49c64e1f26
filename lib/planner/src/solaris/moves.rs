//! Every possible move of one CPU, with its score by poold(8) of Solaris.

use super::formulas::{as_donor, as_receiver, locality, tightness, wt_load};
use super::view::View;
use crate::SetFrame;
use millpond_model::pools::{Locality, Objective};
use millpond_model::{CpuId, CpuSet, Move};
use std::collections::BTreeMap;

/// A move and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub one: Move,
    pub score: f64,
}

/// All moves, best first. A set above its minimum gives any of its unpinned CPUs. Equal moves keep the order of donors, receivers and CPUs.
pub(super) fn candidates(view: &View<'_>) -> Vec<Candidate> {
    let sets = &view.frame.sets;
    let places = Groups::new(view);
    let mut found = Vec::new();
    for (from, donor) in sets.iter().enumerate().filter(|(_, set)| set.size() > set.min) {
        for (to, receiver) in sets.iter().enumerate() {
            if to == from || receiver.size() >= receiver.max {
                continue;
            }
            let workload = workload(view, from, to);
            let by_group = places.scores(view, from, to);
            for cpu in (&donor.cpus - &donor.pinned).iter() {
                let score = workload + places.of.get(&cpu).map_or(0.0, |group| by_group[*group]);
                found.push(Candidate { one: Move { cpu, from: donor.id, to: receiver.id }, score });
            }
        }
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found
}

/// The score of workload-dependent objectives for any move between two sets.
fn workload(view: &View<'_>, from: usize, to: usize) -> f64 {
    let sets = &view.frame.sets;
    if view.values.is_none() {
        return 0.0;
    }
    let side = |at: usize| (view.shares[at], sets[at].size());
    let system = view.frame.wt_load().map_or(0.0, f64::from) * wt_load(side(from), side(to), view.total);
    let has = |at: usize| !sets[at].objectives.is_empty();
    let of = |at: usize, contribution: fn(f64, f64, bool) -> f64, other_has: bool| -> f64 {
        let each = view.utilization(at).map(|(importance, target, value)| {
            contribution(value.utilization, target, other_has) * f64::from(importance)
        });
        each.sum::<f64>() * importance(&sets[at])
    };
    system + of(from, as_donor, has(to)) + of(to, as_receiver, has(from))
}

#[expect(clippy::cast_precision_loss, reason = "an importance has few digits")]
fn importance(set: &SetFrame) -> f64 {
    set.importance as f64
}

/// Locality groups, and the number of their CPUs in each set.
struct Groups {
    /// The group of each CPU.
    of: BTreeMap<CpuId, usize>,
    sizes: Vec<usize>,
    /// By set, then group.
    own: Vec<Vec<usize>>,
}

impl Groups {
    /// Empty if locality is irrelevant on the machine.
    fn new(view: &View<'_>) -> Groups {
        let frame = view.frame;
        if frame.places.are_alike() {
            return Groups { of: BTreeMap::new(), sizes: Vec::new(), own: Vec::new() };
        }
        let groups = &frame.places.lgroups;
        let of = groups.iter().enumerate();
        let of = of.flat_map(|(at, group)| group.cpus.iter().map(move |cpu| (cpu, at))).collect();
        let in_group =
            |cpus: &CpuSet| groups.iter().map(|group| (&group.cpus & cpus).len()).collect::<Vec<_>>();
        let own: Vec<Vec<usize>> = frame.sets.iter().map(|set| in_group(&set.cpus)).collect();
        let sizes = (0..groups.len()).map(|group| own.iter().map(|set| set[group]).sum()).collect();
        Groups { of, sizes, own }
    }

    /// The score of locality objectives for moving a CPU of each group.
    fn scores(&self, view: &View<'_>, from: usize, to: usize) -> Vec<f64> {
        let score = |group: usize| -> f64 {
            let donor = self.own[from][group].saturating_sub(1);
            let receiver = self.own[to][group] + 1;
            self.contribution(view, from, group, donor) + self.contribution(view, to, group, receiver)
        };
        (0..self.sizes.len()).map(score).collect()
    }

    /// The value for one set of having `now` CPUs of a group.
    fn contribution(&self, view: &View<'_>, at: usize, group: usize, now: usize) -> f64 {
        let set = &view.frame.sets[at];
        let wanted = set.objectives.iter().filter_map(|weighted| match weighted.objective {
            Objective::Locality(wanted) => Some((weighted.importance, wanted)),
            _ => None,
        });
        let wanted: Vec<(u32, Locality)> = wanted.collect();
        if wanted.is_empty() {
            return 0.0;
        }
        let before = self.own[at].iter().copied().zip(self.sizes.iter().copied());
        let after =
            before.clone().enumerate().map(|(g, (own, all))| (if g == group { now } else { own }, all));
        let change = tightness(after) - tightness(before);
        let each = wanted.into_iter().map(|(counts, wanted)| locality(wanted, change) * f64::from(counts));
        each.sum::<f64>() * importance(set)
    }
}
