//! `poolbind` as a parent process: for a program with a view or a resize command, or for the resize command alone.

use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_session::{Follower, Output, Program, supervise};

/// Waits until the program or the pool ends. Returns the exit status. The caller must not hold the writer lock, so
/// that other writers can change the machine meanwhile.
///
/// # Errors
/// [`Failure::Said`] if the program cannot be executed.
pub fn stay(
    program: Option<Program<'_>>,
    follower: Option<Follower>,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let name = program.as_ref().and_then(|program| program.words.first());
    let name = name.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    ctx.out.flush();
    ctx.err.flush();
    // Signals are forwarded and obeyed even if no process reads the messages.
    ctx.err = Output::stderr_of_service();
    let status = supervise(program, follower, &mut |text| {
        ctx.warn(text);
        ctx.err.flush();
    });
    status.map(Exit).map_err(|reason| Failure::Said(format!("exec of {name} failed: {reason}"), None))
}
