//! The policy `millpond`: the same configuration as for the Solaris daemon, with faster decisions.
//!
//! # The problem
//!
//! Set sizes are fixed until a decision; demand is not. A CPU that is idle in one set while threads wait in another is wasted. A move costs
//! time, and a move that must be undone at once costs it twice. The demand of the last interval is known; that of the next is not.
//!
//! # One primitive
//!
//! *Water-fill* (`fill`): a supply, and a lower bound, an upper bound and a weight for each set. If all upper bounds fit, each set gets its
//! upper bound. Otherwise the supply is divided by weight within the bounds.
//!
//! # Algorithm
//!
//! For each frame, from scratch:
//!
//! 1. **Demand** ([`demand()`](crate::demand())): the CPUs that each set would have used. Its *level* (`history`) is the demand without
//!    noise.
//! 2. **Sizes** (`claims`): needs from levels, water-filled. The weight is importance times consumption with `wt-load`, else importance. At
//!    saturation, CPUs are therefore in proportion to consumption, as in Solaris; below it each set has what it needs. Used speculative
//!    grants rank after needs.
//! 3. **Receivers and donors**: sets below their minimum get CPUs first. Next come sets whose demand *in this frame* exceeds their size;
//!    they grow to the sizes of step 2 at once. Sets above their maximum give first, then those above the sizes of step 2. No set gives
//!    unless another set lacks CPUs or can take them speculatively or for an objective: idle CPUs stay in their set.
//! 4. **Cost and gain**: the gain is the expected time of use of a CPU (the duration of earlier needs, or the present age of the need if
//!    that is longer). The costs are in the frame: a time for each CPU, which grows with the distance, and a time for each batch. If
//!    writing a batch takes more than 1 % of the interval, there is at most one batch per second; a need still waits for at most two
//!    decisions. Sets that swing too quickly to follow keep their CPUs for longer (`history`).
//! 5. **Speculative grants** (`speculation`, `share`): a full set whose threads do not wait may be able to use more CPUs. If all needs fit,
//!    it gets all idle CPUs at once; several full sets share them by importance and consumption. A donor gets them back as soon as it needs
//!    them. A set that does not use its grant gets no further one for a while. Speculative CPUs that some sets hold while other full sets
//!    lack CPUs are shared by importance.
//! 6. **Preferences** (`preference`): in a decision without any other move, utilization objectives get CPUs that no set needs or needed
//!    recently.
//! 7. **Which CPUs** (`placement`): near ones, whole cores, CPUs that the receiver had before, idle ones. The donor with the most spare
//!    CPUs gives first, so that few sets are disturbed.
//!
//! # Cases
//!
//! * *One set wants all CPUs, the others are idle*: it has all but their minima after one frame, and keeps them.
//! * *All sets want all CPUs*: shares by weight after one frame. Noise moves nothing, because a level rises to the upper edge of the noise
//!   and stays there.
//! * *A malleable program* runs one thread per CPU of its set, and the program in the other set stops: the first has all CPUs but the
//!   minimum of the other set after one frame, uses them, and keeps them. If the other program restarts with threads that wait, both sets
//!   have their earlier sizes after one frame. If it restarts with one thread on one CPU, and runs one thread per CPU, no thread waits and
//!   no CPU is idle. But the first set holds CPUs that the second lent, and the second claims them: one CPU, then two, four, … until both
//!   have a share by importance.
//! * *One spinning thread* looks the same. It gets the idle CPUs once. Unused CPUs stay until another set needs them. After that the set
//!   gets a further grant after 10 s, then after 20 s, and so on.
//! * *Two sets alternate each second*: CPUs follow, because each period is long enough to pay for the move. *Each 100 ms*: after the
//!   first few useless moves the hold prevents further ones.
//! * *A CPU goes off-line*: it is in no set of the frame. A set with too few CPUs gets another one.
//! * *The machine refuses a plan*: its CPUs are not moved for 1 s, then 2 s, and so on.
//!
//! # Cost of a decision
//!
//! For `n` CPUs and `s` sets about `n log n`; plus, if CPUs move to `r` sets, `r` times the CPUs of their donors. There is no search.

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

/// The time between batches if they are expensive.
const BATCH: Nanos = Nanos::from_secs(1);

/// A batch is expensive if it takes more than the interval divided by this number.
const DEAR: u64 = 100;

/// A multiple of [`BATCH`] before an expensive batch that is only speculative, because it may have to be reversed at once.
const SPECULATIVE_WAIT: u64 = 2;

/// How long a refused CPU is not moved: the first time, and at most.
const REFUSED: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(60));

/// The policy.
#[derive(Debug, Clone, Default)]
pub struct Millpond {
    state: State,
}

/// The state of the policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    sets: Histories,
    /// The previous set of each CPU.
    left: BTreeMap<CpuId, Left>,
    /// CPUs whose moves were refused.
    refused: BTreeMap<CpuId, Refused>,
    /// The moves of the last decision.
    pending: Vec<Move>,
    last_batch: Option<Nanos>,
    /// The budget for preferences.
    savings: Savings,
    advice: Advice,
}

/// The CPUs that a set gives by these moves, attributed to the first receiver. The use of lent CPUs by others is not counted as gain: it must
/// not delay their return.
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
    /// Compares the frame with the last plan.
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

    /// The time until the next batch may be written. The usual time between two batches is multiplied by `times`.
    fn batch_wait(&self, frame: &Frame, times: u64) -> Nanos {
        let is_dear = frame.costs.batch.0.saturating_mul(DEAR) > frame.elapsed.0;
        match self.last_batch {
            Some(last) if is_dear => last + Nanos(BATCH.0 * times) - frame.at,
            _ => Nanos(0),
        }
    }

    /// Draws up the chosen plan and the alternatives. The chosen plan is written to the draft and returned.
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
        // Needs come first; the next frame shows the CPUs that remain.
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
        // Lent CPUs return regardless of the batch interval and of costs, and so do CPUs that were lacking in [`LACKED`] decisions.
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

    /// Updates the state as if the moves were applied.
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
