//! Writes frames of a machine into a recording.

use crate::{Collector, Options};
use millpond_machine::Refusal;
use millpond_session::Session;
use millpond_store::{Limits, Ring, StoreError, Written};
use std::path::Path;

/// A collector and where its frames go.
pub struct Recorder<'s> {
    collector: Collector<'s>,
    ring: Ring,
}

/// Why a frame was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The machine cannot be read.
    #[error("the machine cannot be read: {0}")]
    Machine(Refusal),
    /// It cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<'s> Recorder<'s> {
    /// Begins a watch that writes into a folder. Beside it, what was found there and is not whole.
    ///
    /// # Errors
    /// [`StoreError`] when nothing can be written there.
    pub fn open(
        session: &'s Session,
        options: Options,
        dir: &Path,
        limits: Limits,
    ) -> Result<(Recorder<'s>, Vec<String>), StoreError> {
        let machine = session.machine();
        let collector = Collector::open(session, options);
        let (ring, notes) = Ring::open(dir, machine.name(), machine.clock().wall(), limits)?;
        Ok((Recorder { collector, ring }, notes))
    }

    /// Writes the frame of now.
    ///
    /// # Errors
    /// [`RecordError`]; the recording is as it was.
    pub fn frame(&mut self) -> Result<(), RecordError> {
        let frame = self.collector.frame().map_err(RecordError::Machine)?;
        Ok(self.ring.push(&frame)?)
    }

    /// What it wrote so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.ring.written()
    }

    /// Makes everything whole and ends.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written.
    pub fn finish(self) -> Result<Written, StoreError> {
        self.ring.finish()
    }
}
