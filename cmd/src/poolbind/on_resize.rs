//! `--on-resize`: a command at each change of the pool's size, for programs that cannot follow their pool themselves.

use crate::failure::{Complaint, Failure};
use millpond_cli::Parsed;
use millpond_session::{Follower, Session};

/// The option.
pub const OPTION: &str = "on-resize";

/// Checks that pools of this machine can be followed, if the option is given.
///
/// # Errors
/// [`Failure::Refused`] on a simulated machine, whose time advances only while a command runs.
pub fn check(name: &str, parsed: &Parsed, session: &Session) -> Result<(), Failure> {
    if !parsed.long(OPTION) || session.state_dir().is_some() {
        return Ok(());
    }
    let machine = session.machine().name();
    let reason = format!("machine {machine} is simulated, and its time stands still between commands");
    let complaint = Complaint::new(format!("follow pool {name}"), reason);
    Err(complaint.hint("there a pool is seen as it changes with poolstat").into())
}

/// Starts the follower of the pool. `None` without the option, and if the machine has no state directory.
///
/// # Errors
/// [`Failure::Said`] if there is no such pool, or it cannot be watched.
pub fn begin(name: &str, parsed: &Parsed, session: &Session) -> Result<Option<Follower>, Failure> {
    let (Some(command), Some(state)) = (parsed.long_value(OPTION), session.state_dir()) else {
        return Ok(None);
    };
    if parsed.common.dry_run {
        return Ok(None);
    }
    let follower = Follower::begin(state, name, command.as_ref());
    let follower =
        follower.map_err(|error| Failure::Said(format!("couldn't follow pool '{name}': {error}"), None))?;
    Ok(Some(follower))
}
