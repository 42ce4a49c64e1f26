//! The record of a decision: its frame, plan, alternatives, expectation and outcome.

use crate::convert::real;
use crate::solaris::Event;
use crate::{Frame, Plan, check, demand};
use millpond_model::{Move, Nanos, PsetId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One decision, also a decision to do nothing. It contains the whole frame, so that another policy can be replayed on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The name of the policy.
    pub policy: String,
    /// The state of the policy before the decision, if the log records it; at least in the first line of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// The input.
    pub frame: Frame,
    /// The chosen plan.
    pub plan: Plan,
    /// The value of the plan, in the measure of the policy. Higher is better; doing nothing is 0.
    pub score: f64,
    /// The best few plans that were not chosen, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The expected result for each set, if its demand does not change.
    pub expected: Vec<Outlook>,
    /// The log messages of the Solaris daemon; only the policy `solaris` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Advice for the operator, if sets are not the best mechanism for this load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The measured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// A plan that was not chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Its moves.
    pub moves: Vec<Move>,
    /// Its value, in the unit of [`Decision::score`].
    pub score: f64,
    /// A description, and why it was not chosen.
    pub why_not: String,
}

/// Expected or measured figures of one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// The set.
    pub set: PsetId,
    /// Its number of CPUs.
    pub size: usize,
    /// Its demand in CPUs, if known.
    pub demand: Option<f64>,
    /// The number of CPUs that it lacks.
    pub unmet: f64,
    /// Utilization of its CPUs in percent; 0 without CPUs.
    pub utilization: f64,
}

/// The result of a decision, measured one interval later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The time of the measurement.
    pub at: Nanos,
    /// How many of the moves were made.
    pub moved: usize,
    /// The time to write the batch, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Nanos>,
    /// The sets.
    pub sets: Vec<Outlook>,
}

impl Outlook {
    fn new(set: PsetId, size: usize, demand: Option<f64>) -> Outlook {
        let wanted = demand.unwrap_or(0.0);
        let used = wanted.min(real(size));
        let utilization = if size == 0 { 0.0 } else { 100.0 * used / real(size) };
        Outlook { set, size, demand, unmet: (wanted - real(size)).max(0.0), utilization }
    }

    /// The expected figures of all sets after some moves, with unchanged demand.
    #[must_use]
    pub fn after(frame: &Frame, moves: &[Move]) -> Vec<Outlook> {
        let outlook = |set: &crate::SetFrame| {
            let gained = moves.iter().filter(|m| m.to == set.id).count();
            let lost = moves.iter().filter(|m| m.from == set.id).count();
            let size = (set.size() + gained).saturating_sub(lost);
            Outlook::new(set.id, size, demand(set, frame.elapsed).map(|need| need.wanted))
        };
        frame.sets.iter().map(outlook).collect()
    }

    /// The number of CPUs that all of them lack together.
    #[must_use]
    pub fn unmet(sets: &[Outlook]) -> f64 {
        sets.iter().map(|set| set.unmet).sum()
    }
}

impl Decision {
    /// The result, measured in the next frame. `cost` is the time to write the batch.
    #[must_use]
    pub fn outcome_in(&self, next: &Frame, cost: Option<Nanos>) -> Outcome {
        let members = next.members();
        let is_there = |one: &&Move| {
            let at = members.binary_search_by_key(&one.cpu, |(cpu, _)| *cpu);
            at.is_ok_and(|at| next.sets[members[at].1].id == one.to)
        };
        let moved = self.plan.moves.iter().filter(is_there).count();
        Outcome { at: next.at, moved, cost, sets: Outlook::after(next, &[]) }
    }
}

/// A decision of a policy that is not yet checked.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub policy: &'static str,
    pub moves: Vec<Move>,
    pub reason: String,
    pub score: f64,
    pub alternatives: Vec<Alternative>,
    pub events: Vec<Event>,
    pub advice: Option<String>,
}

impl Draft {
    /// Turns the draft into a record. A plan that breaks a rule is dropped: nothing is moved, and the reason names the broken rule.
    pub fn finish(mut self, frame: &Frame) -> Decision {
        if let Some(violation) = check(frame, &self.moves).first() {
            self.reason = format!("nothing is moved, because {violation}; planned was: {}", self.reason);
            self.moves.clear();
            self.score = 0.0;
        }
        Decision {
            policy: self.policy.to_owned(),
            state: None,
            expected: Outlook::after(frame, &self.moves),
            frame: frame.clone(),
            plan: Plan { moves: self.moves, reason: self.reason },
            score: self.score,
            alternatives: self.alternatives,
            events: self.events,
            advice: self.advice,
            outcome: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frame, load, set};
    use millpond_model::CpuId;

    fn decision() -> Decision {
        let frame = frame(vec![load(set(0, "0-3"), 1.0, 0.0), load(set(1, "4-7"), 4.0, 2.0)]);
        let moves = vec![Move { cpu: CpuId(3), from: PsetId(0), to: PsetId(1) }];
        Decision {
            policy: "test".into(),
            state: None,
            expected: Outlook::after(&frame, &moves),
            frame,
            plan: Plan { moves, reason: "set1 lacks 2".into() },
            score: 0.1 + 0.2,
            alternatives: vec![Alternative { moves: Vec::new(), score: 0.0, why_not: "nothing".into() }],
            events: Vec::new(),
            advice: None,
            outcome: None,
        }
    }

    #[test]
    fn what_is_expected_follows_from_demands_and_moves() {
        let expected = decision().expected;
        let sizes: Vec<usize> = expected.iter().map(|set| set.size).collect();
        assert_eq!(sizes, [3, 5]);
        assert!((expected[0].utilization - 100.0 / 3.0).abs() < 1e-6);
        assert!((Outlook::unmet(&expected) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn an_outcome_counts_the_moves_that_were_made() {
        let decision = decision();
        assert_eq!(decision.outcome_in(&decision.frame, None).moved, 0);
        let next = frame(vec![set(0, "0-2"), set(1, "3-7")]);
        let outcome = decision.outcome_in(&next, Some(Nanos(7)));
        assert_eq!((outcome.moved, outcome.cost), (1, Some(Nanos(7))));
    }

    #[test]
    fn a_plan_that_breaks_a_rule_is_not_given_out() {
        let frame = frame(vec![set(0, "0"), set(1, "1-2")]);
        let moves = vec![Move { cpu: CpuId(0), from: PsetId(0), to: PsetId(1) }];
        let decision = Draft { moves, reason: "greed".into(), ..Draft::default() }.finish(&frame);
        assert_eq!(decision.plan.moves, []);
        assert_eq!(
            decision.plan.reason,
            "nothing is moved, because move 1: set 0 is brought below its minimum; planned was: greed"
        );
    }

    #[test]
    fn a_record_is_the_same_after_it_was_written_and_read() {
        let text = serde_json::to_string(&decision()).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision());
    }
}
