//! Cores whose strands are in more than one set: taking whole ones, and saying where one is split.

use crate::failure::{Failure, facet, read};
use millpond_machine::{Machine, Psets};
use millpond_model::{CoreId, CpuId, CpuSet, PsetId, Topology};
use std::collections::BTreeMap;

/// The processors with the other on-line strands of their cores behind them. What does not exist stays, for the machine to refuse.
pub fn whole(cpus: &[CpuId], machine: &dyn Machine) -> Result<Vec<CpuId>, Failure> {
    let (cores, active) = look(machine)?;
    let mut all = cpus.to_vec();
    let mut named: CpuSet = cpus.iter().copied().collect();
    for &cpu in cpus {
        let strands = cores.strands(cpu, &active);
        all.extend(strands.iter().filter(|strand| named.insert(*strand)));
    }
    Ok(all)
}

/// What to say where these processors went to a set (the default one included) without all of their cores. To be asked before the change.
pub fn split(
    cpus: &[CpuId],
    to: Option<PsetId>,
    psets: &dyn Psets,
    machine: &dyn Machine,
) -> Result<Option<String>, Failure> {
    let (cores, active) = look(machine)?;
    let sets = read("processor sets", psets.list())?;
    let named: CpuSet = cpus.iter().copied().collect();
    let inside = match to {
        None => named.clone(),
        Some(set) if set.is_default() => {
            let others = sets.iter().fold(CpuSet::new(), |all, set| &all | &set.cpus());
            &(&active - &others) | &named
        }
        Some(set) => {
            let found = sets.iter().find(|found| found.id == set);
            &found.map(millpond_model::Pset::cpus).unwrap_or_default() | &named
        }
    };
    let is_split = |cpu: &CpuId| !(&cores.strands(*cpu, &active) - &inside).is_empty();
    let torn: CpuSet = cpus.iter().copied().filter(is_split).collect();
    let mut beside = CpuSet::new();
    for strand in torn.iter().flat_map(|cpu| cores.strands(cpu, &active).iter().collect::<Vec<_>>()) {
        beside.insert(strand);
    }
    Ok((!torn.is_empty()).then(|| sentence(&torn, &(&beside - &inside))))
}

fn sentence(torn: &CpuSet, beside: &CpuSet) -> String {
    let verb = if torn.len() == 1 { "shares its core" } else { "share cores" };
    let torn = torn.named();
    format!("{torn} {verb} with {beside}, outside the set; --whole-cores takes whole cores")
}

fn look(machine: &dyn Machine) -> Result<(Cores, CpuSet), Failure> {
    let processors = facet("processors", machine.processors())?;
    let states = read("processors", processors.states())?;
    let active =
        states.iter().filter(|status| status.state.runs_threads()).map(|status| status.cpu).collect();
    let topology = read("processors", processors.topology())?;
    let cpus = topology.cores().into_iter().map(|core| (core.id, core.cpus)).collect();
    Ok((Cores { topology, cpus }, active))
}

struct Cores {
    topology: Topology,
    cpus: BTreeMap<CoreId, CpuSet>,
}

impl Cores {
    /// The on-line strands of a processor's core.
    fn strands(&self, cpu: CpuId, active: &CpuSet) -> CpuSet {
        let core = self.topology.processor(cpu).and_then(|processor| self.cpus.get(&processor.core));
        core.map(|cpus| cpus & active).unwrap_or_default()
    }
}
