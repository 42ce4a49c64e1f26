//! Replay: gives recorded frames to another policy and compares both.
//!
//! There are two modes. *As recorded*: each decision is made on the recorded frame, so that the two answers are directly comparable.
//! *Followed*: set sizes follow from the plans of the other policy, and only the loads are recorded. Loads are known as far as they were
//! measured: the usage of CPUs that the threads never had is estimated from their waiting ([`demand()`]).

use crate::convert::{real, span};
use crate::{Decision, Frame, Outlook, Policy, SetFrame, StateError, Waiting, demand};
use millpond_model::{CpuId, CpuSet, Move, Nanos, PsetId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How frames are given to the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// The recorded frames.
    AsRecorded,
    /// Recorded loads on the set sizes that its own plans lead to.
    Followed,
}

/// A policy's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Its moves.
    pub moves: Vec<Move>,
    /// Missing CPUs during the interval before.
    pub found: f64,
    /// Expected missing CPUs after it.
    pub expected: f64,
    /// The reason.
    pub reason: String,
}

/// Both decisions for one frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Time of the decision, in nanoseconds since boot.
    pub at: Nanos,
    /// Length of the interval, in nanoseconds.
    pub elapsed: Nanos,
    /// The recorded decision.
    pub recorded: Answer,
    /// The other policy's decision.
    pub asked: Answer,
}

/// All decisions of a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sum {
    /// CPUs moved.
    pub moves: usize,
    /// Decisions that moved CPUs.
    pub batches: usize,
    /// Missing CPUs, a mean over time.
    pub found: f64,
    /// Expected missing CPUs after each decision, a mean over time.
    pub expected: f64,
}

/// A comparison of two policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The replayed policy.
    pub policy: String,
    /// One for each decision.
    pub pairs: Vec<Pair>,
    /// The recorded policy, or policies.
    pub recorded: Sum,
    /// The replayed policy.
    pub asked: Sum,
}

/// Replays a log with `policy`. If it is the recorded policy and the first record has its state, it continues from that state.
///
/// # Errors
/// [`StateError`] if the state of that record is invalid.
pub fn replay(log: &[Decision], policy: &mut dyn Policy, how: Replay) -> Result<Comparison, StateError> {
    if let Some(first) = log.first()
        && first.policy == policy.name()
        && let Some(state) = &first.state
    {
        policy.restore(state)?;
    }
    let mut owners: BTreeMap<CpuId, PsetId> = BTreeMap::new();
    let mut pairs = Vec::with_capacity(log.len());
    for decision in log {
        let answer = match how {
            Replay::AsRecorded => policy.decide(&decision.frame),
            Replay::Followed => {
                let frame = follow(&decision.frame, &mut owners);
                let answer = policy.decide(&frame);
                owners.extend(answer.plan.moves.iter().map(|one| (one.cpu, one.to)));
                answer
            }
        };
        let (at, elapsed) = (decision.frame.at, decision.frame.elapsed);
        pairs.push(Pair { at, elapsed, recorded: Answer::of(decision), asked: Answer::of(&answer) });
    }
    let recorded = sum(&pairs, |pair| &pair.recorded);
    let asked = sum(&pairs, |pair| &pair.asked);
    Ok(Comparison { policy: policy.name().to_owned(), pairs, recorded, asked })
}

impl Answer {
    fn of(decision: &Decision) -> Answer {
        Answer {
            moves: decision.plan.moves.clone(),
            found: Outlook::unmet(&Outlook::after(&decision.frame, &[])),
            expected: Outlook::unmet(&decision.expected),
            reason: decision.plan.reason.clone(),
        }
    }
}

fn sum(pairs: &[Pair], side: impl Fn(&Pair) -> &Answer) -> Sum {
    let mut sum = Sum::default();
    let mut time = 0.0;
    for pair in pairs {
        let (answer, elapsed) = (side(pair), pair.elapsed.as_secs_f64());
        sum.moves += answer.moves.len();
        sum.batches += usize::from(!answer.moves.is_empty());
        sum.found += answer.found * elapsed;
        sum.expected += answer.expected * elapsed;
        time += elapsed;
    }
    if time > 0.0 {
        sum.found /= time;
        sum.expected /= time;
    }
    sum
}

/// The recorded loads on sets with the CPUs that `owners` assigns. New CPUs, and CPUs whose set no longer exists, are in their recorded set.
fn follow(recorded: &Frame, owners: &mut BTreeMap<CpuId, PsetId>) -> Frame {
    let exists = |id: &PsetId| recorded.sets.iter().any(|set| set.id == *id);
    let mut frame = recorded.clone();
    let mut now: BTreeMap<CpuId, PsetId> = BTreeMap::new();
    for set in &recorded.sets {
        for cpu in set.cpus.iter() {
            now.insert(cpu, owners.get(&cpu).copied().filter(exists).unwrap_or(set.id));
        }
    }
    for set in &mut frame.sets {
        let cpus: CpuSet = now.iter().filter(|(_, owner)| **owner == set.id).map(|(cpu, _)| *cpu).collect();
        if cpus != set.cpus {
            carry(set, cpus, recorded.elapsed);
        }
    }
    *owners = now;
    frame
}

/// Transfers the load of a set to other members.
fn carry(set: &mut SetFrame, cpus: CpuSet, elapsed: Nanos) {
    if let Some(need) = demand(set, elapsed) {
        let time = |count: f64| span(count * elapsed.as_secs_f64());
        let size = real(cpus.len());
        set.busy = time(need.wanted.min(size));
        set.waiting = Waiting::Threads(time((need.wanted - size).max(0.0)));
    }
    set.pinned = &set.pinned & &cpus;
    set.idle = CpuSet::new();
    set.cpus = cpus;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frame, load, set};
    use crate::{Log, policy, read_log};

    /// Some seconds of a growing demand in one set, recorded with a policy whose plans are applied.
    fn recorded(name: &str) -> Vec<Decision> {
        let mut policy = policy(name).unwrap();
        let (mut default, mut web) = (set(0, "0-7"), set(1, "8-9"));
        let mut log = Vec::new();
        for tenth in 1..=30u64 {
            let wants = if tenth < 10 { 1.9 } else { 6.0 };
            let of = |set: &SetFrame, wants: f64| {
                load(set.clone(), wants.min(real(set.size())), (wants - real(set.size())).max(0.0))
            };
            let now = Frame {
                at: Nanos::from_millis(100 * tenth),
                ..frame(vec![of(&default, 4.0), of(&web, wants)])
            };
            let decision = policy.decide(&now);
            for one in &decision.plan.moves {
                let (from, to) =
                    if one.to == web.id { (&mut default, &mut web) } else { (&mut web, &mut default) };
                from.cpus.remove(one.cpu);
                to.cpus.insert(one.cpu);
            }
            log.push(decision);
        }
        log
    }

    #[test]
    fn a_policy_agrees_with_itself_also_from_a_log() {
        let mut log = Log::default();
        for name in crate::POLICIES {
            let decisions = recorded(name);
            let text: String = decisions.iter().map(|decision| log.line(decision).unwrap()).collect();
            let (read, errors) = read_log(&text);
            assert_eq!((read.len(), errors.len()), (30, 0));
            for how in [Replay::AsRecorded, Replay::Followed] {
                let comparison = replay(&read, policy(name).unwrap().as_mut(), how).unwrap();
                assert!(comparison.pairs.iter().all(|pair| pair.recorded == pair.asked), "{name}");
                assert_eq!(comparison.recorded, comparison.asked);
            }
        }
    }

    #[test]
    fn the_quick_policy_would_have_left_less_lacking() {
        // Solaris has samples at the sixth frame: 4.0 and 1.9 of 5.9 are 7 and 3 of 10. From the tenth frame on the set lacks 3. It gets one
        // CPU at each of the frames 12, 18 and 24.
        let log = recorded("solaris");
        let made: Vec<usize> =
            (1..).zip(&log).filter(|(_, d)| !d.plan.moves.is_empty()).map(|(at, _)| at).collect();
        assert_eq!(made[..4], [6, 12, 18, 24]);
        let quick = replay(&log, policy("millpond").unwrap().as_mut(), Replay::Followed).unwrap();
        // Four CPUs move at the tenth frame, in which four were lacking: 4 of 30 frames.
        assert_eq!((quick.asked.batches, quick.asked.moves), (1, 4));
        assert!((quick.asked.found - 4.0 / 30.0).abs() < 1e-6, "{}", quick.asked.found);
        // Three are lacking in frames 10 to 12, two in 13 to 18, one in 19 to 24.
        assert!((quick.recorded.found - (9.0 + 12.0 + 6.0) / 30.0).abs() < 1e-6, "{}", quick.recorded.found);
        // On the recorded frames it would have moved the lacking CPUs each time.
        let asked = replay(&log, policy("millpond").unwrap().as_mut(), Replay::AsRecorded).unwrap();
        assert_eq!(asked.pairs[9].asked.moves.len(), 3);
        assert!(asked.asked.expected < asked.recorded.expected);
    }

    #[test]
    fn a_record_with_a_state_is_gone_on_from() {
        let mut first = policy("solaris").unwrap();
        let load = frame(vec![load(set(0, "0-3"), 1.0, 0.0), load(set(1, "4-7"), 4.0, 9.0)]);
        (0..5).for_each(|_| _ = first.decide(&load));
        let state = first.state();
        let decision = Decision { state: Some(state), ..first.decide(&load) };
        assert_eq!(decision.plan.moves.len(), 1);
        let again =
            replay(std::slice::from_ref(&decision), policy("solaris").unwrap().as_mut(), Replay::AsRecorded);
        assert_eq!(again.unwrap().pairs[0].asked.moves, decision.plan.moves);
        let broken = Decision { state: Some("old".into()), ..decision };
        assert!(replay(&[broken], policy("solaris").unwrap().as_mut(), Replay::AsRecorded).is_err());
    }

    #[test]
    fn processors_that_come_and_go_are_followed() {
        let mut owners = [(CpuId(1), PsetId(1)), (CpuId(2), PsetId(9)), (CpuId(7), PsetId(1))].into();
        let recorded = frame(vec![load(set(0, "0-3"), 4.0, 2.0), load(set(1, "4"), 1.0, 0.0)]);
        let followed = follow(&recorded, &mut owners);
        let members: Vec<String> = followed.sets.iter().map(|set| set.cpus.to_string()).collect();
        assert_eq!(members, ["0,2-3", "1,4"], "1 went, 2's set is gone, 7 is off-line");
        assert_eq!(followed.sets[0].waiting, Waiting::Threads(Nanos::from_millis(300)));
        assert_eq!(owners.len(), 5);
    }

    #[test]
    fn an_empty_log_compares_to_nothing() {
        let comparison = replay(&[], policy("millpond").unwrap().as_mut(), Replay::Followed).unwrap();
        assert_eq!((comparison.recorded, comparison.pairs.len()), (Sum::default(), 0));
    }
}
