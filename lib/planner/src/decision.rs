//! The record of a decision: its frame, plan, alternatives, expectation and outcome.

use crate::convert::real;
use crate::solaris::Event;
use crate::{Frame, Plan, check, demand};
use millpond_model::{Move, Nanos, PsetId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One decision, also to do nothing. The frame is in it whole, so that another policy can be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The name of the policy.
    pub policy: String,
    /// What the policy remembered before, where the log has it; best in the first line of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// What was known.
    pub frame: Frame,
    /// What is to be done.
    pub plan: Plan,
    /// What doing it is worth: the policy's own measure, higher is better, doing nothing is 0.
    pub score: f64,
    /// What else was thought of, best first; the best few of many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What each set should look like once it is done, if its demand stays.
    pub expected: Vec<Outlook>,
    /// What the Solaris daemon would have logged: only its policy says that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// What the operator might do, where this is not the best way to run this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// A plan that was not chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Its moves.
    pub moves: Vec<Move>,
    /// What it was thought to be worth, as [`Decision::score`].
    pub score: f64,
    /// What it is and why it was not chosen.
    pub why_not: String,
}

/// One set, expected or found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// Which.
    pub set: PsetId,
    /// How many CPUs it has.
    pub size: usize,
    /// How many it would use, if that is known.
    pub demand: Option<f64>,
    /// How many it lacks.
    pub unmet: f64,
    /// Percent of its CPUs' time; 0 without CPUs.
    pub utilization: f64,
}

/// What came of a decision, seen an interval later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When it was seen.
    pub at: Nanos,
    /// How many of the moves had been made.
    pub moved: usize,
    /// How long writing the batch took, where it was measured.
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

    /// The sets of a frame after some moves, if demands stay.
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

    /// How many CPUs all of them lack.
    #[must_use]
    pub fn unmet(sets: &[Outlook]) -> f64 {
        sets.iter().map(|set| set.unmet).sum()
    }
}

impl Decision {
    /// Compares with the next frame. `cost` is how long writing the batch took.
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

/// What a policy has come to.
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
    /// Makes a record of it. A plan that breaks a rule is none: nothing is moved, and the reason says what was wrong.
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
