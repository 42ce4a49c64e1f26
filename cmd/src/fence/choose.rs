//! Chooses CPUs for a fence: whole cores that are in no set.

use crate::failure::{Complaint, Failure, facet, read};
use millpond_machine::Machine;
use millpond_machine::facets::DevicePlace;
use millpond_model::{CpuId, CpuSet, LgrpId};
use std::collections::BTreeMap;

/// What was chosen, and why.
pub(super) struct Choice {
    /// The CPUs.
    pub cpus: Vec<CpuId>,
    /// A sentence.
    pub why: String,
}

/// So many whole cores of one lgroup if one has them, the last ones first: programs and interrupts that chose a CPU by its number
/// chose a low one. The core of the lowest CPU stays. Near a device only cores near it are taken, and those last that take its interrupts.
///
/// # Errors
/// [`Failure::Refused`] where there are not so many.
pub(super) fn cores(
    count: usize,
    near: Option<(&str, DevicePlace)>,
    machine: &dyn Machine,
) -> Result<Choice, Failure> {
    let processors = facet("processors", machine.processors())?;
    let topology = read("processors", processors.topology())?;
    let states = read("processors", processors.states())?;
    let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
    let taken: CpuSet = sets.iter().flat_map(|set| set.members.iter().copied()).collect();
    let online: CpuSet = states.iter().filter(|s| s.state.runs_threads()).map(|s| s.cpu).collect();
    let mut cores: BTreeMap<LgrpId, Vec<CpuSet>> = BTreeMap::new();
    for core in topology.cores() {
        let cpus: CpuSet = core.cpus.iter().filter(|cpu| online.contains(*cpu)).collect();
        let is_first = online.lowest().is_some_and(|cpu| cpus.contains(cpu));
        let is_near = near.as_ref().is_none_or(|(_, device)| cpus.is_subset(&device.near));
        if cpus.is_empty() || is_first || !is_near || !cpus.is_disjoint(&taken) {
            continue;
        }
        let group = cpus
            .lowest()
            .and_then(|cpu| topology.processor(cpu).map(|processor| processor.lgroup))
            .unwrap_or(LgrpId(0));
        cores.entry(group).or_default().push(cpus);
    }
    let free: usize = cores.values().map(Vec::len).sum();
    let whereabouts = near.as_ref().map(|(name, _)| format!(" near {name}")).unwrap_or_default();
    if free < count {
        let cores = if free == 1 { "core" } else { "cores" };
        let are = if free == 1 { "is" } else { "are" };
        let why = format!("{free} {cores}{whereabouts} {are} in no set, beside the one of the lowest CPU");
        return Err(Complaint::new(format!("fence {count} cores"), why)
            .hint("psrset -i -v lists the sets that there are")
            .into());
    }
    let one = cores.iter().rev().find(|(_, cores)| cores.len() >= count).map(|(group, _)| *group);
    let all = cores.iter().filter(|(group, _)| one.is_none_or(|one| one == **group));
    let groups = cores.len();
    let mut free: Vec<&CpuSet> = all.flat_map(|(_, cores)| cores).collect();
    let busy = near.as_ref().map(|(_, device)| device.interrupts.clone()).unwrap_or_default();
    // Stable: among equals the last ones stay last.
    free.sort_by_key(|core| core.is_disjoint(&busy));
    let mut chosen = free.split_off(free.len() - count);
    chosen.sort_by_key(|core| core.lowest());
    let cpus: Vec<CpuId> = chosen.iter().flat_map(|core| core.iter()).collect();
    let list: CpuSet = cpus.iter().copied().collect();
    let cores = if count == 1 { "free core".to_owned() } else { format!("{count} free cores") };
    let which = match (&near, one) {
        (Some((name, _)), _) => format!("{cores} near {name}{}", interrupts(&busy, &list)),
        (None, Some(group)) if groups > 1 => format!("the last {cores} of lgroup {group}"),
        (None, Some(_)) => format!("the last {cores} of this machine"),
        (None, None) => format!("the last {cores} of several lgroups, as none has so many"),
    };
    let are = if list.len() == 1 { "is" } else { "are" };
    Ok(Choice { cpus, why: format!("{} {are} {which}", list.named()) })
}

/// What becomes of a device's interrupts.
fn interrupts(busy: &CpuSet, chosen: &CpuSet) -> String {
    if busy.is_empty() {
        return String::new();
    }
    let inside = busy & chosen;
    if inside.is_empty() {
        return format!(", whose interrupts come to {}", busy.named());
    }
    format!(", whose interrupts come to {} now", inside.named())
}
