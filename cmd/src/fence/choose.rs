//! Chooses the cores of a fence.

use crate::failure::{Complaint, Failure, facet, read};
use millpond_machine::Machine;
use millpond_machine::facets::DevicePlace;
use millpond_model::{CoreKind, CpuId, CpuSet, Topology};
use millpond_planner::{ChosenCores, CorePlace, CoreWish, choose_cores};

/// The chosen CPUs, with the reason.
pub(super) struct Choice {
    /// The CPUs.
    pub cpus: Vec<CpuId>,
    /// The reason, as a sentence.
    pub why: String,
}

/// The requested cores.
pub(super) struct Cores<'a> {
    /// The number of cores.
    pub count: usize,
    /// The device to be near, with its name.
    pub near: Option<(&'a str, DevicePlace)>,
    /// The other strands go off-line: one CPU of each core.
    pub one_strand: bool,
    /// Threads may be unbound from the CPUs.
    pub forced: bool,
}

/// Chooses cores that no set, no other program and no bound thread has. With a device, only cores near it are chosen, and those that take its
/// interrupts come last. CPUs that are isolated at boot come last, too.
///
/// # Errors
/// [`Failure::Refused`] if there are too few.
pub(super) fn cores(wish: &Cores<'_>, machine: &dyn Machine) -> Result<Choice, Failure> {
    let Cores { count, near, .. } = wish;
    let processors = facet("processors", machine.processors())?;
    let topology = read("processors", processors.topology())?;
    let states = read("processors", processors.states())?;
    let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
    let reserved = read("processors", processors.reserved())?;
    let in_sets: CpuSet = sets.iter().flat_map(|set| set.members.iter().copied()).collect();
    let online: CpuSet = states.iter().filter(|s| s.state.runs_threads()).map(|s| s.cpu).collect();
    let bound = if wish.forced { CpuSet::new() } else { reserved.bound.clone() };
    let taken = &(&in_sets | &reserved.partitions) | &bound;
    let busy = near.as_ref().map(|(_, device)| device.interrupts.clone()).unwrap_or_default();
    let last = &(&busy | &reserved.isolated) | &reserved.bound;
    let within = near.as_ref().map(|(_, device)| &device.near);
    let asked = CoreWish {
        count: *count,
        topology: &topology,
        online: &online,
        taken: &taken,
        last: &last,
        near: within,
    };
    let whereabouts = near.as_ref().map(|(name, _)| format!(" near {name}")).unwrap_or_default();
    let chosen = choose_cores(&asked).map_err(|free| {
        let first = online.lowest().map(|cpu| &topology.siblings(cpu) & &online).unwrap_or_default();
        let left_out = [
            (&first, "stays with the system", "stay with the system"),
            (&in_sets, "is in a set", "are in sets"),
            (
                &reserved.partitions,
                "is in a partition of another program",
                "are in partitions of other programs",
            ),
            (&bound, "has threads bound to it", "have threads bound to them"),
        ];
        let reasons = left_out.iter().filter(|(cpus, ..)| !cpus.is_empty());
        let reasons: Vec<String> = reasons
            .map(|(cpus, one, several)| {
                format!("{} {}", cpus.named(), if cpus.len() == 1 { one } else { several })
            })
            .collect();
        let (cores, are) = if free == 1 { ("core", "is") } else { ("cores", "are") };
        let why = format!("{free} {cores}{whereabouts} {are} free: {}", reasons.join(", "));
        Complaint::new(format!("fence {count} {}", if *count == 1 { "core" } else { "cores" }), why)
            .hint("psrset -i -v lists the sets; numbers of CPUs in place of --cores choose any of them")
    })?;
    let first = |core: &CpuSet| core.lowest().into_iter().collect();
    let cores = chosen.cores.iter().map(|core| if wish.one_strand { first(core) } else { core.clone() });
    let cpus: Vec<CpuId> = cores.flat_map(|core| core.iter().collect::<Vec<_>>()).collect();
    let list: CpuSet = cpus.iter().copied().collect();
    let place = near.as_ref().map_or_else(
        || place(&chosen.place, *count),
        |(name, _)| format!(" near {name}{}", interrupts(&busy, &list)),
    );
    let isolated = &list & &reserved.isolated;
    let at_boot =
        if isolated.is_empty() { String::new() } else { format!("; {} isolated at boot", is(&isolated)) };
    Ok(Choice { why: format!("{}{place}{at_boot}", kinds(wish, &list, &chosen, &topology)), cpus })
}

/// `CPU 3 is`, `CPUs 3-4 are`.
fn is(cpus: &CpuSet) -> String {
    format!("{} {}", cpus.named(), if cpus.len() == 1 { "is" } else { "are" })
}

/// `CPUs 2-3 are 2 free cores`, with the kind of core on a hybrid machine.
fn kinds(wish: &Cores<'_>, list: &CpuSet, chosen: &ChosenCores, topology: &Topology) -> String {
    let kind = |core: &CpuSet| core.lowest().and_then(|cpu| topology.processor(cpu)).map(|p| p.kind);
    let first = chosen.cores.first().and_then(kind).unwrap_or_default();
    let same = first != CoreKind::Uniform && chosen.cores.iter().all(|core| kind(core) == Some(first));
    let kind = if same { format!("{first} ") } else { String::new() };
    let strand = if wish.one_strand { "one strand each of " } else { "" };
    let cores = match (wish.count, wish.one_strand) {
        (1, false) => format!("a free {kind}core"),
        (1, true) => format!("one strand of a free {kind}core"),
        (count, _) => format!("{strand}{count} free {kind}cores"),
    };
    format!("{} {cores}", is(list))
}

/// The common cache or locality group of the cores.
fn place(place: &CorePlace, count: usize) -> String {
    match place {
        CorePlace::Cache(level) => format!(" that share an L{level} cache"),
        CorePlace::Lgroup(group) => format!(" of lgroup {group}"),
        CorePlace::Lgroups(groups) => format!(" of {groups} lgroups: no lgroup has {count}"),
        CorePlace::Machine => String::new(),
    }
}

/// The effect on the device's interrupts.
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
