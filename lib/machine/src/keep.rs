//! Maintains a machine in the requested state of its sets: periodic work of a daemon.

use crate::{Machine, PutBack, Writer, is_at_rest, put_back_abandoned};
use millpond_model::Nanos;

/// The time before a failed restoration is tried again.
const AGAIN: Nanos = Nanos::from_millis(10_000);

/// The severity of a line of a [`Keeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// An error or a deviation.
    Warning,
    /// An action that may be of interest.
    Notice,
    /// Details of an action.
    Detail,
}

/// Reports each condition once while it lasts.
#[derive(Debug, Default)]
pub struct Keeper {
    /// The notes of the last settling.
    noted: Vec<String>,
    /// Places of killed processes that could not be restored, and the time of the last attempt.
    resisting: Vec<PutBack>,
    resisted: Nanos,
    /// The reason why the machine could not be written.
    refused: Option<String>,
}

impl Keeper {
    /// Restores places of killed processes, and settles the machine: new threads of members follow, and changes by other programs are
    /// reverted. Becomes the writer only if there is something to write. Returns the lines to log.
    pub fn turn(&mut self, machine: &dyn Machine, now: Nanos) -> Vec<(Weight, String)> {
        let mut said = Vec::new();
        let mut refused = self.put_back(machine, now, &mut said);
        refused = refused.or(self.settle(machine, &mut said));
        if refused != self.refused {
            said.extend(refused.iter().map(|why| (Weight::Warning, why.clone())));
            self.refused = refused;
        }
        said
    }

    /// Failed restorations are repeated periodically, and when there are further places to restore.
    fn put_back(
        &mut self,
        machine: &dyn Machine,
        now: Nanos,
        said: &mut Vec<(Weight, String)>,
    ) -> Option<String> {
        let probe = machine.latency().ok()?;
        let places = probe.abandoned().unwrap_or_default();
        let are_known = places.iter().eq(self.resisting.iter().map(|one| &one.place));
        if are_known && (places.is_empty() || now.0.saturating_sub(self.resisted.0) < AGAIN.0) {
            return None;
        }
        let mut found = match put_back_abandoned(machine, probe, &places) {
            Ok(found) => found,
            Err(refusal) => return Some(refusal.to_string()),
        };
        let new = found.iter().filter(|one| !self.resisting.contains(one));
        said.extend(new.map(|one| (Weight::Notice, one.to_string())));
        found.retain(|one| one.result.is_err());
        self.resisting = found;
        self.resisted = now;
        None
    }

    /// A check alone costs half as much as a write, and blocks no writer.
    fn settle(&mut self, machine: &dyn Machine, said: &mut Vec<(Weight, String)>) -> Option<String> {
        if is_at_rest(machine) == Ok(true) {
            self.noted.clear();
            return None;
        }
        let done = match Writer::open(machine).and_then(|writer| writer.settle()) {
            Ok(done) => done,
            Err(refusal) => {
                self.noted.clear();
                return Some(refusal.to_string());
            }
        };
        if done.notes != self.noted {
            said.extend(done.notes.iter().map(|note| (Weight::Warning, note.clone())));
            self.noted = done.notes;
        }
        if done.steps > 0 {
            let text = format!("the machine was brought to what its sets want, in {} steps", done.steps);
            said.push((Weight::Detail, text));
        }
        None
    }
}
