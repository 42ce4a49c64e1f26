//! Keeps a machine as its sets want it, turn by turn: what a daemon does beside its own work.

use crate::{Machine, PutBack, Writer, is_at_rest, put_back_abandoned};
use millpond_model::Nanos;

/// How long something that could not be put back is left alone before it is tried again.
const AGAIN: Nanos = Nanos::from_millis(10_000);

/// How much a line of a [`Keeper`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Something went wrong, or is not as it should be.
    Warning,
    /// Something was done that somebody may want to know.
    Notice,
    /// What was done, for who looks for it.
    Detail,
}

/// Says each thing once, for as long as it lasts.
#[derive(Debug, Default)]
pub struct Keeper {
    /// What the machine noted when it was last brought to what its sets want.
    noted: Vec<String>,
    /// What killed processes left and could not be put back, and when that was tried last.
    resisting: Vec<PutBack>,
    resisted: Nanos,
    /// Why the machine could not be written.
    refused: Option<String>,
}

impl Keeper {
    /// Puts back what killed processes had for themselves, and brings the machine to what its sets want: what appeared beside members follows, and what others
    /// undid is done again. Becomes the writer only where there is something to write. Gives what is to be said.
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

    /// What resists is tried again at times, and when there is something else.
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

    /// Looking alone costs half as much as writing, and makes no writer wait.
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
