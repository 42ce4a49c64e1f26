//! `-R`: prstat in the real-time class, so that it goes on looking where others leave the class TS no time.

use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use millpond_cli::Common;
use millpond_machine::Subject;
use millpond_model::ClassRequest;
use millpond_session::{Kind, Session, own_pid};

const WHAT: &str = "put prstat into class RT";

/// On a machine that is not the one we run on prstat is no process.
pub(super) fn can_be_had(session: &Session) -> Result<(), Failure> {
    let why = match session.kind() {
        Kind::Real => return Ok(()),
        Kind::Captured => "on a captured machine nothing runs".to_owned(),
        Kind::Recorded => "in a recording nothing runs".to_owned(),
        Kind::Simulated => format!("it is no process of machine {}", session.machine().name()),
    };
    Err(Complaint::new(WHAT, why).hint("leave out -R: nothing keeps prstat waiting here").into())
}

/// Puts this process into the class, at its lowest level: whoever is in the class already keeps its place before us. Nothing is to be put back, since
/// the class ends with the process. With `--dry-run` the step is shown, and there is nothing left to do.
pub(super) fn enter(session: &Session, common: &Common, ctx: &mut Ctx<'_>) -> Result<Option<Exit>, Failure> {
    let request = ClassRequest::Rt { pri: None, quantum: None, tqsig: None };
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let mut changer = Changer::open(session.machine(), common, ctx)?;
    let made = dispatcher.prepare_class(own_pid(), &request).and_then(|change| changer.make(ctx, change));
    let ours = |subject: &Subject| (*subject == Subject::Process(own_pid())).then(|| WHAT.to_owned());
    made.map_err(|refusal| Complaint::refused(WHAT, ours, &refusal))?;
    Ok(common.dry_run.then(|| changer.finish(ctx)))
}
