//! The probe's CPU, and the set that is created for it during the measurement.

use super::options::Options;
use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use millpond_cli::Common;
use millpond_machine::facets::{LatencyProbe, Place, PlacePlan};
use millpond_machine::{Machine, Subject};
use millpond_model::{CpuId, CpuSet, LgrpId, Pid, PsetId, State};
use millpond_session::own_pid;
use std::collections::BTreeMap;

/// The requested CPU. By default, the highest free CPU of the locality group with the most free CPUs.
pub(super) fn choose(machine: &dyn Machine, asked: Option<CpuId>) -> Result<CpuId, Failure> {
    if let Some(cpu) = asked {
        return Ok(cpu);
    }
    let processors = facet("processors", machine.processors())?;
    let states = read("processors", processors.states())?;
    let topology = read("processors", processors.topology())?;
    let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
    let reserved = read("processors", processors.reserved())?.partitions;
    let taken = |cpu: CpuId| reserved.contains(cpu) || sets.iter().any(|set| set.members.contains(&cpu));
    let free = |cpu: CpuId| states.iter().any(|status| status.cpu == cpu && status.state == State::OnLine);
    let mut groups: BTreeMap<LgrpId, Vec<CpuId>> = BTreeMap::new();
    for processor in topology.processors().iter().filter(|p| free(p.id) && !taken(p.id)) {
        groups.entry(processor.lgroup).or_default().push(processor.id);
    }
    // The first one of equally large groups.
    let best = groups.into_values().rev().max_by_key(Vec::len);
    best.and_then(|cpus| cpus.into_iter().max()).ok_or_else(|| {
        let why = "no CPU of the default set is on-line and takes interrupts";
        Complaint::new("choose a CPU", why).hint("name one: --cpu").into()
    })
}

fn names(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Processor(cpu) => Some(format!("measure on CPU {cpu}")),
        _ => None,
    }
}

const MAKE: &str = "make a place to measure";

/// Requested placement.
fn wanted(cpu: CpuId, options: &Options) -> PlacePlan {
    let Options { keep_others, .. } = *options;
    PlacePlan { cpu, keep_others, owner: own_pid(), timerlat: options.timerlat() }
}

/// Shows the steps of a dry run.
pub(super) fn only_shown(
    machine: &dyn Machine,
    probe: &dyn LatencyProbe,
    cpu: CpuId,
    options: &Options,
    common: &Common,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let mut changer = Changer::open(machine, common, ctx)?;
    changer.attempt(ctx, MAKE, names, probe.prepare_place(&wanted(cpu, options)));
    Ok(changer.finish(ctx))
}

/// Makes a change with a writer that holds the lock only for this change.
fn change<T>(
    machine: &dyn Machine,
    ctx: &mut Ctx<'_>,
    what: &str,
    prepare: impl FnOnce() -> Result<millpond_machine::Change<T>, millpond_machine::Refusal>,
) -> Result<T, Failure> {
    let mut changer = Changer::open(machine, &Common::default(), ctx)?;
    let refused = |refusal| Failure::Refused(Complaint::refused(what, names, &refusal));
    let made = changer.make(ctx, prepare().map_err(refused)?).map_err(refused)?;
    made.ok_or_else(|| Complaint::new(what, "nothing was changed").into())
}

/// Makes a set of the CPU, and binds the probe to it.
pub(super) fn take(
    machine: &dyn Machine,
    probe: &dyn LatencyProbe,
    (cpu, options): (CpuId, &Options),
    pid: Pid,
    ctx: &mut Ctx<'_>,
) -> Result<Place, Failure> {
    let place = change(machine, ctx, MAKE, || probe.prepare_place(&wanted(cpu, options)))?;
    match bind(machine, pid, (place.cpu, place.set), ctx) {
        Ok(()) => Ok(place),
        Err(failure) => {
            // The failed binding is reported. A failure of this undo would only hide it.
            let _ = leave(machine, probe, &place, ctx);
            Err(failure)
        }
    }
}

/// Binds a probe to the set, or to the CPU if that stayed in the default set.
pub(super) fn bind(
    machine: &dyn Machine,
    pid: Pid,
    (cpu, set): (CpuId, PsetId),
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    let threads = facet("bindings", machine.threads())?;
    if set.is_default() {
        let what = format!("bind the thread that measures to CPU {cpu}");
        return change(machine, ctx, &what, || {
            threads.prepare_bind_cpus(pid, None, &CpuSet::from_iter([cpu]))
        })
        .map(drop);
    }
    let what = format!("bind the thread that measures to set {set}");
    change(machine, ctx, &what, || threads.prepare_bind_set(pid, None, Some(set))).map(drop)
}

/// Restores the CPU.
pub(super) fn leave(
    machine: &dyn Machine,
    probe: &dyn LatencyProbe,
    place: &Place,
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    change(machine, ctx, &format!("remove processor set {}", place.set), || probe.prepare_leave(place))
}
