//! The configuration of a machine while its pools are enabled.

use super::{CpuNode, Keyword, PoolsConf, RefId};
use crate::{CpuId, PoolId, PsetId, State};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The dynamic configuration, with further data for a machine.
///
/// Membership of processes in pools is not here: it is a property of the processes. A machine stores this as of the last commit. The
/// present sets and states of CPUs come from the machine itself, by [`PoolsState::catch_up`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolsState {
    /// The configuration; every pool and every set has a number.
    pub conf: PoolsConf,
    /// Whether processes that are not in a pool may stay: members of pools are confined, others are not moved away.
    pub keep_others: bool,
    /// Persistent cgroups that are bound as a whole, by name, with their pool.
    pub zones: BTreeMap<String, PoolId>,
}

impl PoolsState {
    /// The set of each pool.
    #[must_use]
    pub fn sets(&self) -> BTreeMap<PoolId, PsetId> {
        let ids: HashMap<&RefId, PsetId> =
            self.conf.psets.iter().filter_map(|s| Some((&s.ref_id, s.id?))).collect();
        self.conf.pools.iter().filter_map(|p| Some((p.id?, *ids.get(&p.pset)?))).collect()
    }

    /// The persistent cgroups that are bound to a set through their pools.
    #[must_use]
    pub fn zones_of(&self, set: PsetId) -> Vec<String> {
        let sets = self.sets();
        let inside = self.zones.iter().filter(|(_, pool)| sets.get(pool) == Some(&set));
        inside.map(|(zone, _)| zone.clone()).collect()
    }

    /// The same configuration, with the lowest free number for every pool and set without one. References are updated.
    #[must_use]
    pub fn numbered(mut self) -> Self {
        let mut taken: BTreeSet<u32> = self.conf.pools.iter().filter_map(|p| Some(p.id?.0)).collect();
        for pool in self.conf.pools.iter_mut().filter(|p| p.id.is_none()) {
            let id = lowest_free(&mut taken);
            pool.id = Some(PoolId(id));
            pool.ref_id = format!("pool_{id}").into();
        }
        let mut taken: BTreeSet<u32> = self.conf.psets.iter().filter_map(|s| Some(s.id?.0)).collect();
        let mut refs: HashMap<RefId, RefId> = HashMap::new();
        for pset in self.conf.psets.iter_mut().filter(|s| s.id.is_none()) {
            let id = lowest_free(&mut taken);
            pset.id = Some(PsetId(id));
            let new = RefId::from(format!("pset_{id}"));
            refs.insert(std::mem::replace(&mut pset.ref_id, new.clone()), new);
        }
        for pool in &mut self.conf.pools {
            if let Some(new) = refs.get(&pool.pset) {
                pool.pset.clone_from(new);
            }
        }
        self
    }

    /// Moves every CPU to its present set on the machine, and updates its state. A CPU that is not in `cpus` is removed;
    /// an unknown one is added. A set that the configuration does not contain counts as the default one.
    pub fn catch_up(&mut self, cpus: &BTreeMap<CpuId, (PsetId, State)>) {
        let mut known = BTreeMap::new();
        for pset in &mut self.conf.psets {
            let ids: Vec<CpuId> = pset.cpus().iter().map(|c| c.id).collect();
            known.extend(ids.into_iter().filter_map(|id| Some((id, pset.take(id)?))));
        }
        let sets: BTreeSet<PsetId> = self.conf.psets.iter().filter_map(|s| s.id).collect();
        for (id, (set, state)) in cpus {
            let mut node = known.remove(id).unwrap_or_else(|| CpuNode::new(*id, *state));
            node.status = Some(Keyword::Known(*state));
            let set = if sets.contains(set) { *set } else { PsetId::DEFAULT };
            if let Some(pset) = self.conf.psets.iter_mut().find(|s| s.id == Some(set)) {
                pset.add(node);
            }
        }
    }
}

/// The lowest unused number from 1; marks it as used.
fn lowest_free(taken: &mut BTreeSet<u32>) -> u32 {
    let free = (1..).find(|id| !taken.contains(id)).unwrap_or(u32::MAX);
    taken.insert(free);
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::{PoolNode, PsetNode};

    #[test]
    fn who_has_no_number_gets_the_lowest_that_is_free() {
        let mut conf = PoolsConf::fresh([(CpuId(0), State::OnLine)]);
        conf.psets.push(PsetNode::new("a", "id_5", None));
        conf.psets.push(PsetNode::new("b", "pset_1", Some(PsetId(1))));
        conf.pools.push(PoolNode::new("web", "id_6", "id_5", None));
        conf.pools.push(PoolNode::new("shop", "pool_2", "pset_1", Some(PoolId(2))));
        let state = PoolsState { conf, keep_others: false, zones: BTreeMap::new() }.numbered();
        let sets: Vec<(u32, u32)> = state.sets().into_iter().map(|(pool, set)| (pool.0, set.0)).collect();
        assert_eq!(sets, [(0, 0), (1, 2), (2, 1)]);
    }

    #[test]
    fn the_machine_knows_better_where_processors_are() {
        let mut conf = PoolsConf::fresh((0..3).map(|n| (CpuId(n), State::OnLine)));
        conf.psets.push(PsetNode::new("webset", "pset_1", Some(PsetId(1))));
        conf.cpu_mut(CpuId(1)).unwrap().pinned = Some(true);
        let mut state = PoolsState { conf, keep_others: false, zones: BTreeMap::new() };
        let now = [
            (CpuId(0), (PsetId::DEFAULT, State::OnLine)),
            (CpuId(1), (PsetId(1), State::OnLine)),
            (CpuId(5), (PsetId(7), State::OffLine)),
        ];
        state.catch_up(&now.into_iter().collect());
        let set = |name: &str| state.conf.pset(name).unwrap().cpu_set().to_string();
        assert_eq!((set("pset_default"), set("webset")), ("0,5".into(), "1".into()));
        let webset = state.conf.pset("webset").unwrap();
        assert_eq!(webset.pinned().to_string(), "1");
        let newcomer = &state.conf.default_pset().unwrap().cpus()[1];
        assert_eq!(newcomer.state(), Some(State::OffLine));
    }
}
