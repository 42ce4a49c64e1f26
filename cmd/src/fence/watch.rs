//! `--watch`: restores persistent fences, and corrects deviations.

use super::{fences, kept, named};
use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, read};
use millpond_cli::Parsed;
use millpond_machine::{Keeper, Weight};
use millpond_model::Nanos;
use millpond_session::{Daemon, Kind, NotifyState, Session, stop_daemon_on_signal, tell_manager};
use std::sync::atomic::Ordering;

/// Name of the lock file.
const NAME: &str = "fences";

/// Interval between checks of the machine.
const TURN: Nanos = Nanos::from_millis(1_000);

/// Whether no process watches the fences of this machine, although one could.
pub(super) fn is_missing(session: &Session) -> bool {
    session.kind() == Kind::Real
        && session.state_dir().is_some_and(|dir| !Daemon::runs(dir, NAME) && !Daemon::runs(dir, "poold"))
}

pub(super) fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.common.dry_run {
        return Err(Failure::Usage("--dry-run watches nothing".to_owned()));
    }
    let stop = stop_daemon_on_signal();
    let session = ctx.changing(&parsed.common)?;
    let dir = session.state_dir().filter(|_| session.kind() == Kind::Real);
    let dir = dir.ok_or_else(|| {
        Complaint::new(
            "watch fences",
            format!("nothing appears on machine {} by itself", session.machine().name()),
        )
    })?;
    let lock = Daemon::begin(dir, NAME).map_err(|why| Complaint::new("watch fences", why.to_string()))?;
    put_up(&session, parsed, ctx)?;
    tell_manager(&[NotifyState::Ready]);
    let clock = session.machine().clock();
    let mut keeper = Keeper::default();
    while !stop.load(Ordering::Relaxed) && lock.is_the_one() {
        let began = clock.now();
        tell_manager(&[NotifyState::Watchdog]);
        for (weight, text) in keeper.turn(session.machine(), began) {
            if weight != Weight::Detail {
                ctx.warn(text);
            }
        }
        clock.sleep_until(began + TURN);
    }
    Ok(Exit::DONE)
}

/// Puts up the stored fences that do not exist. A refused one is reported, and does not block the others.
fn put_up(session: &Session, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
    let fences = fences(session.machine())?;
    for (name, wish) in kept::wishes() {
        let main = format!("put up fence {name}");
        let wish = match wish {
            Ok(wish) => wish,
            Err(why) => {
                ctx.complain(&Complaint::new(main, why));
                continue;
            }
        };
        if read("fences", fences.list())?.iter().any(|fence| fence.fencing.name == wish.name) {
            continue;
        }
        let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
        if changer.attempt(ctx, &main, named, fences.prepare_fence(&wish, false)).is_some() {
            ctx.warn(format_args!("fence {name} is put up"));
        }
    }
    Ok(())
}
