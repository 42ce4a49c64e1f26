//! Measures this machine, and keeps the results as the parameters of `like-host`.

use crate::ctx::Ctx;
use crate::demo;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::Common;
use millpond_experiments::{Here, twin};
use millpond_session::{messages_are_seen, own_program, stop_on_signal};

/// Measures, saves and prints the result: a table, or the machine file.
pub(super) fn run(json: bool, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    const WHAT: &str = "measure this machine";
    let program = own_program().map_err(|why| Complaint::new(WHAT, why))?;
    let session = ctx.changing(&Common::default())?;
    let seen = messages_are_seen();
    let twin = {
        let mut err = ctx.err.lend();
        let mut tell = |what: &str| {
            if seen {
                err.line(format_args!("sim: {what}"));
                err.flush();
            }
        };
        let mut here = Here { session: &session, program: &program, stop: stop_on_signal(), tell: &mut tell };
        twin::calibrate(&mut here).map_err(|failure| demo::failed(WHAT, failure))?
    };
    if let Some(note) = twin.note() {
        ctx.warn(note);
    }
    let kept = session.keep_twin(&twin.file).map_err(|(path, why)| {
        Complaint::new(format!("keep the numbers of like-host in {}", path.display()), why)
    })?;
    if json {
        ctx.json(&twin.file);
        return Ok(Exit::DONE);
    }
    ctx.out.text(&twin.table().text());
    ctx.out.line(format_args!("like-host has these numbers until the machine boots: {}", kept.display()));
    Ok(Exit::DONE)
}
