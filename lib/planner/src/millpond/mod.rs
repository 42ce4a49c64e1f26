//! The policy `millpond`: the same configuration and the same meaning, without the slowness.
//!
//! # The problem
//!
//! Sets have sizes; their needs change. A processor that waits in one set while threads wait in another is lost. One that changes sets
//! costs time too, and one that must come straight back costs it twice. What was needed in the last interval is known; what will be
//! needed in the next is not.
//!
//! # One primitive
//!
//! *Water-fill* (`fill`): a supply, and for each set a least, a most and a weight. What fits is given; what does not is shared by
//! weight within the bounds.
//!
//! # What follows
//!
//! Each frame, from scratch:
//!
//! 1. **Demand** ([`demand()`](crate::demand())): what each set would have used. Its *level* (`memory`) is the demand without noise.
//! 2. **Sizes** (`claims`): needs from levels, wants from utilization objectives, water-filled. Weights are importance times consumption when
//!    `wt-load` is asked for, else importance. So at saturation processors are in proportion to what is consumed, as in Solaris, and below it
//!    everybody has what it needs.
//! 3. **Who gets**: sets below their minimum; then sets whose demand *in this frame* is beyond their size, up to what step 2 says. They get it
//!    at once, however much it is. **Who gives**: sets above their maximum, then those that have more than step 2 says. Nobody gives when nobody
//!    lacks: what is idle stays where it is.
//! 4. **Is it worth it?** A processor that comes will be used for some time (as long as before, or as long again as the need has lasted); that is the gain. What it
//!    costs is in the frame: time for each processor, more the farther it goes, and time for each batch. Where writing a batch takes more
//!    than a hundredth of the interval there is one batch in a second. Sets that swing too quickly to be followed are doubted, each on its own account
//!    (`memory`).
//! 5. **Which ones** (`ground`): near ones, whole cores, those that were there before, idle ones. The donor with most to spare gives first, so that few sets are disturbed.
//!
//! # Cases
//!
//! * *One set wants all, others are idle*: it has all but their minima after one frame, and keeps them.
//! * *All want all*: shares by weight, after one frame; noise moves nothing, because a level rises to the noise's upper edge and stays.
//! * *Two take turns each second*: processors follow, because each stay pays for the way. *Each tenth of a second*: the
//!   first few useless ways teach that they do not pay, and nothing moves.
//! * *A processor goes off-line*: it is in no set of the frame. Who has too little now gets another.
//! * *The machine refuses a plan*: its processors are left alone for a second, then two, and so on.
//!
//! # What it costs to decide
//!
//! For `n` processors and `s` sets about `n log n` and, while processors move to `r` sets, `r` times what their donors have; no more. Nothing is searched.

mod advice;
mod claims;
mod fill;
mod ground;
mod memory;
mod propose;
#[cfg(test)]
mod tests;
mod words;

use crate::decision::Draft;
use crate::num::{real, up};
use crate::policy::{Policy, StateError};
use crate::{Alternative, Decision, Demand, Frame, Move, demand};
use advice::{Advice, fresh};
use claims::{Ask, allot, ask};
use ground::{Ground, Left};
use memory::SetMemory;
use millpond_model::{CpuId, Nanos, PsetId};
use propose::propose;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Between batches where they are dear.
const BATCH: Nanos = Nanos::from_secs(1);

/// A batch is dear when it takes more than this part of an interval.
const DEAR: u64 = 100;

/// Who asks again for a little more gets so many times what it asks for, if there is enough.
const ROOM: f64 = 1.1;

/// How long a processor that did not move is left alone at first, and at most.
const REFUSED: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(60));

/// The policy.
#[derive(Debug, Clone, Default)]
pub struct Millpond {
    state: State,
}

/// All that it remembers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    sets: BTreeMap<PsetId, SetMemory>,
    /// Who had processors before.
    left: BTreeMap<CpuId, Left>,
    /// Processors that did not move when they should have.
    refused: BTreeMap<CpuId, Refused>,
    /// The moves of the last decision.
    pending: Vec<Move>,
    last_batch: Option<Nanos>,
    advice: Advice,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Refused {
    until: Nanos,
    wait: Nanos,
}

/// One set in this frame. The places are those of [`Frame::sets`].
#[derive(Debug, Clone, Copy)]
struct SetView {
    demand: Option<Demand>,
    ask: Ask,
    /// What it should have.
    allotted: usize,
    /// What it asks for by this frame's demand alone.
    now: usize,
    /// How much longer its need must last to be believed.
    doubt: Nanos,
    /// How long what it gets will be of use.
    stay: Nanos,
}

impl Policy for Millpond {
    fn name(&self) -> &'static str {
        "millpond"
    }

    fn decide(&mut self, frame: &Frame) -> Decision {
        self.state.notice(frame);
        let views = self.state.views(frame);
        let mut draft = Draft { policy: self.name(), ..Draft::default() };
        self.state.choose(frame, &views, &mut draft);
        let used = frame.sets.iter().map(|set| self.state.sets.get(&set.id).map_or(0.0, |m| m.mean_used));
        draft.advice = self.state.advice.text(frame, &used.collect::<Vec<_>>());
        let decision = draft.finish(frame);
        self.state.remember(frame, &views, &decision.plan.moves);
        decision
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
    /// What became of the last plan.
    fn notice(&mut self, frame: &Frame) {
        for one in std::mem::take(&mut self.pending) {
            let stayed = frame.set(one.from).is_some_and(|set| set.cpus.contains(one.cpu));
            if !stayed {
                self.refused.remove(&one.cpu);
                continue;
            }
            self.left.remove(&one.cpu);
            let wait = self
                .refused
                .get(&one.cpu)
                .map_or(REFUSED.0, |refused| Nanos(refused.wait.0.saturating_mul(2)).min(REFUSED.1));
            self.refused.insert(one.cpu, Refused { until: frame.at + wait, wait });
        }
        self.sets.retain(|id, _| frame.set(*id).is_some());
        self.refused.retain(|_, refused| refused.until + REFUSED.1 > frame.at);
    }

    /// What each set needs and should have.
    fn views(&mut self, frame: &Frame) -> Vec<SetView> {
        let total = frame.total();
        let demands: Vec<Option<Demand>> = frame.sets.iter().map(|set| demand(set, frame.elapsed)).collect();
        let wanted: Vec<Option<f64>> = demands.iter().map(|demand| demand.map(|d| d.wanted)).collect();
        self.advice.see(frame, &wanted);
        let mut levels = Vec::with_capacity(demands.len());
        let mut asks = Vec::with_capacity(demands.len());
        for (set, demand) in frame.sets.iter().zip(&demands) {
            let memory = self.sets.entry(set.id).or_default();
            if let Some(demand) = *demand {
                let lacks = ask(set, demand.wanted, total).want > set.size();
                memory.see(demand, set.size(), lacks, frame);
                memory.mean_used += fresh(frame) * (demand.used - memory.mean_used);
            }
            // Of whom nothing is known it is believed that it needs what it has.
            let level = memory.level().unwrap_or(real(set.size()));
            let mut ask = ask(set, level, total);
            if memory.was_served(frame) {
                ask.want = up(real(ask.want) * ROOM).min(ask.high);
            }
            if demand.is_none() {
                let kept = set.size().clamp(ask.low, ask.high);
                ask = Ask { low: kept, need: kept, want: kept, high: ask.high };
            }
            levels.push(level);
            asks.push(ask);
        }
        let allotted = allot(frame, &asks, &levels);
        let view = |at: usize| {
            let set = &frame.sets[at];
            let memory = self.sets.get(&set.id);
            SetView {
                demand: demands[at],
                ask: asks[at],
                allotted: allotted[at],
                now: wanted[at].map_or(0, |wanted| {
                    let now = ask(set, wanted, total).want;
                    let by_little = now > set.size() && real(now) <= real(set.size()) * ROOM;
                    let again = by_little && memory.is_some_and(|memory| memory.was_served(frame));
                    if again { up(real(now) * ROOM) } else { now }
                }),
                doubt: memory.map_or(Nanos(0), |memory| memory.doubt(frame)),
                stay: memory.map_or(Nanos(0), |memory| memory.stay(frame)),
            }
        };
        (0..frame.sets.len()).map(view).collect()
    }

    /// How long until the next batch may be written.
    fn batch_wait(&self, frame: &Frame) -> Nanos {
        let is_dear = frame.costs.batch.0.saturating_mul(DEAR) > frame.elapsed.0;
        match self.last_batch {
            Some(last) if is_dear => last + BATCH - frame.at,
            _ => Nanos(0),
        }
    }

    /// Draws up what is to be done, and what else could be.
    fn choose(&self, frame: &Frame, views: &[SetView], draft: &mut Draft) {
        let must = propose::must(frame, views);
        let all = propose::lacking(frame, views, |_| true);
        let is_over = |at: usize| frame.sets[at].size() > frame.sets[at].max;
        if must.iter().chain(&all).all(|count| *count == 0) && !(0..views.len()).any(is_over) {
            draft.reason = words::nothing(frame, views);
            return;
        }
        let may_move = |cpu: CpuId| self.refused.get(&cpu).is_none_or(|refused| refused.until <= frame.at);
        let draw =
            |grants: &[usize]| propose(frame, views, &must, grants, Ground::new(frame, may_move), &self.left);
        let wait = self.batch_wait(frame);
        let believed = propose::lacking(frame, views, |at| views[at].doubt.0 == 0);
        let mut chosen = draw(&believed);
        let mut why = String::new();
        if believed != all {
            why = words::doubts(frame, views);
            draft.alternatives.push(draw(&all).alternative("not all needs are believed yet"));
        }
        if chosen.gain <= chosen.cost && !chosen.is_forced() {
            let none = vec![0; views.len()];
            let forced = draw(&none);
            if !chosen.moves.is_empty() {
                why = words::not_worth(&chosen);
                draft.alternatives.push(chosen.alternative("it would cost more than it wins"));
            }
            chosen = forced;
        }
        if wait.0 > 0 && !chosen.moves.is_empty() {
            draft.reason = words::dear(frame, wait);
            draft.alternatives.push(chosen.alternative("the next batch must wait"));
            return;
        }
        if !chosen.moves.is_empty() {
            draft.alternatives.push(Alternative {
                moves: Vec::new(),
                score: 0.0,
                why_not: "to do nothing wins nothing".into(),
            });
        }
        draft.reason = words::reason(frame, views, &chosen, &why);
        draft.score = chosen.score();
        draft.moves = chosen.moves;
        draft.alternatives.sort_by(|a, b| b.score.total_cmp(&a.score));
    }

    /// Remembers what is done, as if it were carried out.
    fn remember(&mut self, frame: &Frame, views: &[SetView], moves: &[Move]) {
        if moves.is_empty() {
            return;
        }
        self.last_batch = Some(frame.at);
        self.pending = moves.to_vec();
        for one in moves {
            self.left.insert(one.cpu, Left { set: one.from, at: frame.at });
        }
        for (set, view) in frame.sets.iter().zip(views) {
            let Some(memory) = self.sets.get_mut(&set.id) else { continue };
            if moves.iter().any(|one| one.to == set.id) {
                memory.granted(set.size(), frame);
            }
            let gave = moves.iter().filter(|one| one.from == set.id).count();
            let still_met =
                view.demand.is_some_and(|demand| demand.wanted <= real(set.size().saturating_sub(gave)));
            if gave > 0 && still_met {
                memory.gave(set.size(), frame);
            }
        }
    }
}
