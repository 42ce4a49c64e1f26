//! Writing down a machine that has files.

use crate::{Session, reason};
use millpond_linux::capture;
use std::path::Path;

impl Session {
    /// Copies the files that describe the machine into a directory that is empty or does not exist. How many were copied, and how many
    /// could not be read.
    ///
    /// # Errors
    /// The reason in words: a machine without files, or a directory that cannot be filled.
    pub fn capture(&self, into: &Path) -> Result<(usize, usize), String> {
        let Some(root) = &self.root else { return Err("a simulated machine has no files".into()) };
        let done = capture(root, into);
        done.map(|done| (done.files, done.skipped)).map_err(|error| reason(&error))
    }
}
