//! How the configuration of a file is applied to the machine (`pooladm -c`).
//!
//! Elements are matched by name, CPUs by number. The system, the default pool and the default set match regardless of their names. Elements
//! that exist only in the file are created, and those that exist only on the machine are destroyed. The others get the properties of the
//! file. Then CPUs are shared out among sets.

use crate::error::PoolError;
use crate::requests;
use crate::share::share_out;
use crate::validate::possible;
use crate::zones;
use millpond_formats::pools::properties::{Element, NEXT_ID, Takes, rule, takes};
use millpond_model::PsetId;
use millpond_model::pools::{ElementKind, PoolNode, PoolsConf, PoolsState, PsetNode, RefId};

/// The configuration of the machine after that of a file is applied. New pools have no number yet. New sets have none either, unless they
/// keep the number from the file.
///
/// # Errors
/// [`crate::Code::InvalidConf`] if the configuration is impossible on this machine.
pub fn instantiate(file: &PoolsConf, machine: &PoolsState) -> Result<PoolsState, PoolError> {
    let total: u64 = machine.conf.psets.iter().map(PsetNode::online).sum();
    possible(file, total)?;
    let mut to = machine.clone();
    let conf = &mut to.conf;
    copy(&file.system, &mut conf.system);
    let same_pool = |a: &PoolNode, b: &PoolNode| match (a.is_default, b.is_default) {
        (false, false) => a.name == b.name,
        (a, b) => a && b,
    };
    let same_pset = |a: &PsetNode, b: &PsetNode| match (a.is_default, b.is_default) {
        (false, false) => a.name == b.name,
        (a, b) => a && b,
    };
    let stays = |s: &PsetNode| s.is_default || s.is_temporary() || file.psets.iter().any(|f| same_pset(f, s));
    let leaving: Vec<String> = conf.psets.iter().filter(|s| !stays(s)).map(|s| s.name.clone()).collect();
    conf.pools.retain(|p| p.is_default || p.is_temporary() || file.pools.iter().any(|f| same_pool(f, p)));
    let default = conf.default_pset().map(|s| (s.name.clone(), s.ref_id.clone()));
    let (default, default_ref) = default.unwrap_or_default();
    for name in leaving {
        let Some(cpus) = conf.pset(&name).map(PsetNode::cpu_set) else { continue };
        for cpu in cpus.iter() {
            conf.move_cpu(cpu, &default);
        }
        conf.psets.retain(|s| s.name != name);
    }
    for (n, pset) in file.psets.iter().enumerate() {
        match conf.psets.iter_mut().find(|s| same_pset(pset, s)) {
            Some(is) => copy(pset, is),
            None if pset.is_default => {}
            None => {
                let mut new = match number(pset, conf) {
                    Some(id) => PsetNode::new(&pset.name, format!("pset_{id}"), Some(id)),
                    None => PsetNode::new(&pset.name, format!("new_{n}"), None),
                };
                copy(pset, &mut new);
                conf.psets.push(new);
            }
        }
    }
    place_processors(file, conf, &same_pset);
    for (n, pool) in file.pools.iter().enumerate() {
        let set = file.pset_of(pool);
        let set = set.and_then(|set| conf.psets.iter().find(|s| same_pset(set, s)));
        let set = set.map_or_else(|| default_ref.clone(), |s| s.ref_id.clone());
        match conf.pools.iter_mut().find(|p| same_pool(pool, p)) {
            Some(is) => {
                copy(pool, is);
                if !is.is_default {
                    is.pset = set;
                }
            }
            None if pool.is_default => {}
            None => {
                let mut new = PoolNode::new(&pool.name, format!("new_{n}"), set, None);
                copy(pool, &mut new);
                conf.pools.push(new);
            }
        }
    }
    // A temporary pool whose set was destroyed gets the default set.
    let refs: Vec<&RefId> = conf.psets.iter().map(|s| &s.ref_id).collect();
    for pool in conf.pools.iter_mut().filter(|p| !refs.contains(&&p.pset)) {
        pool.pset.clone_from(&default_ref);
    }
    let ids: Vec<_> = conf.pools.iter().filter_map(|pool| pool.id).collect();
    to.zones.retain(|_, pool| ids.contains(pool));
    requests::carry(&machine.conf, &mut to.conf);
    share_out(&mut to.conf);
    Ok(zones::bind(file, to))
}

/// The number that a new set had when the file was saved, unless another set has it now. The number then stays the same across boots, so
/// that units that start in the set find it.
fn number(pset: &PsetNode, conf: &PoolsConf) -> Option<PsetId> {
    pset.id.filter(|id| !id.is_default() && conf.psets.iter().all(|s| s.id != Some(*id)))
}

/// CPUs that the file has in another set go there if no bound is violated; the others are shared out later.
fn place_processors(file: &PoolsConf, conf: &mut PoolsConf, same: &dyn Fn(&PsetNode, &PsetNode) -> bool) {
    for pset in &file.psets {
        for cpu in pset.cpus() {
            if let Some(node) = conf.cpu_mut(cpu.id) {
                copy(cpu, node);
            }
            let Some(to) = conf.psets.iter().find(|s| same(pset, s)) else { continue };
            let Some(from) = conf.pset_with(cpu.id) else { continue };
            let fits = from.online() > from.min && (to.is_default || to.online() < to.max);
            let (from, to) = (from.name.clone(), to.name.clone());
            if fits && from != to {
                conf.move_cpu(cpu.id, &to);
            }
        }
    }
}

/// Copies the writable properties of an element of the file to that of the machine. Optional properties that are not in the file are removed.
fn copy<E: Element>(file: &E, machine: &mut E) {
    let kind = machine.kind();
    for (name, _) in machine.properties().iter() {
        if rule(kind, name).is_none_or(|rule| rule.optional) {
            machine.set_property(name, None);
        }
    }
    for (name, value) in file.properties().iter() {
        let writable = rule(kind, name).is_none_or(|rule| rule.writable);
        // The state of a CPU in a file is the state at the time of saving; it is not a request.
        let told = kind == ElementKind::Cpu && takes(name) == Takes::Status;
        if writable && !told && name != NEXT_ID {
            machine.set_property(name, Some(value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, State};
    use std::collections::BTreeMap;

    fn machine() -> PoolsState {
        let conf = PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)));
        PoolsState { conf, keep_others: false, zones: BTreeMap::new() }
    }

    /// A configuration with sets of these names and numbers, each with a pool.
    fn conf(sets: &[(&str, Option<u32>)]) -> PoolsConf {
        let mut conf = machine().conf;
        for (name, number) in sets {
            conf.psets.push(PsetNode::new(name, *name, number.map(PsetId)));
            conf.pools.push(PoolNode::new(name, format!("pool {name}"), *name, None));
        }
        conf
    }

    fn numbers(state: PoolsState) -> Vec<(String, u32)> {
        let state = state.numbered();
        let with_pool = state.sets().len() == state.conf.pools.len();
        assert!(with_pool, "every pool found its set");
        state.conf.psets.iter().skip(1).map(|s| (s.name.clone(), s.id.unwrap().0)).collect()
    }

    #[test]
    fn a_set_keeps_the_number_that_its_file_says() {
        let file = conf(&[("web", Some(2)), ("new", None), ("shop", Some(5))]);
        let state = numbers(instantiate(&file, &machine()).unwrap());
        assert_eq!(state, [("web".into(), 2), ("new".into(), 1), ("shop".into(), 5)]);
    }

    #[test]
    fn a_number_that_somebody_has_is_not_given_twice() {
        let mut before = machine();
        before.conf.psets.push(PsetNode::new("stays", "pset_3", Some(PsetId(3))));
        let file = conf(&[("stays", Some(7)), ("web", Some(2)), ("twin", Some(2)), ("late", Some(3))]);
        let state = numbers(instantiate(&file, &before).unwrap());
        let expected = [("stays", 3), ("web", 2), ("twin", 1), ("late", 4)];
        assert_eq!(state, expected.map(|(name, number)| (name.to_owned(), number)));
    }
}
