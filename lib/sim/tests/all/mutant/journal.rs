//! A journal that may lose records.

use super::Defect;
use millpond_machine::{Journal, JournalError, Knob, MemoryJournal, Operation, Step, Value};
use std::collections::BTreeMap;

/// A journal in memory with a defect.
pub struct SpoiledJournal {
    inner: MemoryJournal,
    defect: Defect,
}

impl SpoiledJournal {
    /// Empty.
    pub fn new(defect: Defect) -> Self {
        SpoiledJournal { inner: MemoryJournal::default(), defect }
    }
}

impl Journal for SpoiledJournal {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        self.inner.begin(what, boot, steps)
    }
    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        self.inner.extend(steps)
    }
    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        self.inner.refused(knob)
    }
    fn commit(&self) -> Result<(), JournalError> {
        if self.defect == Defect::JournalForgetsTheFinished { Ok(()) } else { self.inner.commit() }
    }
    fn abort(&self) -> Result<(), JournalError> {
        self.inner.abort()
    }
    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        let found = self.inner.unfinished()?;
        Ok(found.filter(|_| self.defect != Defect::JournalForgetsTheUnfinished))
    }
    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.inner.baseline(knob)
    }
    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        self.inner.baselines()
    }
    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        self.inner.forget_other_boots(boot)
    }
    fn moment(&self, name: &str) {
        self.inner.moment(name);
    }
}
