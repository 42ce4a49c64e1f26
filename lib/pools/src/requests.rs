//! CPU requests of the containers in pools. The agent of a Kubernetes node stores the sum in a property of each pool. A set never becomes smaller
//! than the requests of its pools while there are enough CPUs. So the guarantees of the cluster scheduler hold.

use millpond_model::pools::{PoolNode, PoolsConf, PsetNode};

/// The property of a pool: the sum of the requests of its containers, in thousandths of a CPU, 1 or more. It is never written to a file.
pub const REQUESTS: &str = "millpond.requests";

/// The requests of the containers of a pool, in thousandths of a CPU.
#[must_use]
pub fn of_pool(pool: &PoolNode) -> u64 {
    pool.user.uint(REQUESTS).unwrap_or(0)
}

/// Stores the requests of the containers of a pool, in thousandths of a CPU. Zero removes the property.
pub fn note(pool: &mut PoolNode, thousandths: u64) {
    if thousandths == 0 {
        pool.user.remove(REQUESTS);
    } else if of_pool(pool) != thousandths {
        pool.user.set(REQUESTS, thousandths);
    }
}

/// Copies the requests of a replaced configuration to its successor.
pub(crate) fn carry(before: &PoolsConf, after: &mut PoolsConf) {
    for pool in &mut after.pools {
        let was = before.pools.iter().find(|was| was.name == pool.name);
        note(pool, was.map_or(0, of_pool));
    }
}

/// The minimum of each set, in the order of the configuration: its own, or the requests of its pools if these are higher. If there are
/// fewer CPUs than the sum, the sets whose minimum exceeds their requests by most are lowered first, and none below its own minimum.
#[must_use]
pub(crate) fn minima(conf: &PoolsConf) -> Vec<u64> {
    let requested = |set: &PsetNode| {
        let pools = conf.pools.iter().filter(|pool| pool.pset == set.ref_id);
        pools.map(of_pool).fold(0, u64::saturating_add)
    };
    let asked: Vec<(u64, u64)> = conf.psets.iter().map(|set| (set.min, requested(set))).collect();
    within(&asked, conf.psets.iter().map(PsetNode::online).sum())
}

fn within(asked: &[(u64, u64)], total: u64) -> Vec<u64> {
    let mut minima: Vec<u64> =
        asked.iter().map(|(min, asked)| asked.div_ceil(1000).min(total).max(*min)).collect();
    let sum = |minima: &[u64]| minima.iter().fold(0, |all: u64, min| all.saturating_add(*min));
    while sum(&minima) > total {
        let beyond = |at: &usize| i128::from(minima[*at]) * 1000 - i128::from(asked[*at].1);
        let lowered = (0..minima.len()).filter(|at| minima[*at] > asked[*at].0).max_by_key(beyond);
        let Some(lowered) = lowered else { break };
        minima[lowered] -= 1;
    }
    minima
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, State};

    #[test]
    fn a_minimum_is_what_is_requested_rounded_up() {
        assert_eq!(within(&[(1, 0), (1, 1500), (2, 100)], 8), [1, 2, 2]);
        assert_eq!(within(&[(1, 2000), (0, 1)], 8), [2, 1]);
    }

    #[test]
    fn minima_that_are_too_many_are_lowered_where_the_most_was_rounded_up() {
        // 3 + 2 of 4 CPUs: 2,100 were rounded up by 900, 1,900 by 100.
        assert_eq!(within(&[(1, 2100), (1, 1900)], 4), [2, 2]);
        // A configured minimum stays.
        assert_eq!(within(&[(3, 3000), (0, 2000)], 4), [3, 1]);
        assert_eq!(within(&[(3, 0), (2, 9000)], 4), [3, 2]);
        assert_eq!(within(&[(0, u64::MAX), (0, u64::MAX)], 4).iter().sum::<u64>(), 4);
        assert_eq!(within(&[], 4), Vec::<u64>::new());
    }

    #[test]
    fn requests_are_noted_and_carried_over() {
        let mut before = PoolsConf::fresh([(CpuId(0), State::OnLine)]);
        note(&mut before.pools[0], 250);
        let mut after = PoolsConf::fresh([(CpuId(0), State::OnLine)]);
        carry(&before, &mut after);
        assert_eq!(of_pool(&after.pools[0]), 250);
        carry(&PoolsConf::fresh([(CpuId(0), State::OnLine)]), &mut after);
        assert_eq!(after.pools[0].user.get(REQUESTS), None);
    }
}
