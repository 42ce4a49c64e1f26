//! Candidates that come from a machine. Unreadable ones are left out: a completion cannot show a message.

use super::Candidate;
use crate::ctx::Ctx;
use crate::pools::state_if_any;
use millpond_cli::complete::FILES;
use millpond_cli::{Common, ValueKind};
use millpond_machine::Machine;
use millpond_session::{SIMULATED, Workload};

/// Machines by name. The file of a machine can be named as well.
pub fn machines() -> Vec<Candidate> {
    let fixed = [("real", "the machine at hand"), ("like-host", "a simulated machine like this one")];
    let simulated = SIMULATED.iter().map(|name| (*name, "simulated"));
    let named = fixed.into_iter().chain(simulated).map(|(name, what)| Candidate::word(name, what));
    named.chain([Candidate::Ask(FILES)]).collect()
}

/// Workloads of simulated machines.
pub fn loads() -> Vec<Candidate> {
    Workload::all().map(|load| Candidate::word(load.name(), load.summary())).collect()
}

/// Candidates of a kind on a machine.
pub fn of_machine(kind: ValueKind, common: &Common, ctx: &mut Ctx<'_>) -> Vec<Candidate> {
    let Ok(session) = ctx.held(common) else { return Vec::new() };
    found(kind, session.machine()).unwrap_or_default()
}

fn found(kind: ValueKind, machine: &dyn Machine) -> Option<Vec<Candidate>> {
    Some(match kind {
        ValueKind::Cpus => {
            let states = machine.processors().ok()?.states().ok()?;
            states
                .iter()
                .map(|status| Candidate::word(status.cpu.to_string(), status.state.to_string()))
                .collect()
        }
        ValueKind::Pset => {
            let sets = machine.psets().ok()?.list().ok()?;
            sets.iter()
                .map(|set| Candidate::word(set.id.to_string(), format!("CPUs {}", set.cpus())))
                .collect()
        }
        ValueKind::Pool => {
            let state = state_if_any(machine).ok()??;
            state.conf.pools.iter().map(|pool| Candidate::word(pool.name.clone(), "")).collect()
        }
        ValueKind::Zone | ValueKind::Unit | ValueKind::Container => {
            let zones = machine.zones().ok()?.list().ok()?;
            let wanted = match kind {
                ValueKind::Unit => Some("unit"),
                ValueKind::Container => Some("container"),
                _ => None,
            };
            let zones = zones.into_iter().filter(|zone| wanted.is_none_or(|kind| zone.kind == kind));
            zones.map(|zone| Candidate::word(zone.name, zone.kind)).collect()
        }
        ValueKind::Class => {
            let classes = machine.dispatcher().ok()?.classes();
            classes.iter().map(|class| Candidate::word(class.to_string(), "")).collect()
        }
        ValueKind::Lgroup => {
            let tree = machine.lgroups().ok()?.tree().ok()?;
            tree.groups().iter().map(|group| Candidate::word(group.id.to_string(), "")).collect()
        }
        _ => return None,
    })
}
