//! Checks that a configuration is valid, and possible on a machine.

use crate::error::{Code, PoolError};
use crate::values;
use millpond_model::CpuSet;
use millpond_model::pools::{PoolsConf, PsetNode};
use std::collections::BTreeSet;

fn invalid(why: impl Into<String>) -> PoolError {
    PoolError::hinted(Code::InvalidConf, why)
}

/// Checks a configuration by itself: at most one default pool and one default set, no name and no CPU twice, no pool without a set,
/// no minimum above its maximum, and an existing policy.
///
/// # Errors
/// [`Code::InvalidConf`], naming the first error.
pub fn whole(conf: &PoolsConf) -> Result<(), PoolError> {
    if let Some(policy) = conf.system.user.get(values::POLICY_PROPERTY) {
        values::policy(policy)?;
    }
    let defaults = conf.pools.iter().filter(|p| p.is_default).count();
    if defaults > 1 {
        return Err(invalid(format!("{defaults} pools say that they are the default one")));
    }
    let defaults = conf.psets.iter().filter(|s| s.is_default).count();
    if defaults > 1 {
        return Err(invalid(format!("{defaults} psets say that they are the default one")));
    }
    let mut names = BTreeSet::new();
    for pool in &conf.pools {
        if !names.insert(&pool.name) {
            return Err(invalid(format!("there are two pools {}", pool.name)));
        }
        if conf.pset_of(pool).is_none() {
            return Err(invalid(format!("pool {} refers to a pset that is not there", pool.name)));
        }
    }
    let mut names = BTreeSet::new();
    let mut cpus = CpuSet::new();
    for pset in &conf.psets {
        let name = &pset.name;
        if !names.insert(name) {
            return Err(invalid(format!("there are two psets {name}")));
        }
        if pset.min > pset.max {
            let (min, max) = (pset.min, pset.max);
            return Err(invalid(format!("the minimum of pset {name}, {min}, is above its maximum, {max}")));
        }
        for cpu in pset.cpus() {
            if !cpus.insert(cpu.id) {
                return Err(invalid(format!("CPU {} is in two psets; one is {name}", cpu.id)));
            }
        }
    }
    Ok(())
}

/// Whether the configuration is possible on a machine with `cpus` CPUs: the sum of minima fits, the sum of maxima is large enough, and the
/// default pool has the default set.
///
/// # Errors
/// [`Code::InvalidConf`], with the figures.
pub fn possible(conf: &PoolsConf, cpus: u64) -> Result<(), PoolError> {
    whole(conf)?;
    let sum = |of: fn(&PsetNode) -> u64| conf.psets.iter().map(of).fold(0, u64::saturating_add);
    let (mins, maxes) = (sum(|s| s.min), sum(|s| s.max));
    // A machine always has a default set, which needs one CPU and takes any number.
    let absent = conf.default_pset().is_none();
    let mins = if absent { mins.saturating_add(1) } else { mins };
    if mins > cpus {
        return Err(invalid(format!("all minima together are {mins}, and there are {cpus} CPUs")));
    }
    if maxes < cpus && !absent {
        return Err(invalid(format!("all maxima together are {maxes}, and there are {cpus} CPUs")));
    }
    if let Some(pool) = conf.default_pool()
        && conf.pset_of(pool).is_some_and(|s| !s.is_default)
    {
        let why = format!("pool {} is the default one, and does not have the default pset", pool.name);
        return Err(invalid(why));
    }
    Ok(())
}
