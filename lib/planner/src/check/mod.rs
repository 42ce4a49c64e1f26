//! The checker: lists the hard rules that a plan breaks. It is independent of policies and trusts none.
//!
//! Moves are checked one after the other, in the order in which they are made. A plan with a valid result and an invalid intermediate
//! state is invalid. A set that was outside its bounds before the plan (a CPU went off-line, a bound changed) is not a violation; moving it
//! further away is.

#[cfg(test)]
mod tests;

use crate::{Frame, demand};
use millpond_model::{CpuId, Move, PsetId};
use std::fmt;

millpond_model::words! {
    /// A rule that no plan may break.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Rule {
        /// A moved CPU is on-line and in a set.
        KnownProcessor = "is not on-line in any set",
        /// Both sets of a move exist.
        KnownSet = "does not exist",
        /// The two sets of a move are different.
        TwoSets = "is both where it is and where it goes",
        /// A CPU is moved at most once.
        MovedOnce = "is moved twice",
        /// A CPU is moved from the set that it is in.
        MovedFromItsPlace = "is not in the set that it is moved from",
        /// A pinned CPU never moves.
        Pinned = "is pinned",
        /// No set falls below its minimum.
        Minimum = "is brought below its minimum",
        /// No set rises above its maximum.
        Maximum = "is brought above its maximum",
        /// The default set never loses its last CPU.
        DefaultSet = "is the default set and loses its last CPU",
        /// A set with processes never loses its last CPU.
        LastProcessor = "has processes and loses its last CPU",
        /// A set never gives a CPU that it needs to a set that does not need it.
        Needed = "needs a CPU that goes to a set that does not need it",
        /// Each CPU is in one set before and after, and none is lost.
        Total = "is not in exactly one set",
    }
}

/// A violation of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Index of the move in the plan, from 0; `None` if the violation concerns the whole plan.
    pub step: Option<usize>,
    /// The CPU concerned.
    pub cpu: Option<CpuId>,
    /// The set concerned.
    pub set: Option<PsetId>,
}

/// `move 2: processor 7 is pinned`; moves are counted from 1.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = self.step {
            write!(f, "move {}: ", step + 1)?;
        }
        match (self.set, self.cpu) {
            (Some(set), _) => write!(f, "set {set} ")?,
            (None, Some(cpu)) => write!(f, "CPU {cpu} ")?,
            (None, None) => f.write_str("the plan ")?,
        }
        f.write_str(self.rule.word())
    }
}

/// The state of the check after some moves.
struct Walk<'f> {
    frame: &'f Frame,
    /// Each CPU with the index of its set, ascending.
    members: Vec<(CpuId, usize)>,
    /// Whether the CPU at the same index of `members` was moved.
    moved: Vec<bool>,
    sizes: Vec<usize>,
    violations: Vec<Violation>,
}

/// Every violation, in the order of the moves. A plan without violations may be applied.
#[must_use]
pub fn check(frame: &Frame, moves: &[Move]) -> Vec<Violation> {
    if moves.is_empty() {
        return Vec::new();
    }
    let members = frame.members();
    let mut walk = Walk {
        frame,
        moved: vec![false; members.len()],
        members,
        sizes: frame.sets.iter().map(crate::SetFrame::size).collect(),
        violations: Vec::new(),
    };
    for (step, one) in moves.iter().enumerate() {
        walk.step(step, *one);
    }
    walk.needs(moves);
    walk.total();
    walk.violations
}

impl Walk<'_> {
    fn breach(&mut self, rule: Rule, step: usize, cpu: CpuId, set: Option<PsetId>) {
        self.violations.push(Violation { rule, step: Some(step), cpu: Some(cpu), set });
    }

    fn step(&mut self, step: usize, one: Move) {
        let place = |id: PsetId| self.frame.sets.iter().position(|set| set.id == id);
        let (from, to) = (place(one.from), place(one.to));
        for (id, found) in [(one.from, from), (one.to, to)] {
            if found.is_none() {
                self.breach(Rule::KnownSet, step, one.cpu, Some(id));
            }
        }
        if one.from == one.to {
            self.breach(Rule::TwoSets, step, one.cpu, Some(one.from));
        }
        let Ok(at) = self.members.binary_search_by_key(&one.cpu, |(cpu, _)| *cpu) else {
            return self.breach(Rule::KnownProcessor, step, one.cpu, None);
        };
        if self.moved[at] {
            self.breach(Rule::MovedOnce, step, one.cpu, None);
        }
        let (Some(from), Some(to)) = (from, to) else { return };
        if self.members[at].1 != from {
            return self.breach(Rule::MovedFromItsPlace, step, one.cpu, None);
        }
        if self.frame.sets[from].pinned.contains(one.cpu) {
            self.breach(Rule::Pinned, step, one.cpu, None);
        }
        self.members[at].1 = to;
        self.moved[at] = true;
        if from != to {
            self.transfer(step, one.cpu, from, to);
        }
    }

    fn transfer(&mut self, step: usize, cpu: CpuId, from: usize, to: usize) {
        let frame = self.frame;
        let (donor, receiver) = (&frame.sets[from], &frame.sets[to]);
        self.sizes[from] = self.sizes[from].saturating_sub(1);
        self.sizes[to] += 1;
        if self.sizes[from] < donor.min {
            self.breach(Rule::Minimum, step, cpu, Some(donor.id));
        }
        if self.sizes[to] > receiver.max {
            self.breach(Rule::Maximum, step, cpu, Some(receiver.id));
        }
        if self.sizes[from] == 0 && donor.id.is_default() {
            self.breach(Rule::DefaultSet, step, cpu, Some(donor.id));
        } else if self.sizes[from] == 0 && donor.has_processes {
            self.breach(Rule::LastProcessor, step, cpu, Some(donor.id));
        }
    }

    /// The need of a set is its demand in this frame. The need of a set that is busy all the time is unknown.
    fn needs(&mut self, moves: &[Move]) {
        let place = |id: PsetId| self.frame.sets.iter().position(|set| set.id == id);
        let of = |at: usize| {
            let set = &self.frame.sets[at];
            demand(set, self.frame.elapsed).map(|demand| (set, demand))
        };
        let broken = moves.iter().enumerate().find_map(|(step, one)| {
            let (from, to) = (place(one.from)?, place(one.to)?);
            let ((donor, given), (receiver, got)) = (of(from)?, of(to)?);
            let is_needed = self.sizes[from] < given.cpus().min(donor.max);
            let is_spare = !got.is_saturated && self.sizes[to] > got.cpus().max(receiver.floor());
            (is_needed && is_spare).then_some((step, *one))
        });
        if let Some((step, one)) = broken {
            self.breach(Rule::Needed, step, one.cpu, Some(one.from));
        }
    }

    fn total(&mut self) {
        let twice = self.members.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(pair) = twice {
            self.violations.push(Violation {
                rule: Rule::Total,
                step: None,
                cpu: Some(pair[0].0),
                set: None,
            });
        }
    }
}
