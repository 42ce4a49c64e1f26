//! `-e --view`: a program that sees no processors but those of its pool.

use crate::failure::{Failure, unless_absent};
use millpond_session::{Session, View};

/// Lays the view, before anything is changed.
///
/// # Errors
/// [`Failure::Refused`] where programs read no files, and where there are no rights to mount.
pub fn lay(session: &Session, command: &str) -> Result<View, Failure> {
    unless_absent(&format!("start {command} with --view"), session.view())
}
