//! The policy `millpond`: the same configuration and the same meaning, without the slowness.
//!
//! # The problem
//!
//! Sets have sizes; their needs change. A CPU that is idle in one set while threads wait in another is lost. A move
//! costs time too, and a move that must be undone at once costs it twice. What was needed in the last interval is known; what will be
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
//! 1. **Demand** ([`demand()`](crate::demand())): what each set would have used. Its *level* (`history`) is the demand without noise.
//! 2. **Sizes** (`claims`): needs from levels, water-filled. Weights are importance times consumption when `wt-load` is asked for, else importance. So at
//!    saturation CPUs are in proportion to consumption, as in Solaris; below it each set has what it needs. What a set uses of its speculative grants comes after that.
//! 3. **Receivers and donors**: sets below their minimum get CPUs first. Sets whose demand *in this frame* is beyond their size come next, up to
//!    the sizes of step 2, at once. Sets above their maximum give first, then those above the sizes of step 2. No set gives while no other
//!    set lacks CPUs or can take them speculatively or for an objective: idle CPUs stay where they are.
//! 4. **Cost and gain**: a CPU that comes is used for some time (as long as before, or as long again as the need has lasted); that is the gain. The
//!    costs are in the frame: time for each CPU, more the farther it goes, and time for each batch. Where writing a batch takes more than a hundredth of the
//!    interval there is one batch in a second, but no need waits for more than two decisions. Sets that swing too quickly to be followed keep what they needed
//!    for as long (`history`).
//! 5. **Speculative grants** (`speculation`, `share`): a full set whose threads do not wait may be able to use more. Where all needs fit it gets what is
//!    idle, at once and all of it; several share it by importance and consumption. A donor has it back as soon as it needs it. A set that did
//!    not use it gets no more for a while. What some hold while other full sets lack is shared by importance.
//! 6. **Preferences** (`preference`): in a decision in which nothing else is to be done, utilization objectives get what no set needs or needed recently.
//! 7. **Which CPUs** (`placement`): near ones, whole cores, those that were there before, idle ones. The donor with most to spare gives first, so that
//!    few sets are disturbed.
//!
//! # Cases
//!
//! * *One set wants all, others are idle*: it has all but their minima after one frame, and keeps them.
//! * *All want all*: shares by weight, after one frame; noise moves nothing, because a level rises to the noise's upper edge and stays.
//! * *A malleable program* runs as many threads as its set has CPUs; the program beside it stops: it has all but the other's minimum after
//!   one frame, uses them, and keeps them. The other starts again with threads that wait: in one frame both have what they had. If it starts with
//!   one thread on one CPU, and runs as many as it sees CPUs, no thread waits and no CPU is idle. But the first set holds what the second lent,
//!   and the second claims it: one CPU, then two, four, … until both have a share by importance.
//! * *One thread that spins* looks the same. It gets what is idle once. What it does not use stays where it is until another set needs it; after that
//!   it gets more after ten seconds, twenty, and so on.
//! * *Two take turns each second*: CPUs follow, because each stay pays for the move. *Each tenth of a second*: the
//!   first few useless moves teach that they do not pay, and nothing moves.
//! * *A CPU goes off-line*: it is in no set of the frame. A set with too few now gets another.
//! * *The machine refuses a plan*: its CPUs are left alone for a second, then two, and so on.
//!
//! # What it costs to decide
//!
//! For `n` CPUs and `s` sets about `n log n` and, while CPUs move to `r` sets, `r` times what their donors have; no more. Nothing is searched.

mod advice;
mod claims;
mod fill;
mod history;
mod placement;
mod preference;
mod propose;
mod reasons;
mod share;
mod speculation;
#[cfg(test)]
mod tests;
mod view;
mod views;

use crate::convert::real;
use crate::decision::Draft;
use crate::policy::{Policy, StateError};
use crate::{Alternative, Decision, Frame, SetFrame};
use advice::Advice;
use history::{Gift, LACKED};
use millpond_model::{CpuId, Move, Nanos};
use placement::{Left, Placement};
use preference::Savings;
use propose::{Grants, Proposal, propose};
use reasons::Phrase;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use view::SetView;
use views::Histories;

/// Between batches where they are dear.
const BATCH: Nanos = Nanos::from_secs(1);

/// A batch is dear when it takes more than this part of an interval.
const DEAR: u64 = 100;

/// So many times as long passes before a dear batch that is speculative alone: it may have to be taken back at once.
const SPECULATIVE_WAIT: u64 = 2;

/// How long a CPU that did not move is left alone at first, and at most.
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
    sets: Histories,
    /// The sets that had CPUs before.
    left: BTreeMap<CpuId, Left>,
    /// CPUs that did not move when they should have.
    refused: BTreeMap<CpuId, Refused>,
    /// The moves of the last decision.
    pending: Vec<Move>,
    last_batch: Option<Nanos>,
    /// What preferences may cost.
    savings: Savings,
    advice: Advice,
}

/// What a set gives by these moves, as if all went to the set that gets the first. What it lent is no gain of others that it should wait for.
fn gift(frame: &Frame, moves: &[Move], set: &SetFrame, is_lent: bool) -> Gift {
    let given = moves.iter().filter(|one| one.from == set.id);
    let count = given.clone().count();
    let to = given.map(|one| one.to).next().unwrap_or(set.id);
    let cost = real(count) * frame.costs.cpu.as_secs_f64();
    let size = frame.set(to).filter(|_| !is_lent).map_or(usize::MAX, SetFrame::size);
    Gift { at: frame.at, count, to: (to, size), gained: -cost }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Refused {
    until: Nanos,
    wait: Nanos,
}

impl Policy for Millpond {
    fn name(&self) -> &'static str {
        "millpond"
    }

    fn decide(&mut self, frame: &Frame) -> Decision {
        self.state.notice(frame);
        let demands = views::demands(frame);
        self.state.advice.see(frame, &demands);
        let views = views::views(frame, &demands, &mut self.state.sets);
        self.state.savings.see(frame, &views);
        let mut draft = Draft { policy: self.name(), ..Draft::default() };
        let chosen = self.state.choose(frame, &views, &mut draft);
        let used = frame.sets.iter().map(|set| self.state.sets.get(&set.id).map_or(0.0, |m| m.mean_used));
        draft.advice = self.state.advice.text(frame, &used.collect::<Vec<_>>());
        let decision = draft.finish(frame);
        self.state.remember(frame, &views, &decision.plan.moves, &chosen);
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

    /// How long until the next batch may be written, when so many times as long as usual pass between two.
    fn batch_wait(&self, frame: &Frame, times: u64) -> Nanos {
        let is_dear = frame.costs.batch.0.saturating_mul(DEAR) > frame.elapsed.0;
        match self.last_batch {
            Some(last) if is_dear => last + Nanos(BATCH.0 * times) - frame.at,
            _ => Nanos(0),
        }
    }

    /// Draws up what is to be done, and what else could be. What is to be done is in the draft, and beside it.
    fn choose(&self, frame: &Frame, views: &[SetView], draft: &mut Draft) -> Proposal {
        let must = propose::must(frame, views);
        let needs = propose::lacking(frame, views);
        let none = vec![0; views.len()];
        let without_backoff: Vec<usize> = views.iter().map(|view| view.without_backoff).collect();
        let mut speculative: Vec<usize> = views.iter().map(|view| view.speculative).collect();
        let mut claims: Vec<usize> = views.iter().map(|view| view.claim).collect();
        let may_move = |cpu: CpuId| self.refused.get(&cpu).is_none_or(|refused| refused.until <= frame.at);
        let all = |needs: &[usize], speculative: &[usize], claims: &[usize], preferences: &[usize]| {
            let grants = Grants { must: &must, needs, speculative, claims, preferences };
            propose(frame, views, &grants, Placement::new(frame, may_move), &self.left)
        };
        let draw =
            |needs: &[usize], speculative: &[usize], claims: &[usize]| all(needs, speculative, claims, &none);
        let is_any = |counts: &[usize]| counts.iter().any(|count| *count > 0);
        let is_over = |at: usize| frame.sets[at].size() > frame.sets[at].max;
        let is_needed = is_any(&must) || is_any(&needs) || (0..views.len()).any(is_over);
        if without_backoff != speculative {
            let retried = draw(&needs, &without_backoff, &none);
            draft.alternatives.push(retried.alternative(Phrase::NotUsedBefore));
        }
        let speculative_wait = self.batch_wait(frame, SPECULATIVE_WAIT);
        if is_needed && speculative_wait.0 > 0 {
            speculative.clone_from(&none);
        }
        // Needs come first; the next frame shows what they left.
        if is_needed {
            claims.clone_from(&none);
        }
        let is_preference = !is_needed && !is_any(&speculative) && !is_any(&claims);
        let (preferences, preferred) = self.savings.grants(frame, views);
        if is_preference && !is_any(&preferences) {
            draft.reason = reasons::nothing(frame, views, &preferred);
            return Proposal::default();
        }
        let mut chosen = if is_preference {
            all(&none, &none, &none, &preferences)
        } else {
            draw(&needs, &speculative, &claims)
        };
        // What was lent comes back whenever that was, and so does what was lacking in some decisions.
        let is_due = |at: usize| needs[at] > 0 && (views[at].lent > 0 || views[at].lacked >= LACKED);
        let is_due = (0..views.len()).any(is_due);
        let mut why = String::new();
        if is_needed && is_any(&chosen.speculative) {
            let needs = draw(&needs, &none, &none);
            draft.alternatives.push(needs.alternative(Phrase::LeavesIdle));
        }
        if !is_preference && chosen.gain <= chosen.cost && !chosen.is_forced() && !is_due {
            let forced = draw(&none, &none, &none);
            if !chosen.moves.is_empty() {
                why = reasons::not_worth(&chosen);
                draft.alternatives.push(chosen.alternative(Phrase::CostsMore));
            }
            chosen = forced;
        }
        let wait = match () {
            () if is_due => Nanos(0),
            () if is_needed => self.batch_wait(frame, 1),
            () => speculative_wait,
        };
        if wait.0 > 0 && !chosen.moves.is_empty() {
            draft.reason = reasons::dear(frame, wait);
            draft.alternatives.push(chosen.alternative(Phrase::MustWait));
            return Proposal::default();
        }
        if !chosen.moves.is_empty() {
            draft.alternatives.push(Alternative {
                moves: Vec::new(),
                score: 0.0,
                why_not: if is_preference { Phrase::Unmet } else { Phrase::WinsNothing }.to_string(),
            });
        }
        draft.reason = reasons::reason(frame, views, &chosen, &why);
        draft.score = chosen.score();
        draft.moves.clone_from(&chosen.moves);
        draft.alternatives.sort_by(|a, b| b.score.total_cmp(&a.score));
        chosen
    }

    /// Remembers what is done, as if it were carried out.
    fn remember(&mut self, frame: &Frame, views: &[SetView], moves: &[Move], chosen: &Proposal) {
        if moves.is_empty() {
            return;
        }
        if chosen.preferred.iter().any(|count| *count > 0) {
            self.savings.pay(chosen.cost);
        }
        self.last_batch = Some(frame.at);
        self.pending = moves.to_vec();
        for one in moves {
            self.left.insert(one.cpu, Left { set: one.from, at: frame.at });
        }
        for (at, (set, view)) in frame.sets.iter().zip(views).enumerate() {
            let Some(history) = self.sets.get_mut(&set.id) else { continue };
            let (gets, extra, gave) = (chosen.gets[at], chosen.speculative[at], chosen.gives[at]);
            let claims = chosen.claims[at];
            if gets > extra + claims + chosen.preferred[at] {
                history.granted(set.size(), frame);
            }
            if claims > 0 {
                let used = view.demand.map_or(0.0, |demand| demand.used);
                history.speculation.claimed(claims, set.size() + gets - claims, used, frame);
            }
            if chosen.yields[at] > 0 {
                history.speculation.yielded();
            }
            if extra > 0 {
                let used = view.demand.map_or(0.0, |demand| demand.used);
                history.speculation.granted(extra, set.size() + gets - extra, used);
            }
            history.speculation.settle(chosen.lends[at], gets);
            let still_met =
                view.demand.is_some_and(|demand| demand.wanted <= real(set.size().saturating_sub(gave)));
            if gave > 0 && still_met {
                history.gave(gift(frame, moves, set, chosen.lends[at] > 0));
                let used = view.demand.map_or(0.0, |demand| demand.used);
                history.speculation.gave(used, chosen.lends[at] > 0, frame);
            }
        }
    }
}
