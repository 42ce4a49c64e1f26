//! Decisions during a recording, inferred from the changes of its CPUs' sets.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure, facet, unless_absent};
use crate::recordings;

use millpond_machine::Machine;
use millpond_model::{Move, Nanos, PsetId};
use millpond_planner::{Decision, Frame, Outlook, Plan, Policy, StateError};
use millpond_pools::{Manager, errno};
use millpond_session::stop_on_signal;
use serde_json::Value;
use std::path::Path;

/// The name in place of a policy: the decisions are derived from the recording.
const NAME: &str = "machine";

/// A policy that moves nothing. Its decision is the frame as it is.
pub(crate) struct Observer;

impl Policy for Observer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decide(&mut self, frame: &Frame) -> Decision {
        decided(frame.clone(), Vec::new())
    }

    fn state(&self) -> Value {
        Value::Null
    }

    fn restore(&mut self, _state: &Value) -> Result<(), StateError> {
        Ok(())
    }
}

/// The decision that these moves were the reaction to a frame.
fn decided(frame: Frame, moves: Vec<Move>) -> Decision {
    let reason = match moves.len() {
        0 => "no CPU moved".to_owned(),
        _ => "so it was recorded".to_owned(),
    };
    Decision {
        policy: NAME.to_owned(),
        state: None,
        expected: Outlook::after(&frame, &moves),
        frame,
        plan: Plan { moves, reason },
        score: 0.0,
        alternatives: Vec::new(),
        events: Vec::new(),
        advice: None,
        outcome: None,
    }
}

/// CPUs that changed their set, where both sets are in both frames.
fn moves(before: &Frame, after: &Frame) -> Vec<Move> {
    let owner = |frame: &Frame, cpu| frame.sets.iter().find(|set| set.cpus.contains(cpu)).map(|set| set.id);
    let is_known = |frame: &Frame, id: PsetId| frame.sets.iter().any(|set| set.id == id);
    let one = |cpu| {
        let (from, to) = (owner(before, cpu)?, owner(after, cpu)?);
        (from != to && is_known(before, to) && is_known(after, from)).then_some(Move { cpu, from, to })
    };
    before.sets.iter().flat_map(|set| set.cpus.iter()).filter_map(one).collect()
}

/// The frames that poold would have seen at each interval `every` of a recording, with the moves that followed. While
/// pools were disabled there are none.
///
/// # Errors
/// [`Failure`] if the recording cannot be read.
pub(super) fn decisions(
    path: &str,
    at: Option<&str>,
    every: Nanos,
    ctx: &mut Ctx<'_>,
) -> Result<Vec<Decision>, Failure> {
    let mut found: Vec<Decision> = Vec::new();
    look_through("replay", path, (at, every), ctx, &mut |_, next| {
        if let Some(last) = found.last_mut() {
            let moves = moves(&last.frame, &next.frame);
            *last = decided(last.frame.clone(), moves);
        }
        found.push(next);
        Ok(())
    })?;
    Ok(found)
}

/// Calls `look` at each interval `every` of a recording, with the machine at that time. `verb` names the action, for
/// messages.
///
/// # Errors
/// [`Failure`] if the recording cannot be read, and that of `look`.
pub(crate) fn look_through(
    verb: &str,
    path: &str,
    (at, every): (Option<&str>, Nanos),
    ctx: &mut Ctx<'_>,
    look: &mut dyn FnMut(&dyn Machine, Decision) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let stop = stop_on_signal();
    let session = recordings::hold(Path::new(path), at, ctx)?;
    let machine = session.machine();
    let clock = machine.clock();
    let accounting = facet("use of CPUs", machine.accounting())?;
    let mut watch = unless_absent("watch sets", accounting.watch())?;
    let mut manager = Manager::new(Box::new(Observer)).dry();
    let cannot = |why: &dyn std::fmt::Display| Complaint::new(format!("{verb} {path}"), why.to_string());
    let (mut is_empty, mut was_disabled) = (true, false);
    loop {
        match manager.turn(machine, watch.as_mut()) {
            Ok(turn) => {
                if let Some(decision) = turn.decision {
                    is_empty = false;
                    look(machine, decision)?;
                }
            }
            Err(error) if error.code == millpond_pools::Code::System(errno::NOT_ACTIVE) => {
                was_disabled = true;
            }
            Err(error) => return Err(cannot(&error).into()),
        }
        clock.sleep_until(clock.now() + every);
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    if is_empty {
        let (why, hint) = match was_disabled {
            true => {
                ("pools were disabled while it was made", "pooladm -e enables them, then millpond record")
            }
            false => ("it is shorter than two intervals", "--every takes a shorter interval"),
        };
        return Err(cannot(&why).hint(hint).into());
    }
    Ok(())
}
