//! `--persist`: bindings that also apply at the next start.

use super::Done;
use super::ids::{Chosen, Kind};
use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::Complaint;
use crate::pools;
use millpond_machine::facets::Member;
use millpond_machine::{Change, Machine, Refusal};
use millpond_model::PoolId;
use millpond_model::pools::{PoolsState, PsetNode};
use millpond_pools::{PoolError, dynamic};
use millpond_session::Session;

/// The effect of this option on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// The option was not given.
    No,
    /// Millpond stores the binding.
    Kept,
    /// The program that starts the member needs an option, which is printed.
    Told,
}

impl Persist {
    /// The effect for a member.
    ///
    /// # Errors
    /// [`Complaint`] for a member that no program starts by a fixed rule.
    pub fn of(asked: bool, one: &Chosen, pool: &str) -> Result<Persist, Complaint> {
        match one.kind() {
            _ if !asked => Ok(Persist::No),
            Kind::Unit => Ok(Persist::Kept),
            Kind::Container => Ok(Persist::Told),
            _ => {
                let reason = "whoever makes it decides where it stands, and nothing remembers it";
                let hint = "name the unit or the container that it belongs to, or bind it without --persist";
                Err(Complaint::new(format!("keep {one} in pool '{pool}'"), reason).hint(hint))
            }
        }
    }

    /// The change that binds a member, and stores the binding if Millpond can.
    ///
    /// # Errors
    /// The refusal of the machine.
    pub fn prepare(
        self,
        machine: &dyn Machine,
        member: &Member,
        to: PoolId,
    ) -> Result<Change<()>, PoolError> {
        match (self, member) {
            (Persist::Kept, Member::Zone(zone)) => {
                Ok(machine.pools().map_err(Refusal::from)?.prepare_persist(zone, to)?)
            }
            _ => dynamic::prepare_bind(machine, member, to),
        }
    }

    /// Prints the remaining actions, after the member is bound.
    pub fn tell(
        self,
        session: &Session,
        pool: (&str, PoolId),
        state: &PoolsState,
        changer: &mut Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        match self {
            Persist::No => {}
            Persist::Kept => tell_number(session, pool.0, state, changer, ctx),
            Persist::Told => tell_options(session.machine(), pool, changer, ctx),
        }
    }
}

fn tell_options(
    machine: &dyn Machine,
    (name, pool): (&str, PoolId),
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) {
    let options = machine.pools().map_err(Refusal::from).and_then(|facet| facet.start_options(pool));
    match options {
        Ok(options) if options.is_empty() => {
            let text = format!("a container starts in pool '{name}' without an option");
            changer.report(ctx, Some(text), Done::NoOption { pool: name, options: [] });
        }
        Ok(options) => {
            for option in options {
                let fixed = if option.is_fixed { " (as the set is now)" } else { "" };
                let line = format!("{}: {}{fixed}", option.whom, option.text);
                let (whom, option, fixed) = (option.whom, option.text, option.is_fixed);
                changer.report(ctx, Some(line), Done::Option { pool: name, r#for: whom, option, fixed });
            }
        }
        Err(refusal) => {
            let text = format!("what starts a container in pool '{name}' is not known: {}", refusal.reason);
            changer.note(ctx, text, refusal.hint.as_deref());
        }
    }
}

/// The binding of a unit has the number of its set. The number is the same after a boot only if the static
/// configuration contains it.
fn tell_number(
    session: &Session,
    name: &str,
    state: &PoolsState,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) {
    let set = state.conf.pool(name).and_then(|pool| state.conf.pset_of(pool));
    let Some(set) = set.filter(|set| !set.is_default) else { return };
    let file = session.pools_file(None);
    let text = file.read().ok().flatten();
    let conf = text.and_then(|text| pools::parsed(file.name(), &text).ok());
    let saved = conf.as_ref().and_then(|conf| conf.pset(&set.name)).and_then(|saved| saved.id);
    if let (PsetNode { name: set, id: Some(number), .. }, true) = (set, saved != set.id) {
        let text = format!(
            "set '{set}' has number {number}, which {} does not say: it may have another one after a boot",
            file.name()
        );
        changer.note(ctx, text, Some("pooladm -s writes what the machine has"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: &str) -> Chosen {
        let words: Vec<_> = [option, "x"].map(Into::into).into();
        let parsed = millpond_cli::parse(&super::super::COMMAND.spec, &words).unwrap();
        Kind::named(&parsed).remove(0)
    }

    #[test]
    fn a_group_is_kept_by_nobody() {
        assert_eq!(Persist::of(true, &chosen("--unit"), "web"), Ok(Persist::Kept));
        assert_eq!(Persist::of(true, &chosen("--container"), "web"), Ok(Persist::Told));
        assert_eq!(Persist::of(false, &chosen("--cgroup"), "web"), Ok(Persist::No));
        assert_eq!(
            Persist::of(true, &chosen("--cgroup"), "web").unwrap_err().to_string(),
            "cannot keep cgroup x in pool 'web': whoever makes it decides where it stands, and nothing remembers it"
        );
    }
}
