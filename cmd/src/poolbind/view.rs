//! `-e --view`: a program that sees only the CPUs of its pool.

use crate::failure::{Failure, unless_absent};
use millpond_session::{Session, View};

/// Prepares the view, before anything is changed.
///
/// # Errors
/// [`Failure::Refused`] on a simulated machine, whose programs read no files, and without rights to mount.
pub fn lay(session: &Session, command: &str) -> Result<View, Failure> {
    unless_absent(&format!("start {command} with --view"), session.view())
}
