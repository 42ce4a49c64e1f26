//! The journal: every step is recorded before it is applied.
//!
//! A journal contains at most one unfinished operation (there is one writer at a time) and the baselines of all foreign knobs. Baselines
//! have no records of their own: they follow from the committed steps, see [`fold`]. So an operation and the baselines that it keeps or
//! releases become durable in one write.

use crate::{Baseline, Knob, Step, Value};
use millpond_model::Pid;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// An operation in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// A description.
    pub what: String,
    /// The boot ID of the machine.
    pub boot: String,
    /// The process that executed it.
    pub pid: Pid,
    /// Its steps so far, oldest first.
    pub steps: Vec<Step>,
}

/// The journal could not be read or written. The machine is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written now.
    #[error("{0}")]
    Unwritable(String),
    /// There is no disk space.
    #[error("{0}")]
    NoSpace(String),
    /// Its contents are invalid.
    #[error("{0}")]
    Damaged(String),
}

/// Storage for intended steps. The session provides a file; tests and simulated machines use memory.
///
/// All methods take `&self`: a journal is shared by the facets, which read baselines, and the executor.
pub trait Journal {
    /// Starts an operation and makes its first steps durable.
    ///
    /// # Errors
    /// [`JournalError`] if that failed; the operation must not start.
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError>;
    /// Makes further steps of the running operation durable.
    ///
    /// # Errors
    /// [`JournalError`] if that failed; the steps must not be applied.
    fn extend(&self, steps: &[Step]) -> Result<(), JournalError>;
    /// Removes steps of the running operation ([`forget_refused`]): they were refused, and the operation continues.
    ///
    /// # Errors
    /// [`JournalError`] if that could not be made durable.
    fn refused(&self, knob: &Knob) -> Result<(), JournalError>;
    /// The operation is complete; its baselines are valid from now on.
    ///
    /// # Errors
    /// [`JournalError`] if that could not be made durable.
    fn commit(&self) -> Result<(), JournalError>;
    /// The operation was undone and has no effect.
    ///
    /// # Errors
    /// [`JournalError`] if that could not be made durable.
    fn abort(&self) -> Result<(), JournalError>;
    /// The unfinished operation of an earlier writer.
    ///
    /// # Errors
    /// [`JournalError`] if the journal cannot be read.
    fn unfinished(&self) -> Result<Option<Operation>, JournalError>;
    /// The original value of a knob that committed operations, or the running one, have changed.
    fn baseline(&self, knob: &Knob) -> Option<Option<Value>>;
    /// All baselines: those of committed operations, with the steps of the running one [`fold`]ed in.
    fn baselines(&self) -> BTreeMap<Knob, Option<Value>>;
    /// Removes the data of all boots other than `boot`.
    ///
    /// # Errors
    /// [`JournalError`] if that could not be made durable.
    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError>;
    /// Called at each named point of an operation (`begin`, `intended`, `step-1`, …, `committed`), for fault injection; an ordinary journal
    /// does nothing.
    fn moment(&self, name: &str);
}

/// Removes the steps that would have changed a knob that refused. Steps that only note a baseline stay.
pub fn forget_refused(steps: &mut Vec<Step>, knob: &Knob) {
    steps.retain(|step| step.knob != *knob || step.is_note());
}

/// Updates the table of baselines by committed steps.
pub fn fold(baselines: &mut BTreeMap<Knob, Option<Value>>, steps: &[Step]) {
    for step in steps {
        match step.baseline {
            Baseline::Ours => {}
            Baseline::Keep => {
                baselines.entry(step.knob.clone()).or_insert_with(|| step.before.clone());
            }
            Baseline::Release => {
                baselines.remove(&step.knob);
            }
        }
    }
}

/// A journal in memory, for the lifetime of the value.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    state: RefCell<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    running: Option<Operation>,
    baselines: BTreeMap<Knob, Option<Value>>,
    moments: Vec<String>,
}

impl MemoryJournal {
    /// The names of the passed points, oldest first.
    #[must_use]
    pub fn moments(&self) -> Vec<String> {
        self.state.borrow().moments.clone()
    }
}

impl Journal for MemoryJournal {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        let operation =
            Operation { what: what.into(), boot: boot.into(), pid: Pid(0), steps: steps.to_vec() };
        self.state.borrow_mut().running = Some(operation);
        Ok(())
    }

    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        if let Some(running) = &mut self.state.borrow_mut().running {
            running.steps.extend_from_slice(steps);
        }
        Ok(())
    }

    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        if let Some(running) = &mut self.state.borrow_mut().running {
            forget_refused(&mut running.steps, knob);
        }
        Ok(())
    }

    fn commit(&self) -> Result<(), JournalError> {
        let state = &mut *self.state.borrow_mut();
        if let Some(done) = state.running.take() {
            fold(&mut state.baselines, &done.steps);
        }
        Ok(())
    }

    fn abort(&self) -> Result<(), JournalError> {
        self.state.borrow_mut().running = None;
        Ok(())
    }

    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        Ok(self.state.borrow().running.clone())
    }

    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.baselines().remove(knob)
    }

    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        let state = self.state.borrow();
        let mut baselines = state.baselines.clone();
        if let Some(running) = &state.running {
            fold(&mut baselines, &running.steps);
        }
        baselines
    }

    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        let state = &mut *self.state.borrow_mut();
        if state.running.as_ref().is_some_and(|r| r.boot != boot) {
            state.running = None;
            state.baselines.clear();
        }
        Ok(())
    }

    fn moment(&self, name: &str) {
        self.state.borrow_mut().moments.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(knob: &str, before: &str, after: &str) -> Step {
        Step::new(Knob(knob.into()), Some(before.into()), Some(after.into()))
    }

    #[test]
    fn the_first_touch_keeps_and_the_last_release_forgets() {
        let mut baselines = BTreeMap::new();
        fold(&mut baselines, &[step("a", "0-3", "0-1").keeping(), step("a", "0-1", "0").keeping()]);
        assert_eq!(baselines[&Knob("a".into())], Some("0-3".into()));
        fold(&mut baselines, &[step("b", "x", "y")]);
        assert_eq!(baselines.len(), 1, "a knob of our own has no baseline");
        fold(&mut baselines, &[step("a", "0", "0-3").releasing()]);
        assert!(baselines.is_empty());
    }

    #[test]
    fn an_aborted_operation_leaves_no_baseline() {
        let journal = MemoryJournal::default();
        journal.begin("x", "boot", &[step("a", "1", "2").keeping()]).unwrap();
        journal.abort().unwrap();
        assert_eq!(journal.baseline(&Knob("a".into())), None);
        assert_eq!(journal.unfinished().unwrap(), None);
    }
}
