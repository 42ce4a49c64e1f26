//! CPUs that are dedicated to a zone while it runs (`dedicated-cpu` of zonecfg(8)): a temporary pool with its own set.
//!
//! Pool and set are both named `SUNWtmp_` and the name of the zone. They stay when another configuration is committed, and are never written to a
//! file. On Solaris they are destroyed when the zone halts. Here no program watches zones, so poold destroys them in its next turn, or the
//! next `zonecfg` command does.

use crate::dynamic;
use crate::error::{Code, PoolError};
use crate::share::share_out;
use crate::validate::possible;
use millpond_machine::{Machine, Reason, Refusal};
use millpond_model::CpuId;
use millpond_model::pools::{PoolNode, PoolsState, PsetNode};
use std::collections::BTreeMap;

const PREFIX: &str = "SUNWtmp_";
/// The property of a temporary pool that holds the key of its zone.
const ZONE: &str = "millpond.dedicated";
/// The property of a temporary set that lists the sets its CPUs came from: `4=web 5=web`.
const FROM: &str = "millpond.from";

/// The resources dedicated to a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dedicated {
    /// The minimum and the maximum number of CPUs.
    pub ncpus: (u64, u64),
    /// The importance of the pool.
    pub importance: i64,
}

/// The name of the pool and the set of a zone. A character that is invalid in the name of a pool becomes an underscore.
#[must_use]
pub fn pool_name(zone: &str) -> String {
    let inner = |c: char| if c.is_ascii_alphanumeric() || ",._-".contains(c) { c } else { '_' };
    format!("{PREFIX}{}", zone.chars().map(inner).collect::<String>())
}

fn pool_of<'s>(state: &'s PoolsState, zone: &str) -> Option<&'s PoolNode> {
    let is = |pool: &&PoolNode| pool.is_temporary() && pool.user.string(ZONE) == Some(zone);
    state.conf.pools.iter().find(is)
}

/// The resources dedicated to a zone now, by the key of the zone.
#[must_use]
pub fn of(state: &PoolsState, zone: &str) -> Option<Dedicated> {
    let pool = pool_of(state, zone)?;
    let set = state.conf.pset_of(pool)?;
    Some(Dedicated { ncpus: (set.min, set.max), importance: pool.importance })
}

/// The configuration with CPUs dedicated to a zone, instead of its former ones, and the zone bound to their pool. `zone` is its name, `key` the
/// key that the machine has for it ([`millpond_machine::Pools::zone_key`]).
///
/// # Errors
/// [`Code::InvalidConf`] if there are not enough CPUs; [`Code::BadParam`] if another zone has the name.
pub fn with(
    mut state: PoolsState,
    (zone, key): (&str, &str),
    to: Dedicated,
) -> Result<PoolsState, PoolError> {
    let name = pool_of(&state, key).map_or_else(|| pool_name(zone), |pool| pool.name.clone());
    if pool_of(&state, key).is_none() {
        if state.conf.pool(&name).is_some() || state.conf.pset(&name).is_some() {
            return Err(PoolError::hinted(Code::BadParam, format!("there is a pool {name} already")));
        }
        let mut set = PsetNode::new(&name, format!("new_{name}"), None);
        set.temporary = Some(true);
        let mut pool = PoolNode::new(&name, format!("new_pool_{name}"), set.ref_id.clone(), None);
        pool.temporary = Some(true);
        pool.user.set(ZONE, key);
        state.conf.psets.push(set);
        state.conf.pools.push(pool);
    }
    if let Some(set) = state.conf.pset_mut(&name) {
        (set.min, set.max) = to.ncpus;
    }
    if let Some(pool) = state.conf.pool_mut(&name) {
        pool.importance = to.importance;
    }
    let total: u64 = state.conf.psets.iter().map(PsetNode::online).sum();
    possible(&state.conf, total)?;
    let others = state.conf.psets.iter().filter(|set| !set.is_default && set.name != name);
    let owners: BTreeMap<CpuId, String> = others
        .flat_map(|set| set.cpu_set().iter().map(|cpu| (cpu, set.name.clone())).collect::<Vec<_>>())
        .collect();
    share_out(&mut state.conf);
    if let Some(set) = state.conf.pset_mut(&name) {
        let mut from = from(set);
        from.extend(owners);
        let taken: Vec<String> =
            set.cpu_set().iter().filter_map(|cpu| Some(format!("{cpu}={}", from.get(&cpu)?))).collect();
        if !taken.is_empty() {
            set.user.set(FROM, taken.join(" ").as_str());
        }
    }
    let mut state = state.numbered();
    if let Some(id) = state.conf.pool(&name).and_then(|pool| pool.id) {
        state.zones.insert(key.to_owned(), id);
    }
    Ok(state)
}

/// The source sets of the CPUs of a temporary set.
fn from(set: &PsetNode) -> BTreeMap<CpuId, String> {
    let text = set.user.string(FROM).unwrap_or_default();
    let one = |word: &str| {
        let (cpu, name) = word.split_once('=')?;
        Some((cpu.parse().ok()?, name.to_owned()))
    };
    text.split(' ').filter_map(one).collect()
}

/// The configuration without the temporary pools of these zones. Each CPU returns to its source set if that still exists
/// and is below its maximum, else to the default set.
#[must_use]
pub fn without(mut state: PoolsState, zones: &[String]) -> PoolsState {
    let Some(default) = state.conf.default_pset().map(|set| set.name.clone()) else { return state };
    for zone in zones {
        let Some(PoolNode { id, name, pset, .. }) = pool_of(&state, zone).cloned() else { continue };
        state.zones.retain(|_, pool| Some(*pool) != id);
        state.conf.pools.retain(|pool| pool.name != name);
        let set = state.conf.psets.iter().find(|set| set.ref_id == pset);
        let cpus: Vec<CpuId> = set.map(|set| set.cpu_set().iter().collect()).unwrap_or_default();
        let from = set.map(from).unwrap_or_default();
        for cpu in cpus {
            let has_room = |name: &&String| state.conf.pset(name).is_some_and(|set| set.size() < set.max);
            let to = from.get(&cpu).filter(has_room).unwrap_or(&default).clone();
            state.conf.move_cpu(cpu, &to);
        }
        state.conf.psets.retain(|set| set.ref_id != pset || set.is_default);
    }
    state
}

/// Zones that have ended and still have dedicated CPUs.
///
/// # Errors
/// If the machine cannot be read.
pub fn ended(machine: &dyn Machine, state: &PoolsState) -> Result<Vec<String>, PoolError> {
    let named =
        state.conf.pools.iter().filter(|pool| pool.is_temporary()).filter_map(|p| p.user.string(ZONE));
    let pools = machine.pools().map_err(Refusal::from)?;
    let mut ended = Vec::new();
    for zone in named {
        // A zone with any other refusal still exists.
        if pools.zone_key(zone).is_err_and(|refusal| refusal.reason == Reason::NoSuchZone) {
            ended.push(zone.to_owned());
        }
    }
    Ok(ended)
}

/// Removes the pools of zones that have ended. Returns the new configuration, and notes for the user.
///
/// # Errors
/// If the machine cannot be read, or refuses.
pub fn sweep(machine: &dyn Machine, state: PoolsState) -> Result<(PoolsState, Vec<String>), PoolError> {
    let zones = ended(machine, &state)?;
    if zones.is_empty() {
        return Ok((state, Vec::new()));
    }
    let writer = millpond_machine::Writer::open(machine)?;
    let to = without(dynamic::read(machine)?, &zones);
    let notes = dynamic::commit(&writer, machine, Some(to))?.notes;
    Ok((dynamic::read(machine)?, notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dynamic::exported, instantiate};
    use millpond_model::State;
    use millpond_model::pools::{Keyword, PoolsConf};

    fn machine() -> PoolsState {
        let conf = PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)));
        PoolsState { conf, keep_others: false, zones: BTreeMap::new() }
    }

    fn two(zone: &str) -> PoolsState {
        with(machine(), (zone, zone), Dedicated { ncpus: (1, 2), importance: 5 }).unwrap()
    }

    #[test]
    fn a_zone_gets_a_temporary_pool_with_a_set_of_its_own() {
        let state = two("web");
        let (pool, set) = (state.conf.pool("SUNWtmp_web").unwrap(), state.conf.pset("SUNWtmp_web").unwrap());
        assert!(pool.is_temporary() && set.is_temporary());
        assert_eq!((set.min, set.max, pool.importance), (1, 2, 5));
        assert_eq!(state.zones.get("web"), pool.id.as_ref(), "the zone is in it by the same commit");
        assert_eq!(set.size(), 2, "more important than the default pool, it gets its maximum");
        assert_eq!(of(&state, "web").unwrap(), Dedicated { ncpus: (1, 2), importance: 5 });
        let less = with(state, ("web", "web"), Dedicated { ncpus: (1, 1), importance: 5 }).unwrap();
        assert_eq!(less.conf.pset("SUNWtmp_web").unwrap().size(), 1);
        assert_eq!(less.conf.pools.len(), 2);
    }

    #[test]
    fn it_survives_another_configuration_and_is_in_no_file() {
        let state = two("web");
        let file = exported(state.conf.clone());
        assert!(file.pool("SUNWtmp_web").is_none() && file.pset("SUNWtmp_web").is_none());
        let after = instantiate(&file, &state).unwrap();
        assert!(after.conf.pool("SUNWtmp_web").is_some() && after.conf.pset("SUNWtmp_web").is_some());
    }

    #[test]
    fn when_it_goes_its_cpus_are_in_the_default_set() {
        let after = without(two("/a b"), &["/a b".to_owned()]);
        assert_eq!((after.conf.pools.len(), after.zones.len()), (1, 0));
        assert_eq!(after.conf.default_pset().unwrap().size(), 4);
        assert_eq!(pool_name("/a b"), "SUNWtmp__a_b");
    }

    #[test]
    fn cpus_return_to_the_set_that_they_came_from() {
        let mut state = machine();
        let mut batch = PsetNode::new("batch", "new_batch".to_owned(), None);
        (batch.min, batch.max) = (1, 4);
        state.conf.psets.push(batch);
        for cpu in [1, 2, 3] {
            state.conf.move_cpu(CpuId(cpu), "batch");
        }
        let before = state.conf.clone();
        let with = with(state.clone(), ("web", "web"), Dedicated { ncpus: (2, 2), importance: 5 }).unwrap();
        assert!(with.conf.pset("batch").unwrap().size() < 3, "there are no others");
        let after = without(with, &["web".to_owned()]);
        assert_eq!(after.conf.pset("batch").unwrap().cpu_set(), before.pset("batch").unwrap().cpu_set());
    }

    #[test]
    fn cpus_that_are_off_line_are_dedicated_to_no_zone() {
        let mut state = machine();
        for cpu in [0, 1] {
            state.conf.cpu_mut(CpuId(cpu)).unwrap().status = Some(Keyword::Known(State::OffLine));
        }
        let three = Dedicated { ncpus: (3, 3), importance: 1 };
        let error = with(state.clone(), ("web", "web"), three).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("all minima together are 4, and there are 2 CPUs"));
        let one = with(state, ("web", "web"), Dedicated { ncpus: (1, 1), importance: 1 }).unwrap();
        assert_eq!(one.conf.pset("SUNWtmp_web").unwrap().cpu_set(), "2".parse().unwrap());
    }

    #[test]
    fn more_cpus_than_there_are_cannot_be_dedicated() {
        assert!(with(machine(), ("web", "web"), Dedicated { ncpus: (5, 5), importance: 1 }).is_err());
    }
}
