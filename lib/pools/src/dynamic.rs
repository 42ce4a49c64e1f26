//! The configuration of the machine: reads and commits it.

use crate::error::{Code, PoolError, errno};
use millpond_machine::facets::Member;
use millpond_machine::{Change, Committed, Machine, Pools, Reason, Refusal, Writer};
use millpond_model::pools::{PoolsConf, PoolsState, RefId};
use millpond_model::{CpuId, PoolId, PsetId};
use std::collections::{BTreeMap, BTreeSet};

/// The configuration of the machine.
///
/// # Errors
/// [`errno::NOT_ACTIVE`] if pools are disabled.
pub fn read(machine: &dyn Machine) -> Result<PoolsState, PoolError> {
    state(machine)?.ok_or_else(PoolError::not_active)
}

/// The same with the load of each set, if the machine measures it: the current number of running and waiting threads, in thousandths as in Solaris.
///
/// # Errors
/// [`errno::NOT_ACTIVE`] if pools are disabled.
pub fn read_loaded(machine: &dyn Machine) -> Result<PoolsState, PoolError> {
    let mut state = read(machine)?;
    let Some(load) = machine.accounting().ok().and_then(|facet| facet.load().ok()) else { return Ok(state) };
    for pset in &mut state.conf.psets {
        let of = pset.id.and_then(|id| load.get(&id)).copied().unwrap_or(0);
        pset.load = Some(of.saturating_mul(1000));
    }
    Ok(state)
}

/// The same; `None` if pools are disabled.
///
/// # Errors
/// If the machine has no pools, or cannot be read.
pub fn state(machine: &dyn Machine) -> Result<Option<PoolsState>, PoolError> {
    Ok(pools(machine)?.state()?)
}

fn pools(machine: &dyn Machine) -> Result<&dyn Pools, PoolError> {
    machine.pools().map_err(|absent| {
        let hint = absent.what_would_help.map(|help| format!("{}; {help}", absent.why));
        PoolError { code: Code::System(errno::NOT_SUPPORTED), hint: hint.or(Some(absent.why)) }
    })
}

/// The configuration of a machine on which pools were just enabled.
///
/// # Errors
/// If the machine cannot be read.
pub fn fresh(machine: &dyn Machine, keep_others: bool) -> Result<PoolsState, PoolError> {
    let processors = machine.processors().map_err(Refusal::from)?;
    let (states, reserved) = (processors.states()?, processors.reserved()?);
    let cpus = states.into_iter().filter(|s| !reserved.partitions.contains(s.cpu)).map(|s| (s.cpu, s.state));
    Ok(PoolsState { conf: PoolsConf::fresh(cpus), keep_others, zones: BTreeMap::new() })
}

/// The sets with processes or zones, through their pools.
///
/// # Errors
/// If the machine cannot be read.
pub fn occupied(machine: &dyn Machine, state: &PoolsState) -> Result<BTreeSet<PsetId>, PoolError> {
    let sets = state.sets();
    let members = pools(machine)?.members()?;
    let all = members.values().chain(state.zones.values());
    Ok(all.filter_map(|pool| sets.get(pool).copied()).collect())
}

/// Enables pools. `None` if they are enabled already.
///
/// # Errors
/// [`errno::BUSY`] if there are processor sets.
pub fn enable(
    writer: &Writer<'_>,
    machine: &dyn Machine,
    keep_others: bool,
) -> Result<Option<Committed<Option<PoolsState>>>, PoolError> {
    if state(machine)?.is_some() {
        return Ok(None);
    }
    let to = fresh(machine, keep_others)?;
    Ok(Some(writer.commit(pools(machine)?.prepare_commit(Some(to))?)?))
}

/// Removes every pool and set except the default ones; properties of the system stay (`pooladm -x`).
#[must_use]
pub fn emptied(mut state: PoolsState) -> PoolsState {
    emptied_conf(&mut state.conf);
    state.zones.clear();
    state
}

/// The same for a configuration alone.
pub fn emptied_conf(conf: &mut PoolsConf) {
    let Some(default) = conf.default_pset().map(|s| s.name.clone()) else { return };
    let all: Vec<CpuId> = conf.cpus().map(|c| c.id).collect();
    for cpu in all {
        conf.move_cpu(cpu, &default);
    }
    conf.pools.retain(|pool| pool.is_default);
    conf.psets.retain(|set| set.is_default);
}

/// The part of the machine's configuration that is written to files: everything that is not temporary.
#[must_use]
pub fn exported(mut conf: PoolsConf) -> PoolsConf {
    let refs: Vec<RefId> = conf.psets.iter().filter(|s| s.is_temporary()).map(|s| s.ref_id.clone()).collect();
    let default = conf.default_pset().map(|s| s.ref_id.clone()).unwrap_or_default();
    conf.pools.retain(|pool| !pool.is_temporary());
    conf.psets.retain(|set| !set.is_temporary());
    for pool in conf.pools.iter_mut().filter(|p| refs.contains(&p.pset)) {
        pool.pset.clone_from(&default);
    }
    conf
}

/// Prepares another configuration of the machine as one change; `None` disables pools.
///
/// # Errors
/// The error number for the refusal of the machine.
pub fn prepare(
    machine: &dyn Machine,
    to: Option<PoolsState>,
) -> Result<Change<Option<PoolsState>>, PoolError> {
    pools(machine)?.prepare_commit(to).map_err(refused)
}

/// Commits a configuration as one change.
///
/// # Errors
/// The error number for the refusal of the machine; nothing is changed then.
pub fn commit(
    writer: &Writer<'_>,
    machine: &dyn Machine,
    to: Option<PoolsState>,
) -> Result<Committed<Option<PoolsState>>, PoolError> {
    writer.commit(prepare(machine, to)?).map_err(refused)
}

/// The error for a refused change of the configuration. A set with processes that loses its last CPU is busy, as on Solaris.
#[must_use]
pub fn refused(refusal: Refusal) -> PoolError {
    let busy = matches!(refusal.reason, Reason::EmptyPset(_));
    let mut error = PoolError::from(refusal);
    if busy {
        error.code = Code::System(errno::BUSY);
    }
    error
}

/// Binds a process or a zone to a pool.
///
/// # Errors
/// The error number for the refusal of the machine.
pub fn bind(
    writer: &Writer<'_>,
    machine: &dyn Machine,
    member: &Member,
    to: PoolId,
) -> Result<Committed<()>, PoolError> {
    Ok(writer.commit(prepare_bind(machine, member, to)?)?)
}

/// Prepares to bind a process or a zone to a pool.
///
/// # Errors
/// The error number for the refusal of the machine.
pub fn prepare_bind(machine: &dyn Machine, member: &Member, to: PoolId) -> Result<Change<()>, PoolError> {
    Ok(pools(machine)?.prepare_join(member, to)?)
}
