//! The listings of `psrset`.

use super::memory;
use super::sets::{number, psets, unknown};
use crate::bindings;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::operands;
use millpond_cli::Parsed;
use millpond_formats::{CpuOperand, psrset as listing};
use millpond_machine::Machine;
use millpond_machine::facets::ProcessorStatus;
use millpond_model::{CpuId, CpuSet, GroupId, Pset, PsetId, PsetMode};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// `-i`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Sets<'a> {
    sets: Vec<Set<'a>>,
    default: DefaultSet,
}

/// The default set: CPUs that are in no other set, and that no other program has reserved.
#[derive(Serialize, JsonSchema)]
struct DefaultSet {
    processors: Vec<CpuId>,
}

#[derive(Serialize, JsonSchema)]
struct Set<'a> {
    id: PsetId,
    /// Its CPUs in order of assignment, off-line ones included.
    processors: &'a [CpuId],
    /// CPUs that run threads.
    active: Vec<CpuId>,
    mode: PsetMode,
    /// Violations of its exclusiveness.
    breaches: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

/// The memory of a set that confines it.
#[derive(Serialize, JsonSchema)]
struct Memory {
    /// `local`, or a list of lgroups.
    wanted: String,
    /// The lgroups to which this resolves now.
    lgroups: Vec<GroupId>,
}

/// `-p`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Assignments {
    processors: Vec<Assignment>,
}

#[derive(Serialize, JsonSchema)]
struct Assignment {
    id: CpuId,
    /// Null for the default set.
    set: Option<PsetId>,
}

fn states(machine: &dyn Machine) -> Result<Vec<ProcessorStatus>, Failure> {
    read("processors", facet("processors", machine.processors())?.states())
}

/// Prints `-i`.
pub(super) fn sets(wanted: &[PsetId], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let all = read("processor sets", psets(machine)?.list())?;
    let mut exit = Exit::DONE;
    let mut shown: Vec<&Pset> = Vec::new();
    for id in wanted {
        match all.iter().find(|set| set.id == *id) {
            Some(set) => shown.push(set),
            None => {
                let main = format!("show processor set {id}");
                ctx.complain(&Complaint::refused(&main, |_| Some(main.clone()), &unknown(*id)));
                exit = Exit::REFUSED;
            }
        }
    }
    if wanted.is_empty() {
        shown.extend(&all);
    }
    if shown.is_empty() && !parsed.common.json {
        return Ok(exit);
    }
    let states = states(machine)?;
    let runs: CpuSet = states.iter().filter(|s| s.state.runs_threads()).map(|s| s.cpu).collect();
    // An off-line CPU stays a member, and is not listed.
    let active = |set: &Pset| -> Vec<CpuId> {
        set.members.iter().copied().filter(|cpu| runs.contains(*cpu)).collect()
    };
    if parsed.common.json {
        let members: CpuSet = all.iter().flat_map(|set| set.members.iter().copied()).collect();
        let reserved = read("processors", facet("processors", machine.processors())?.reserved())?;
        let taken = &reserved.partitions | &members;
        let free = states.iter().map(|s| s.cpu).filter(|cpu| !taken.contains(*cpu)).collect();
        let sets = shown
            .iter()
            .map(|set| Set {
                id: set.id,
                processors: &set.members,
                active: active(set),
                mode: set.mode,
                breaches: &set.breaches,
                memory: memory::shown(machine, set.id).map(|(wanted, lgroups)| Memory { wanted, lgroups }),
            })
            .collect();
        ctx.json(&Sets { sets, default: DefaultSet { processors: free } });
        return Ok(exit);
    }
    for set in shown {
        ctx.out.line(listing::set_line(set.id, &active(set)));
        if parsed.has('v') {
            ctx.out.text(&listing::set_details(set));
            if let Some((wanted, lgroups)) = memory::shown(machine, set.id) {
                ctx.out.text(&listing::set_memory(&wanted, &lgroups));
            }
        }
    }
    Ok(exit)
}

/// Prints `-p`.
pub(super) fn processors(
    operands: &[CpuOperand],
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let sets = read("processor sets", psets(machine)?.list())?;
    let members: BTreeMap<CpuId, PsetId> =
        sets.iter().flat_map(|set| set.members.iter().map(|cpu| (*cpu, set.id))).collect();
    let mut exit = Exit::DONE;
    let mut shown: Vec<(CpuId, PsetId)> = Vec::new();
    if operands.is_empty() {
        shown.extend(members.iter().map(|(cpu, set)| (*cpu, *set)));
    } else {
        let present = operands::present(machine)?;
        for one in operands::expand(operands, machine, |noun| format!("query {noun}"))? {
            let complaint = match one {
                Ok(cpu) if present.contains(cpu) => {
                    shown.push((cpu, members.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)));
                    continue;
                }
                Ok(cpu) => {
                    let reason = operands::no_such_processor(&present);
                    Complaint::new(format!("query processor {cpu}"), reason)
                }
                Err(complaint) => complaint,
            };
            ctx.complain(&complaint);
            exit = Exit::REFUSED;
        }
    }
    if parsed.common.json {
        let one = |(id, set)| Assignment { id, set: number(set) };
        ctx.json(&Assignments { processors: shown.into_iter().map(one).collect() });
    } else {
        for (cpu, set) in shown {
            ctx.out.line(listing::assignment(cpu, set));
        }
    }
    Ok(exit)
}

/// Prints `-Q`.
pub(super) fn bound(sets: &[PsetId], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let (known, unknown) = existing(sets, session.machine(), "query")?;
    unknown.iter().for_each(|complaint| ctx.complain(complaint));
    let of = if sets.is_empty() { None } else { Some(known.as_slice()) };
    bindings::query_lwps::<PsetId>(session.machine(), of, parsed.common.json, ctx)?;
    Ok(if unknown.is_empty() { Exit::DONE } else { Exit::REFUSED })
}

/// The sets that exist, and a complaint for each other one.
pub(super) fn existing(
    sets: &[PsetId],
    machine: &dyn Machine,
    verb: &str,
) -> Result<(Vec<PsetId>, Vec<Complaint>), Failure> {
    if sets.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let all = read("processor sets", psets(machine)?.list())?;
    let (known, other): (Vec<PsetId>, Vec<PsetId>) =
        sets.iter().partition(|id| all.iter().any(|set| set.id == **id));
    let complain = |id: PsetId| {
        let main = format!("{verb} processor set {id}");
        Complaint::refused(&main, |_| Some(main.clone()), &unknown(id))
    };
    Ok((known, other.into_iter().map(complain).collect()))
}
