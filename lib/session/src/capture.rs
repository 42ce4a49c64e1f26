//! Capturing the files of a machine.

use crate::{Session, reason};
use millpond_linux::capture;
use std::path::Path;

impl Session {
    /// Copies the files that describe the machine into an empty or new directory. Returns the number of copied files, and of files that could
    /// not be read.
    ///
    /// # Errors
    /// The reason in words: the machine has no files, or the directory cannot be written.
    pub fn capture(&self, into: &Path) -> Result<(usize, usize), String> {
        let Some(root) = &self.root else { return Err("a simulated machine has no files".into()) };
        let done = capture(root, into);
        done.map(|done| (done.files, done.skipped)).map_err(|error| reason(&error))
    }
}
