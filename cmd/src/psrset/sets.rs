//! The operations of `psrset` on sets and their CPUs.

use crate::bindings::{self, Cpus, Rebound};
use crate::change::Changer;
use crate::cores;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::operands;
use crate::psradm::phrase;
use crate::start::Started;
use millpond_cli::Parsed;
use millpond_formats::psrset as listing;
use millpond_machine::facets::{CreateOptions, StateChange};
use millpond_machine::{Machine, Psets, Reason, Refusal, Subject};
use millpond_model::{CpuId, CpuSet, Move, PsetId, State};
use schemars::JsonSchema;
use serde::Serialize;

/// The sets facet.
pub(super) fn psets(machine: &dyn Machine) -> Result<&dyn Psets, Failure> {
    facet("processor sets", machine.psets())
}

/// `-c`, `-a` and `-r`: one operation, all or nothing.
pub(super) fn move_processors(
    letter: char,
    words: &[String],
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let (to, words) = if letter == 'a' {
        let (set, words) = super::first(words)?;
        (operands::set(set)?, words)
    } else {
        (PsetId::DEFAULT, words)
    };
    if words.is_empty() && letter != 'c' {
        return Err(Failure::Usage("must specify at least one processor".into()));
    }
    let operands = operands::cpus(words)?;
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    let psets = psets(machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let verb = if letter == 'r' { "remove" } else { "assign" };
    let expanded = operands::expand(&operands, machine, |noun| format!("{verb} {noun}"))?;
    let cpus: Vec<CpuId> = match expanded.into_iter().collect::<Result<_, Complaint>>() {
        Ok(cpus) => cpus,
        Err(complaint) => {
            changer.refuse(ctx, complaint);
            return Ok(changer.finish(ctx));
        }
    };
    let cpus = if parsed.long("whole-cores") { cores::whole(&cpus, machine)? } else { cpus };
    let split = cores::split(&cpus, Some(to).filter(|_| letter != 'c'), psets, machine)?;
    let main = match letter {
        'c' => "create processor set".to_owned(),
        'a' => format!("assign to processor set {to}"),
        _ => "remove processors".to_owned(),
    };
    let names = |subject: &Subject| match subject {
        Subject::Processor(cpu) => Some(format!("{verb} processor {cpu}")),
        Subject::Pset(set) if *set == to => Some(main.clone()),
        _ => None,
    };
    let forced = parsed.has('F');
    if letter == 'c' {
        let options = CreateOptions { keep_others: parsed.long("keep-others") };
        let prepared = psets.prepare_create(&cpus, options, forced);
        if let Some((set, moves)) = changer.attempt(ctx, &main, names, prepared) {
            changer.report(ctx, Some(listing::created(set)), Done::Created { created: set });
            report_moves(&cpus, set, &moves, &mut changer, ctx);
            split.iter().for_each(|split| ctx.hint(split));
        }
    } else {
        // The default set takes CPUs only by -r: `-a 0` would suggest that it can be listed as a set.
        let prepared = if letter == 'a' && to.is_default() {
            let refusal = Refusal::new(Subject::Pset(to), Reason::DefaultPset);
            Err(refusal.hint("remove CPUs from their set instead: psrset -r"))
        } else {
            psets.prepare_assign(to, &cpus, forced)
        };
        if let Some(moves) = changer.attempt(ctx, &main, names, prepared) {
            report_moves(&cpus, to, &moves, &mut changer, ctx);
            split.iter().for_each(|split| ctx.hint(split));
        }
    }
    Ok(changer.finish(ctx))
}

/// Prints a line for each named CPU. CPUs that were already in the set did not move.
fn report_moves(cpus: &[CpuId], to: PsetId, moves: &[Move], changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
    for &cpu in cpus {
        let from = moves.iter().find(|m| m.cpu == cpu).map_or(to, |m| m.from);
        let done = Done::Assigned { processor: cpu, from: number(from), to: number(to) };
        changer.report(ctx, Some(listing::assigned(cpu, from, to)), done);
    }
}

/// Changes by `psrset`, in JSON.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Done {
    Created {
        created: PsetId,
    },
    Removed {
        removed: PsetId,
    },
    /// A CPU moved from one set to another; null is the default set.
    Assigned {
        processor: CpuId,
        from: Option<PsetId>,
        to: Option<PsetId>,
    },
    /// The lgroups that provide the memory of a set's processes: `all`, `local`, or a list.
    Memory {
        set: PsetId,
        from: String,
        memory: String,
    },
    Zone {
        zone: String,
        set: PsetId,
    },
    State(StateChange),
    #[expect(dead_code, reason = "for the schema: bindings report the struct itself")]
    Bound(Rebound<PsetId>),
    #[expect(dead_code, reason = "as Bound, when -F unbinds")]
    Unbound(Rebound<Cpus>),
    #[expect(dead_code, reason = "as Bound, by -e")]
    Started(Started),
}

/// The number of a set. No set is `null` in JSON.
pub(super) fn number(set: PsetId) -> Option<PsetId> {
    Some(set).filter(|set| !set.is_default())
}

/// `-d`: each set is an operation of its own. With `-F`, threads that are bound to CPUs of the set are unbound first.
pub(super) fn destroy(sets: &[PsetId], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let psets = psets(session.machine())?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    for &set in sets {
        let main = format!("remove processor set {set}");
        let names = |subject: &Subject| (*subject == Subject::Pset(set)).then(|| main.clone());
        if parsed.has('F') && psets.prepare_destroy(set).is_ok() {
            let sets = read("processor sets", psets.list())?;
            let members = sets.into_iter().find(|s| s.id == set).map(|s| s.members).unwrap_or_default();
            bindings::unbind_all::<CpuSet>(session.machine(), Some(&members), &mut changer, ctx)?;
        }
        if changer.attempt(ctx, &main, names, psets.prepare_destroy(set)).is_some() {
            changer.report(ctx, Some(listing::removed(set)), Done::Removed { removed: set });
        }
    }
    Ok(changer.finish(ctx))
}

/// `-f` and `-n`: moves device interrupts off the active CPUs of a set, or allows them again, in one operation.
/// Silent on success.
pub(super) fn interrupts(
    set: PsetId,
    admit: bool,
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let to = if admit { State::OnLine } else { State::NoIntr };
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    let psets = psets(machine)?;
    let processors = facet("processors", machine.processors())?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let main = format!("set interrupt status for processor set {set}");
    let Some(members) = read("processor sets", psets.list())?.into_iter().find(|s| s.id == set) else {
        let complaint = Complaint::refused(&main, |_| Some(main.clone()), &unknown(set));
        changer.refuse(ctx, complaint);
        return Ok(changer.finish(ctx));
    };
    let active: Vec<CpuId> = read("processors", processors.states())?
        .iter()
        .filter(|s| s.state.runs_threads() && members.members.contains(&s.cpu))
        .map(|s| s.cpu)
        .collect();
    let names = |subject: &Subject| match subject {
        Subject::Processor(cpu) => Some(phrase(&format!("processor {cpu}"), to)),
        _ => None,
    };
    let prepared = processors.prepare_states(&active, to, false);
    for change in changer.attempt(ctx, &main, names, prepared).unwrap_or_default() {
        changer.report(ctx, None, Done::State(change));
    }
    Ok(changer.finish(ctx))
}

/// Why a set cannot be shown or changed.
pub(super) fn unknown(set: PsetId) -> Refusal {
    let reason = if set.is_default() { Reason::DefaultPset } else { Reason::NoSuchPset };
    Refusal::new(Subject::Pset(set), reason)
}
