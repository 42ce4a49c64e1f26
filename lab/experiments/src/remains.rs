//! What a killed program left and what would stand in an experiment's way. It is put back before one begins.

use crate::{Failure, pools};
use millpond_machine::put_back_abandoned;
use millpond_session::{Kind, Session};

/// Puts back the place of a `latstat` and the pools of an experiment that were killed, and tells it. Nothing is left on simulated
/// machines.
///
/// # Errors
/// [`Failure`] when the machine cannot be written to, or keeps the pools.
pub(crate) fn put_back(session: &Session, note: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    if session.kind() != Kind::Real {
        return Ok(());
    }
    let machine = session.machine();
    if let Ok(probe) = machine.latency() {
        let seen = probe.abandoned().unwrap_or_default();
        let found = put_back_abandoned(machine, probe, &seen)
            .map_err(Failure::refused("put back what a killed process left"))?;
        // One that resists is told, and may still not be in the way.
        found.iter().for_each(|found| note(&found.to_string()));
    }
    if pools::sweep(machine)? {
        note("the pools of an experiment that was killed were put back");
    }
    Ok(())
}
