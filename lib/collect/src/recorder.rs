//! Writes frames of a machine into a recording.

use crate::{Collector, Options};
use millpond_machine::Refusal;
use millpond_session::{Daemon, DaemonError, Session};
use millpond_store::{Limits, Ring, StoreError, Written};
use std::path::Path;

/// A collector and where its frames go.
pub struct Recorder<'s> {
    collector: Collector<'s>,
    ring: Ring,
    /// The last frame could not be read.
    misses: bool,
    /// Of the folder: no other program records there.
    _lock: Daemon,
}

/// What the lock of a folder is called.
const LOCK: &str = "record";

/// Why a recording did not begin, or a frame was not written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder cannot be used, or another program records there.
    #[error("the folder cannot be recorded into: {0}")]
    Folder(#[from] DaemonError),
    /// It cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<'s> Recorder<'s> {
    /// Begins a watch that writes into a folder, which is made where it is missing. Second is what was found there and is not whole.
    ///
    /// # Errors
    /// [`RecordError`] when nothing can be written there: another program records there, or other users can write.
    pub fn open(
        session: &'s Session,
        options: Options,
        dir: &Path,
        limits: Limits,
    ) -> Result<(Recorder<'s>, Vec<String>), RecordError> {
        let lock = Daemon::begin_private(dir, LOCK)?;
        let machine = session.machine();
        let collector = Collector::open(session, options);
        let (ring, notes) = Ring::open(dir, machine.name(), machine.clock().wall(), limits)?;
        Ok((Recorder { collector, ring, misses: false, _lock: lock }, notes))
    }

    /// Writes the frame of now. One that cannot be read is missing, and a later one may be read again, as when other programs have given files back: the
    /// reason is given for the first that is missing.
    ///
    /// # Errors
    /// [`RecordError`] when it cannot be written; the recording is as it was.
    pub fn frame(&mut self) -> Result<Option<Refusal>, RecordError> {
        match self.collector.frame() {
            Ok(frame) => {
                self.misses = false;
                self.ring.push(&frame)?;
                Ok(None)
            }
            Err(refusal) => Ok((!std::mem::replace(&mut self.misses, true)).then_some(refusal)),
        }
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
