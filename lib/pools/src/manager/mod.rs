//! The manager: measures, asks a policy, and carries out what it decides. The caller says when.
//!
//! ```text
//!   watch ──sample──▶ Frames ──▶ Frame ──▶ Policy ──▶ Decision ──check──▶ commit (one change) ──▶ Turn
//!                       ▲                                                        │
//!                       └──────────── configuration of the machine ◀─────────────┘
//! ```
//!
//! It keeps nothing that matters: the configuration is the machine's, and is read anew in every turn, so that whatever others change is
//! seen. A plan is checked once more against the configuration at the moment at which it is carried out; what does not fit any more is
//! not done.

mod frames;
mod record;
mod rhythm;

pub use record::Record;
pub use rhythm::{OnPressure, PRESSED, Rhythm, SLOW, Wait};

use crate::dynamic;
use crate::error::PoolError;
use frames::Frames;
use millpond_machine::facets::{Usage, UsageWatch};
use millpond_machine::{Clock, Machine, Writer};
use millpond_model::pools::PoolsState;
use millpond_model::{Nanos, PsetId};
use millpond_planner::{Decision, Frame, Outcome, Plan, Policy, check};

/// What a turn found and did.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What was decided. `None` in the first turn, and when nothing can be said of the interval.
    pub decision: Option<Decision>,
    /// What came of the decision of the turn before.
    pub outcome: Option<Outcome>,
    /// What was done about the plan.
    pub done: Done,
    /// Objectives that mean nothing, in words; told when they are first seen.
    pub warnings: Vec<String>,
    /// What the user should know of the changes that were made: steps that were refused and tolerated.
    pub notes: Vec<String>,
    /// Another program changed the configuration since the last turn.
    pub changed: bool,
}

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It had no moves.
    Nothing,
    /// It was carried out, in so long.
    Moved(Nanos),
    /// It does not fit what the machine has by now, in words.
    Stale(String),
    /// The machine refused, and has what it had.
    Refused(PoolError),
}

/// The manager of one machine.
pub struct Manager {
    policy: Box<dyn Policy>,
    frames: Frames,
    last: Option<Decision>,
    cost: Option<Nanos>,
    left: Option<PoolsState>,
    is_dry: bool,
}

impl Manager {
    /// With that policy.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Manager { policy, frames: Frames::default(), last: None, cost: None, left: None, is_dry: false }
    }

    /// The same, which decides and moves nothing.
    #[must_use]
    pub fn dry(self) -> Self {
        Manager { is_dry: true, ..self }
    }

    /// Begins an interval anew: what was measured so far is forgotten.
    ///
    /// # Errors
    /// When the machine cannot be read.
    pub fn look(&mut self, watch: &mut dyn UsageWatch) -> Result<(), PoolError> {
        self.frames.begin(watch.sample()?);
        Ok(())
    }

    /// Waits for the end of an interval that began at `began`, or for `end`, and begins it anew where that is better ([`Rhythm::wait`]).
    ///
    /// # Errors
    /// When the machine cannot be read.
    pub fn wait(
        &mut self,
        rhythm: Rhythm,
        clock: &dyn Clock,
        watch: &mut dyn UsageWatch,
        (began, end): (Nanos, Option<Nanos>),
    ) -> Result<(), PoolError> {
        if let Wait::Again(length) = rhythm.wait(clock, watch, began, end, &|| true)? {
            self.look(watch)?;
            clock.sleep_until(clock.now() + length);
        }
        Ok(())
    }

    /// The name of the policy.
    #[must_use]
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// The policy, to save or restore what it remembers.
    pub fn policy(&mut self) -> &mut dyn Policy {
        self.policy.as_mut()
    }

    /// The configuration as the last turn left it, where that is known.
    #[must_use]
    pub fn configuration(&self) -> Option<&PoolsState> {
        self.left.as_ref()
    }

    /// One turn, at the end of an interval.
    ///
    /// # Errors
    /// [`crate::errno::NOT_ACTIVE`] when pools are disabled; when the machine cannot be read.
    pub fn turn(&mut self, machine: &dyn Machine, watch: &mut dyn UsageWatch) -> Result<Turn, PoolError> {
        // One reading of the machine serves all that is asked.
        let reads = machine.shared_reads();
        let usage: Usage = watch.sample()?;
        let mut state = dynamic::read(machine)?;
        let mut notes = Vec::new();
        if !self.is_dry {
            (state, notes) = crate::dedicated::sweep(machine, state)?;
        }
        // Zones come and go with what starts and ends.
        let changed = self.left.as_ref().is_some_and(|left| left.conf != state.conf);
        self.frames.find_places(machine, &state)?;
        let members = dynamic::occupied(machine, &state)?;
        drop(reads);
        let (frame, warnings) = self.frames.next(usage, &state, &members, self.cost);
        let Some(frame) = frame else {
            self.left = Some(state);
            return Ok(Turn { decision: None, outcome: None, done: Done::Nothing, warnings, notes, changed });
        };
        let outcome = self.last.take().map(|last| last.outcome_in(&frame, self.cost));
        let decision = self.policy.decide(&frame);
        let done = self.carry_out(machine, &frame, &decision.plan, state, &mut notes)?;
        self.last = Some(decision.clone());
        Ok(Turn { decision: Some(decision), outcome, done, warnings, notes, changed })
    }

    /// No other program writes from the second reading of the configuration on. A plan for a configuration that has changed is
    /// dropped: the next turn begins with the new one.
    fn carry_out(
        &mut self,
        machine: &dyn Machine,
        frame: &Frame,
        plan: &Plan,
        state: PoolsState,
        notes: &mut Vec<String>,
    ) -> Result<Done, PoolError> {
        let seen = self.left.insert(state);
        if plan.moves.is_empty() || self.is_dry {
            return Ok(Done::Nothing);
        }
        if let Some(violation) = check(frame, &plan.moves).first() {
            return Ok(Done::Stale(violation.to_string()));
        }
        let wanted = match moved(seen, plan) {
            Ok(wanted) => wanted,
            Err(why) => return Ok(Done::Stale(why)),
        };
        let began = machine.clock().now();
        let writer = match Writer::open(machine) {
            Ok(writer) => writer,
            Err(refusal) => return Ok(Done::Refused(refusal.into())),
        };
        if *seen != dynamic::read(machine)? {
            return Ok(Done::Stale("another program changed the configuration meanwhile".into()));
        }
        match dynamic::commit(&writer, machine, Some(wanted.clone())) {
            Ok(done) => {
                notes.extend(done.notes);
                let took = Nanos(machine.clock().now().0.saturating_sub(began.0));
                self.cost = Some(took);
                self.left = Some(wanted);
                Ok(Done::Moved(took))
            }
            Err(error) => {
                self.left = None;
                Ok(Done::Refused(error))
            }
        }
    }
}

/// The configuration after the plan, or why the plan is none for it.
fn moved(state: &PoolsState, plan: &Plan) -> Result<PoolsState, String> {
    let mut state = state.clone();
    for step in &plan.moves {
        if let Some(why) = unfit(&state, step.cpu, step.from) {
            return Err(why);
        }
        let name = state.conf.psets.iter().find(|s| s.id == Some(step.to)).map(|s| s.name.clone());
        if !name.is_some_and(|name| state.conf.move_cpu(step.cpu, &name)) {
            return Err(format!("there is no set {}", step.to));
        }
    }
    Ok(state)
}

/// Why a processor is not where the plan has it from.
fn unfit(state: &PoolsState, cpu: millpond_model::CpuId, from: PsetId) -> Option<String> {
    match state.conf.pset_with(cpu) {
        None => Some(format!("CPU {cpu} is gone")),
        Some(set) if set.id != Some(from) => Some(format!("CPU {cpu} is in {} by now", set.name)),
        Some(_) => None,
    }
}
