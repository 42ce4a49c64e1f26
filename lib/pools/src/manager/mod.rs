//! The manager: measures, calls a policy, and applies its plan. The caller determines when.
//!
//! ```text
//!   watch ──sample──▶ Frames ──▶ Frame ──▶ Policy ──▶ Decision ──check──▶ commit (one change) ──▶ Turn
//!                       ▲                                                        │
//!                       └──────────── configuration of the machine ◀─────────────┘
//! ```
//!
//! It keeps no state that could become stale: the configuration is read from the machine in every turn, so that changes by other programs are
//! noticed. A plan is checked once more against the configuration when it is applied; a plan that no longer fits is dropped.

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

/// The result of a turn.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The decision. `None` in the first turn, and if nothing is known about the interval.
    pub decision: Option<Decision>,
    /// The result of the decision of the previous turn.
    pub outcome: Option<Outcome>,
    /// What was done with the plan.
    pub done: Done,
    /// Warnings about objectives without effect, each reported once.
    pub warnings: Vec<String>,
    /// Notes for the user about the changes: refused steps that were tolerated.
    pub notes: Vec<String>,
    /// Whether another program changed the configuration since the last turn.
    pub changed: bool,
}

/// What was done with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It had no moves.
    Nothing,
    /// It was applied, in this time.
    Moved(Nanos),
    /// It no longer fits the configuration of the machine; the reason as text.
    Stale(String),
    /// The machine refused it and is unchanged.
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
    /// A manager with this policy.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Manager { policy, frames: Frames::default(), last: None, cost: None, left: None, is_dry: false }
    }

    /// The same, but plans are not applied.
    #[must_use]
    pub fn dry(self) -> Self {
        Manager { is_dry: true, ..self }
    }

    /// Starts a new interval and discards earlier measurements.
    ///
    /// # Errors
    /// If the machine cannot be read.
    pub fn look(&mut self, watch: &mut dyn UsageWatch) -> Result<(), PoolError> {
        self.frames.begin(watch.sample()?);
        Ok(())
    }

    /// Waits for the end of an interval that began at `began`, or for `end`. Starts a new interval if that gives a better measurement
    /// ([`Rhythm::wait`]).
    ///
    /// # Errors
    /// If the machine cannot be read.
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

    /// The policy, to save or restore its state.
    pub fn policy(&mut self) -> &mut dyn Policy {
        self.policy.as_mut()
    }

    /// The configuration after the last turn, if known.
    #[must_use]
    pub fn configuration(&self) -> Option<&PoolsState> {
        self.left.as_ref()
    }

    /// One turn, at the end of an interval.
    ///
    /// # Errors
    /// [`crate::errno::NOT_ACTIVE`] if pools are disabled; if the machine cannot be read.
    pub fn turn(&mut self, machine: &dyn Machine, watch: &mut dyn UsageWatch) -> Result<Turn, PoolError> {
        // One shared reading of the machine serves all queries of this turn.
        let reads = machine.shared_reads();
        let usage: Usage = watch.sample()?;
        let mut state = dynamic::read(machine)?;
        let mut notes = Vec::new();
        if !self.is_dry {
            (state, notes) = crate::dedicated::sweep(machine, state)?;
        }
        // Zones are not compared: they change whenever services start and stop.
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

    /// Applies a plan. The writer lock is taken before the configuration is read a second time. A plan for a configuration that has changed is
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

/// The configuration after the plan, or the reason why the plan does not fit.
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

/// The reason why a CPU is not in the donor set of the plan.
fn unfit(state: &PoolsState, cpu: millpond_model::CpuId, from: PsetId) -> Option<String> {
    match state.conf.pset_with(cpu) {
        None => Some(format!("CPU {cpu} is gone")),
        Some(set) if set.id != Some(from) => Some(format!("CPU {cpu} is in {} by now", set.name)),
        Some(_) => None,
    }
}
