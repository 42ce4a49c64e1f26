//! Cleanup of the changes of killed programs, before an experiment begins.

use crate::{Failure, pools};
use millpond_machine::put_back_abandoned;
use millpond_session::{Kind, Session};

/// Undoes the changes of a killed `latstat`, and removes the pools of killed experiments; reports what it did. Simulated machines need
/// no cleanup.
///
/// # Errors
/// [`Failure`] when the machine cannot be written, or refuses to disable the pools.
pub(crate) fn put_back(session: &Session, note: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    if session.kind() != Kind::Real {
        return Ok(());
    }
    let machine = session.machine();
    if let Ok(probe) = machine.latency() {
        let seen = probe.abandoned().unwrap_or_default();
        let found = put_back_abandoned(machine, probe, &seen)
            .map_err(Failure::refused("put back what a killed process left"))?;
        // A failure is reported, but does not always prevent the experiment.
        found.iter().for_each(|found| note(&found.to_string()));
    }
    if pools::sweep(machine)? {
        note("the pools of an experiment that was killed were put back");
    }
    Ok(())
}
