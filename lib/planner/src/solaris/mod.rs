//! The policy `solaris`: what poold(8) of Solaris did, in the same steps and with the same log messages.
//!
//! # How it decides
//!
//! Each frame gives a sample of the utilization of each set. The first sample after the members of a set changed is only a baseline. Once
//! every set has five samples, objectives are evaluated: `wt-load` by rounded shares, utilization by distance from a target in standard
//! deviations. If an objective is not satisfied, every move of one CPU that the bounds allow gets a score. The move with the highest
//! positive score is made, unless the same move made things worse before. Then both sets start with new samples.
//!
//! So a CPU moves in every sixth interval at most. This slowness is kept on purpose; the policy `millpond` is the fast one.
//!
//! # Decisions where the behaviour of Solaris is not known
//!
//! * A plan that the machine refuses shows in the next frame, whose members are the old ones. The next best move is tried then. The
//!   refused move is not tried again until another move was made.
//! * Members or bounds that another program changed are logged as `configuration changed externally`; sets whose members changed start with
//!   new samples.
//! * In the message about nine points, the objectives of a set have the same place as in the message about bounds.
//! * `benefit not significant` is logged for the best move only.

mod event;
mod formulas;
mod history;
mod moves;
mod samples;
#[cfg(test)]
mod tests;
mod view;

pub use event::{Category, Event, Found, Severity, Transfer};

use crate::convert::{ratio, real};
use crate::decision::Draft;
use crate::policy::{Policy, StateError};
use crate::{Alternative, Decision, Frame, SetFrame, check};
use history::History;
use millpond_model::pools::Weighted;
use millpond_model::{CpuSet, Move, PsetId};
use moves::{Candidate, candidates};
use samples::Samples;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use view::{View, found};

/// The number of alternatives in a record.
const ALTERNATIVES: usize = 8;

/// The policy.
#[derive(Debug, Clone, Default)]
pub struct Solaris {
    state: State,
}

/// The state of the policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    /// The last known configuration.
    conf: Option<Conf>,
    samples: Vec<Samples>,
    history: History,
    /// How often locality alone forced a search for moves in this configuration.
    forced: usize,
    /// The last move, until the next frame shows whether it was applied.
    pending: Option<Move>,
    /// Moves that the machine refused since the last accepted one.
    refused: Vec<Move>,
}

/// The configuration by the operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Conf {
    objectives: Vec<Weighted>,
    sets: Vec<ConfSet>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ConfSet {
    id: PsetId,
    min: usize,
    max: usize,
    importance: i64,
    pinned: CpuSet,
    objectives: Vec<Weighted>,
}

impl Conf {
    fn of(frame: &Frame) -> Conf {
        let set = |set: &SetFrame| ConfSet {
            id: set.id,
            min: set.min,
            max: set.max,
            importance: set.importance,
            pinned: set.pinned.clone(),
            objectives: set.objectives.clone(),
        };
        Conf { objectives: frame.objectives.clone(), sets: frame.sets.iter().map(set).collect() }
    }
}

impl Policy for Solaris {
    fn name(&self) -> &'static str {
        "solaris"
    }

    fn decide(&mut self, frame: &Frame) -> Decision {
        let mut events = Vec::new();
        self.state.notice(frame, &mut events);
        self.state.sample(frame, &mut events);
        let view = View::new(frame, &self.state.samples);
        if let Some(values) = &view.values {
            let place = |id: PsetId| frame.sets.iter().position(|set| set.id == id);
            self.state.history.judge(|made| place(made.to).map(|at| values[at].utilization));
        }
        let mut draft = Draft { policy: self.name(), ..Draft::default() };
        if self.state.is_wanted(&view, &mut events) {
            self.state.choose(&view, &mut events, &mut draft);
        }
        let said = events.iter().filter(|event| event.category() != Category::Configuration);
        draft.reason = said.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        draft.events = events;
        draft.finish(frame)
    }

    fn state(&self) -> Value {
        serde_json::to_value(&self.state).unwrap_or_default()
    }

    fn restore(&mut self, state: &Value) -> Result<(), StateError> {
        self.state = State::deserialize(state)
            .map_err(|error| StateError { policy: self.name(), what: error.to_string() })?;
        Ok(())
    }
}

impl State {
    /// Finds changes since the last frame, and whether the policy made them.
    fn notice(&mut self, frame: &Frame, events: &mut Vec<Event>) {
        let conf = Conf::of(frame);
        let mut is_foreign = self.conf.as_ref().is_some_and(|known| *known != conf);
        if is_foreign {
            self.forced = 0;
            self.refused.clear();
        }
        self.conf = Some(conf);
        let made = self.pending.take().filter(|made| {
            let stayed = frame.set(made.from).is_some_and(|set| set.cpus.contains(made.cpu));
            if stayed {
                events.push(Event::MoveFailed);
                self.history.forget(*made);
                self.refused.push(*made);
            } else {
                self.refused.clear();
            }
            !stayed
        });
        let begins = self.samples.is_empty();
        self.samples.retain(|samples| frame.set(samples.set).is_some());
        for set in &frame.sets {
            let known = self.samples.iter_mut().find(|samples| samples.set == set.id);
            match known {
                Some(samples) if samples.cpus == set.cpus => {}
                Some(samples) => {
                    is_foreign |= after(&samples.cpus, set.id, made) != set.cpus;
                    *samples = Samples::new(set.id, set.cpus.clone());
                }
                None => {
                    is_foreign |= !begins;
                    self.samples.push(Samples::new(set.id, set.cpus.clone()));
                }
            }
        }
        if is_foreign {
            events.push(Event::ChangedExternally);
        }
    }

    /// Takes one sample of each set.
    fn sample(&mut self, frame: &Frame, events: &mut Vec<Event>) {
        self.history.grow_older();
        for samples in &mut self.samples {
            let Some(set) = frame.set(samples.set) else { continue };
            if set.cpus.is_empty() || set.is_reset || frame.elapsed.0 == 0 {
                continue;
            }
            let size = real(set.size());
            let utilization = 100.0 * (ratio(set.busy, frame.elapsed) / size).min(1.0);
            samples.push(utilization);
            if samples.lean_to_one_side() {
                samples.clear();
                events.extend(found(set, utilization).into_iter().map(Event::Reinitialized));
            }
        }
    }

    /// Whether a reconfiguration is required.
    fn is_wanted(&mut self, view: &View<'_>, events: &mut Vec<Event>) -> bool {
        if view.values.is_none() {
            events.push(Event::NotEvaluating);
        }
        let complaints = view.complaints();
        let is_forced = view.has_locality_alone() && self.forced < view.total / 2;
        let is_wanted = is_forced || !complaints.is_empty();
        events.extend(complaints);
        if is_forced {
            self.forced += 1;
        }
        events.push(if is_wanted { Event::ReconfigurationRequired } else { Event::AllSatisfied });
        is_wanted
    }

    /// Makes the best move.
    fn choose(&mut self, view: &View<'_>, events: &mut Vec<Event>, draft: &mut Draft) {
        let frame = view.frame;
        let all = candidates(view);
        let Some(best) = all.first() else { return events.push(Event::NoMoves) };
        let good: Vec<Candidate> = all.iter().copied().filter(|candidate| candidate.score > 0.0).collect();
        if good.is_empty() {
            events.push(Event::NotSignificant(transfer(frame, best.one)));
            draft.alternatives = alternatives(&all, None, |_| "benefit not significant");
            return;
        }
        let can = |candidate: &&Candidate| {
            !self.refused.contains(&candidate.one) && check(frame, &[candidate.one]).is_empty()
        };
        let mut chosen = None;
        for candidate in good.iter().filter(can) {
            if !self.history.vetoes(candidate.one) {
                chosen = Some(*candidate);
                break;
            }
            events.push(Event::PoorPastResults(transfer(frame, candidate.one)));
        }
        let chosen = chosen.or_else(|| good.iter().find(can).copied());
        draft.alternatives = alternatives(&good, chosen, |one| match () {
            () if self.refused.contains(&one) => "refused by the machine",
            () if self.history.vetoes(one) => "poor past results",
            () => "not better",
        });
        let Some(Candidate { one, score }) = chosen else { return };
        events.push(Event::Applying(transfer(frame, one)));
        events.push(Event::Reconfiguring);
        if view.minds_workload()
            && let Some(values) = &view.values
            && let Some(to) = frame.sets.iter().position(|set| set.id == one.to)
        {
            self.history.record(one, values[to].utilization, frame.sets[to].size() + 1);
        }
        self.pending = Some(one);
        draft.moves = vec![one];
        draft.score = score;
    }
}

/// The members of a set after a move, if the move concerns it.
fn after(cpus: &CpuSet, set: PsetId, made: Option<Move>) -> CpuSet {
    let mut cpus = cpus.clone();
    match made {
        Some(made) if made.from == set => _ = cpus.remove(made.cpu),
        Some(made) if made.to == set => _ = cpus.insert(made.cpu),
        _ => {}
    }
    cpus
}

/// A move with the names of its sets.
fn transfer(frame: &Frame, one: Move) -> Transfer {
    let name = |id: PsetId| frame.set(id).map(|set| set.name.clone()).unwrap_or_default();
    Transfer { from: name(one.from), to: name(one.to), cpu: one.cpu }
}

/// The best moves that were not chosen.
fn alternatives(
    all: &[Candidate],
    chosen: Option<Candidate>,
    why_not: impl Fn(Move) -> &'static str,
) -> Vec<Alternative> {
    let others = all.iter().filter(|candidate| Some(candidate.one) != chosen.map(|chosen| chosen.one));
    let alternative = |candidate: &Candidate| Alternative {
        moves: vec![candidate.one],
        score: candidate.score,
        why_not: why_not(candidate.one).into(),
    };
    others.take(ALTERNATIVES).map(alternative).collect()
}
