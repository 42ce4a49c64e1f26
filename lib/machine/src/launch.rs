//! Binding a program that is about to start.

use crate::{Machine, Refusal, Writer};
use millpond_model::{Pid, PsetId};

/// Binds a process, which waits before its first instruction, to a set. With the default set it stays on the CPUs that are in no other set.
/// Returns notes for the user.
///
/// # Errors
/// [`Refusal`] as for bindings, and if the machine cannot be written.
pub fn bind_at_start(machine: &dyn Machine, pid: Pid, set: PsetId) -> Result<Vec<String>, Refusal> {
    let threads =
        machine.threads().map_err(|absent| Refusal::operation(crate::Reason::Machine(absent.why)))?;
    let writer = Writer::open(machine)?;
    let mut notes: Vec<String> = writer.repaired().map(ToString::to_string).into_iter().collect();
    let bound = if set.is_default() {
        writer.commit(threads.prepare_start_in_default(pid)?)?.notes
    } else {
        writer.commit(threads.prepare_bind_set(pid, None, Some(set))?)?.notes
    };
    notes.extend(bound);
    Ok(notes)
}
