//! `-e --view`: a program that sees no processors but those of its pool.

use crate::failure::{Complaint, Failure};
use millpond_machine::Absent;
use millpond_session::{Session, View};

/// Lays the view, before anything is changed.
///
/// # Errors
/// [`Failure::Refused`] where programs read no files, and where there are no rights to mount.
pub fn lay(session: &Session, command: &str) -> Result<View, Failure> {
    session.view().map_err(|Absent { why, what_would_help }| {
        Complaint { what: format!("start {command} with --view"), reason: why, hint: what_would_help }.into()
    })
}
