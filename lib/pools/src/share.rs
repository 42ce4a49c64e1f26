//! Shares CPUs out among sets when a configuration is applied (`system.allocate-method` of libpool(3LIB)).

use millpond_formats::pools::properties::is_requested;
use millpond_model::CpuId;
use millpond_model::pools::{AllocateMethod, Keyword, PoolsConf, PsetNode};
use std::cmp::Reverse;

/// The number of CPUs that each set should have, in the order of the configuration.
///
/// *Importance based*: every set starts with its minimum, or with its pinned CPUs if these are more. The other CPUs are dealt one by one in
/// rounds, the most important set first, to every set below its maximum. CPUs that a set started with beyond its minimum count as dealt.
/// CPUs that no set takes go to the default set. Off-line CPUs stay where they are and do not count. *Surplus to default*: every other set
/// keeps only its start.
#[must_use]
pub fn sizes(conf: &PoolsConf) -> Vec<u64> {
    let total: u64 = conf.psets.iter().map(PsetNode::online).sum();
    let pinned = |s: &PsetNode| s.cpus().iter().filter(|cpu| cpu.is_pinned() && cpu.runs_threads()).count();
    let start = |s: &PsetNode| s.min.max(pinned(s) as u64);
    let mut sizes: Vec<u64> = conf.psets.iter().map(start).collect();
    let mut surplus = total.saturating_sub(sizes.iter().sum());
    let default = conf.psets.iter().position(|s| s.is_default);
    if conf.system.allocate_method == Some(Keyword::Known(AllocateMethod::SurplusToDefault)) {
        // A set keeps its CPUs only if no other set may take them.
        if let Some(at) = default {
            sizes[at] += surplus;
        }
        return sizes;
    }
    let mut order: Vec<usize> = (0..conf.psets.len()).collect();
    // Of equal sets the default set comes last: it gets the rest anyway.
    let importances = conf.importances();
    order.sort_by_key(|at| {
        let set = &conf.psets[*at];
        (Reverse(importances.get(&set.ref_id).copied().unwrap_or(0)), set.is_default)
    });
    let mut dealt: Vec<u64> = conf.psets.iter().map(|s| start(s) - s.min).collect();
    while surplus > 0 {
        let mut took = false;
        for at in &order {
            if surplus == 0 {
                break;
            }
            if dealt[*at] > 0 {
                dealt[*at] -= 1;
                took = true;
            } else if sizes[*at] < conf.psets[*at].max {
                sizes[*at] += 1;
                surplus -= 1;
                took = true;
            }
        }
        if !took {
            break;
        }
    }
    if let Some(at) = default {
        sizes[at] += surplus;
    }
    sizes
}

/// Moves CPUs until every set has the number that [`sizes`] gives: lowest numbers first, pinned ones never, those
/// with `cpu.requested` last.
pub fn share_out(conf: &mut PoolsConf) {
    let sizes = sizes(conf);
    let names: Vec<String> = conf.psets.iter().map(|s| s.name.clone()).collect();
    let mut spare: Vec<CpuId> = Vec::new();
    for (set, size) in conf.psets.iter().zip(&sizes) {
        let mut cpus: Vec<(bool, CpuId)> = set
            .cpus()
            .iter()
            .filter(|c| !c.is_pinned() && c.runs_threads())
            .map(|c| (is_requested(c), c.id))
            .collect();
        cpus.sort_unstable();
        let excess = usize::try_from(set.online().saturating_sub(*size)).unwrap_or(usize::MAX);
        spare.extend(cpus.into_iter().take(excess).map(|(_, cpu)| cpu));
    }
    let mut spare = spare.into_iter();
    for (name, size) in names.iter().zip(&sizes) {
        let has = conf.pset(name).map_or(0, PsetNode::online);
        for cpu in spare.by_ref().take(usize::try_from(size.saturating_sub(has)).unwrap_or(usize::MAX)) {
            conf.move_cpu(cpu, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::pools::PoolNode;
    use millpond_model::{PsetId, State};
    use proptest::prelude::*;

    /// The default set and further ones, each with minimum, maximum and the importance of its pool.
    fn conf(cpus: u32, sets: &[(u64, u64, i64)]) -> PoolsConf {
        let mut conf = PoolsConf::fresh((0..cpus).map(|n| (CpuId(n), State::OnLine)));
        for (n, (min, max, importance)) in sets.iter().enumerate() {
            let id = PsetId(u32::try_from(n + 1).unwrap());
            let mut set = PsetNode::new(&format!("s{n}"), format!("pset_{id}"), Some(id));
            (set.min, set.max) = (*min, *max);
            let mut pool = PoolNode::new(&format!("p{n}"), format!("pool_{id}"), set.ref_id.clone(), None);
            pool.importance = *importance;
            conf.psets.push(set);
            conf.pools.push(pool);
        }
        conf
    }

    #[test]
    fn the_example_of_the_reference() {
        let mut conf = conf(8, &[(2, 4, 5), (1, 2, 1)]);
        assert_eq!(sizes(&conf), [2, 4, 2]);
        share_out(&mut conf);
        let of = |name: &str| conf.pset(name).unwrap().cpu_set().to_string();
        assert_eq!((of("s0"), of("s1"), of("pset_default")), ("0-3".into(), "4-5".into(), "6-7".into()));
    }

    #[test]
    fn pinned_processors_count_as_dealt() {
        let mut conf = conf(8, &[(0, 8, 1), (0, 8, 1)]);
        for cpu in 0..3 {
            conf.move_cpu(CpuId(cpu), "s0");
            conf.cpu_mut(CpuId(cpu)).unwrap().pinned = Some(true);
        }
        // It starts with 3, 0 and 1 for the default set; 4 are left. Rounds: s1, default; s1, default.
        assert_eq!(sizes(&conf), [3, 3, 2]);
        share_out(&mut conf);
        assert_eq!(conf.pset("s0").unwrap().cpu_set().to_string(), "0-2");
    }

    #[test]
    fn of_equal_importance_the_default_set_comes_last() {
        // It starts with 1 and the other one with 0; 3 are left: s0, default, s0.
        assert_eq!(sizes(&conf(4, &[(0, 8, 1)])), [2, 2]);
    }

    #[test]
    fn requested_processors_are_taken_last() {
        let mut conf = conf(4, &[(2, 2, 5)]);
        conf.cpu_mut(CpuId(0)).unwrap().user.set("cpu.requested", true);
        share_out(&mut conf);
        assert_eq!(conf.pset("s0").unwrap().cpu_set().to_string(), "1-2");
    }

    #[test]
    fn surplus_may_go_to_the_default_set() {
        let mut conf = conf(8, &[(2, 4, 5), (1, 2, 1)]);
        conf.system.allocate_method = Some(Keyword::Known(AllocateMethod::SurplusToDefault));
        assert_eq!(sizes(&conf), [5, 2, 1]);
    }

    proptest! {
        #[test]
        fn every_processor_is_dealt_and_every_bound_kept(
            cpus in 1u32..40,
            sets in proptest::collection::vec((0u64..4, 0u64..9, 0i64..5), 0..6),
            pinned in proptest::collection::vec((0u32..40, 0usize..6), 0..5),
        ) {
            let sets: Vec<(u64, u64, i64)> = sets.into_iter().map(|(a, b, c)| (a, a + b, c)).collect();
            prop_assume!(sets.iter().map(|s| s.0).sum::<u64>() < u64::from(cpus));
            let mut conf = conf(cpus, &sets);
            for (cpu, set) in pinned {
                if set < sets.len() && (conf.psets[set + 1].size() < sets[set].0) {
                    conf.move_cpu(CpuId(cpu), &format!("s{set}"));
                    if let Some(node) = conf.cpu_mut(CpuId(cpu)) {
                        node.pinned = Some(true);
                    }
                }
            }
            let want = sizes(&conf);
            prop_assert_eq!(want.iter().sum::<u64>(), u64::from(cpus));
            let before = conf.clone();
            share_out(&mut conf);
            for (set, size) in conf.psets.iter().zip(want) {
                prop_assert_eq!(set.size(), size);
                prop_assert!(set.size() >= set.min);
                prop_assert!(set.is_default || set.size() <= set.max);
                prop_assert!(before.pset(&set.name).unwrap().pinned().is_subset(&set.pinned()));
            }
        }
    }
}
