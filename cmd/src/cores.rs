//! Cores with strands in more than one set: taking whole cores, and hints about split ones.

use crate::failure::{Failure, facet, read};
use millpond_machine::{ActiveCores, Machine, Psets};
use millpond_model::{CpuId, CpuSet, PsetId};

/// The CPUs, followed by the other on-line strands of their cores. CPUs that do not exist stay in the list, and the
/// machine refuses them.
pub fn whole(cpus: &[CpuId], machine: &dyn Machine) -> Result<Vec<CpuId>, Failure> {
    look(cpus, machine).map(|cores| cores.whole(cpus))
}

fn look(cpus: &[CpuId], machine: &dyn Machine) -> Result<ActiveCores, Failure> {
    facet("processors", machine.processors())?;
    read("processors", ActiveCores::of(machine, cpus))
}

/// A message if these CPUs move to a set (possibly the default one) without all of their cores. Must be called before
/// the change.
pub fn split(
    cpus: &[CpuId],
    to: Option<PsetId>,
    psets: &dyn Psets,
    machine: &dyn Machine,
) -> Result<Option<String>, Failure> {
    let cores = look(cpus, machine)?;
    let named: CpuSet = cpus.iter().copied().collect();
    if cpus.iter().all(|cpu| cores.strands(*cpu).is_subset(&named)) {
        return Ok(None);
    }
    let sets = if to.is_some() { read("processor sets", psets.list())? } else { Vec::new() };
    let inside = match to {
        None => named.clone(),
        Some(set) if set.is_default() => {
            let others = sets.iter().fold(CpuSet::new(), |all, set| &all | &set.cpus());
            &(cores.active() - &others) | &named
        }
        Some(set) => {
            let found = sets.iter().find(|found| found.id == set);
            &found.map(millpond_model::Pset::cpus).unwrap_or_default() | &named
        }
    };
    let is_split = |cpu: &CpuId| !(&cores.strands(*cpu) - &inside).is_empty();
    let torn: CpuSet = cpus.iter().copied().filter(is_split).collect();
    let mut beside = CpuSet::new();
    for strand in torn.iter().flat_map(|cpu| cores.strands(cpu).iter().collect::<Vec<_>>()) {
        beside.insert(strand);
    }
    Ok((!torn.is_empty()).then(|| sentence(&torn, &(&beside - &inside))))
}

fn sentence(torn: &CpuSet, beside: &CpuSet) -> String {
    let verb = if torn.len() == 1 { "shares its core" } else { "share cores" };
    let torn = torn.named();
    format!("{torn} {verb} with {beside}, outside the set; --whole-cores takes whole cores")
}
