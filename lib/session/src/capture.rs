//! Writing down a machine that has files.

use crate::{Session, reason};
use millpond_linux::capture;
use std::path::Path;

pub use millpond_linux::Captured;

impl Session {
    /// Copies the files that describe the machine into a directory that is empty or does not exist.
    ///
    /// # Errors
    /// The reason in words: a machine without files, or a directory that cannot be filled.
    pub fn capture(&self, into: &Path) -> Result<Captured, String> {
        let Some(root) = &self.root else { return Err("a simulated machine has no files".into()) };
        capture(root, into).map_err(|error| reason(&error))
    }
}
