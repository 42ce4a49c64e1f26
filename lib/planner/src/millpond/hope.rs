//! Hope: what is idle may be of use to who is busy all of its time.
//!
//! A *malleable* program runs as many threads as its set has processors. It is busy all of its time, its threads never wait, and
//! what it would do with more cannot be seen before it has more. So a set that is *full* and whose threads do not wait hopes: it is given what is
//! idle elsewhere, and only that, at once.
//!
//! **Hope changes nothing for who needs.** What a set had before it was given anything for hope is its *own*; what it uses beyond that it
//! *holds*, and everybody's needs and wants go first. Who *lent* processors has them back in the frame in which it needs them: for
//! those it is not doubted, and no batch is too early. A program takes a moment to run fewer threads; only when its threads have waited for a second
//! they are a need like others, and all that it has is its own.
//!
//! **What some have by hope is shared by importance.** Who hopes where nothing is idle *claims* of what others hold, beyond their own and beyond their share, as much
//! again as it has, until it has its share. The same trial follows; meanwhile nobody takes it back for hope. When some time has passed what was
//! claimed is its own. So a program that comes back with one thread on one processor comes to what it would have had.
//!
//! **Hope that is disappointed is remembered.** A grant is on trial for one second; one that is taken back goes on with the next. When use
//! rises by half of it, hope has come true. Else the set is *hopeless* for ten seconds, and for twice as long after each further time. Who gave what it did not use has
//! shown the same without a trial, and is hopeless for the longest time. Threads that wait for more, or a use that rises by itself, end that: something
//! has changed.

use super::claims::standing;
use super::fill::{Claim, pour_whole};
use super::memory::{FALLEN, FALLEN_BY};
use super::views::SetView;
use crate::num::real;
use crate::{Demand, Frame, SetFrame};
use millpond_model::Nanos;
use millpond_model::pools::{Bound, Objective};
use serde::{Deserialize, Serialize};

/// A set that is busy for this part of its time is full.
const FULL: f64 = 0.98;

/// Threads wait when they lack more than this part of the set's processors, and more than a crumb.
const WAITS: (f64, f64) = (0.02, 0.05);

/// How long a grant is on trial, and how long threads wait before they are a need.
const TRIAL: Nanos = Nanos::from_secs(1);

/// What part of a grant must be used.
const PROOF: f64 = 0.5;

/// How long a set is hopeless at first, and at most.
const HOPELESS: (Nanos, Nanos) = (Nanos::from_secs(10), Nanos::from_secs(600));

/// A donor gives for hope when it can spare more than this part of what it keeps, and who was served takes no less: less is noise.
pub(super) const NOISE: f64 = 0.1;

/// What is remembered of one set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Hope {
    /// How many processors it had before any came by hope; none when none did.
    own: Option<usize>,
    trial: Option<Trial>,
    /// For how long it has had what it did not use, since a hope came true.
    tried: Nanos,
    lost: Option<Lost>,
    /// Since when its threads wait.
    waits_since: Option<Nanos>,
    /// How many processors it gave for the hope of others and has not back.
    lent: usize,
    /// When it last claimed what others had by hope.
    claimed: Option<Nanos>,
}

/// A grant that has not proved of use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Trial {
    /// How many processors.
    granted: usize,
    /// Size with it.
    size: usize,
    /// Use before it.
    used: f64,
    /// Others had it by hope.
    #[serde(default)]
    is_claim: bool,
}

/// A hope that was disappointed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Lost {
    until: Nanos,
    wait: Nanos,
    /// What the set used then.
    used: f64,
}

/// Whether a set is busy all of its time and its threads do not wait.
pub(super) fn is_full(demand: Demand, size: usize) -> bool {
    size > 0 && demand.used >= FULL * real(size) && !waits(demand, size)
}

fn waits(demand: Demand, size: usize) -> bool {
    demand.wanted - real(size) > WAITS.1.max(WAITS.0 * real(size))
}

/// Whether nothing forbids a set to hope: with `wt-load` it may have what its use is in proportion to, up to what its own objectives leave; without it
/// only if none of them limits it.
pub(super) fn may(frame: &Frame, set: &SetFrame) -> bool {
    let limits =
        |objective: &Objective| matches!(objective, Objective::Utilization(Bound::Above | Bound::Near, _));
    frame.wt_load().is_some_and(|importance| importance > 0)
        || !set.objectives.iter().any(|weighted| limits(&weighted.objective))
}

impl Hope {
    /// Takes in one frame. `size` is what the set had in it.
    pub fn see(&mut self, demand: Demand, size: usize, frame: &Frame) {
        let waits = waits(demand, size);
        self.waits_since = waits.then(|| self.waits_since.unwrap_or(frame.at - frame.elapsed));
        let rose = |lost: Lost| demand.wanted * FALLEN > lost.used && demand.wanted - lost.used >= FALLEN_BY;
        if self.lost.is_some_and(rose) {
            (self.lost, self.tried) = (None, Nanos(0));
        }
        self.judge(demand, size, frame);
        let is_need = self.waits_since.is_some_and(|since| frame.at - since >= TRIAL);
        if is_need || (!waits && self.own.is_some_and(|own| size <= own)) {
            self.own = None;
        }
        if self.trial.is_none() && self.claimed.is_some_and(|at| frame.at - at >= Nanos(2 * TRIAL.0)) {
            (self.own, self.claimed) = (None, None);
        }
    }

    fn judge(&mut self, demand: Demand, size: usize, frame: &Frame) {
        let Some(trial) = self.trial else { return };
        if demand.used >= trial.used + PROOF * real(trial.granted) {
            (self.trial, self.lost, self.tried) = (None, None, Nanos(0));
            return;
        }
        if size < trial.size {
            self.trial = None;
            return;
        }
        self.tried = self.tried + frame.elapsed;
        if self.tried >= TRIAL {
            let wait = self.lost.map_or(Nanos(0), |lost| Nanos(lost.wait.0.saturating_mul(2)));
            let wait = wait.clamp(HOPELESS.0, HOPELESS.1);
            self.lost = Some(Lost { until: frame.at + wait, wait, used: demand.used });
            (self.trial, self.tried) = (None, Nanos(0));
        }
    }

    /// It was given so many for hope, and had `before` and used `used`.
    pub fn granted(&mut self, granted: usize, before: usize, used: f64) {
        self.own = self.own.or(Some(before));
        self.trial = Some(Trial { granted, size: before + granted, used, is_claim: false });
    }

    /// The same of what others had by hope.
    pub fn claimed(&mut self, granted: usize, before: usize, used: f64, frame: &Frame) {
        self.granted(granted, before, used);
        self.trial = self.trial.map(|trial| Trial { is_claim: true, ..trial });
        self.claimed = Some(frame.at);
    }

    /// Others claimed what it had by hope. It takes a moment to run fewer threads.
    pub fn yielded(&mut self) {
        self.waits_since = None;
    }

    /// Whether something that it claimed is still on trial.
    pub fn has_claim_on_trial(&self) -> bool {
        self.trial.is_some_and(|trial| trial.is_claim)
    }

    /// It gave what it did not use, and used `used`. When others needed what it had by hope, that says nothing yet.
    pub fn gave(&mut self, used: f64, is_for_hope: bool, frame: &Frame) {
        if self.own.is_some() && !is_for_hope {
            return;
        }
        let wait = self.lost.map_or(Nanos(0), |lost| lost.wait);
        self.lost = Some(Lost { until: frame.at + HOPELESS.1, wait, used });
    }

    /// It gave `lent` for the hope of others, and got `gets`.
    pub fn settle(&mut self, lent: usize, gets: usize) {
        self.lent = self.lent.saturating_add(lent).saturating_sub(gets);
    }

    /// How many processors it had before any came by hope; none when none did.
    pub fn own(&self) -> Option<usize> {
        self.own
    }

    /// How many processors it gave for hope and has not back.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Whether something that it was given is still on trial.
    pub fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// How much longer it is hopeless; nothing if it is not.
    pub fn hopeless(&self, frame: &Frame) -> Nanos {
        self.lost.map_or(Nanos(0), |lost| lost.until - frame.at)
    }
}

/// What a set keeps for itself: what it should have, what it uses, and what it cannot be without.
fn kept(set: &SetFrame, view: &SetView) -> usize {
    view.allotted.max(view.uses).max(set.floor())
}

/// How many idle processors a set could give for the hope of others.
pub(super) fn idle(set: &SetFrame, view: &SetView) -> usize {
    let kept = kept(set, view);
    let spare = set.size().saturating_sub(kept);
    if real(spare) > NOISE * real(kept) { spare } else { 0 }
}

/// How many more each set gets when those that `hope` share what is idle. Nobody hopes while needs do not fit.
pub(super) fn share(frame: &Frame, views: &[SetView], hope: impl Fn(usize) -> bool) -> Vec<usize> {
    let nothing = vec![0; views.len()];
    let needs: usize = views.iter().map(|view| view.ask.need).sum();
    if needs > frame.total() || !(0..views.len()).any(&hope) {
        return nothing;
    }
    // What it has, and what it gets because it needs it.
    let has = |at: usize| {
        let (size, view) = (frame.sets[at].size(), &views[at]);
        size.max(view.ask.low).max(view.allotted.min(view.now))
    };
    let claim = |at: usize| {
        let (set, view) = (&frame.sets[at], &views[at]);
        let used = view.demand.map_or(0.0, |demand| demand.used);
        let high = if hope(at) { view.ask.high.saturating_sub(has(at)) } else { 0 };
        Claim { low: 0, high, weight: standing(set) * used }
    };
    let claims: Vec<Claim> = (0..views.len()).map(claim).collect();
    let spare: usize = frame.sets.iter().zip(views).map(|(set, view)| idle(set, view)).sum();
    let lacking: usize = (0..views.len()).map(|at| has(at) - frame.sets[at].size()).sum();
    pour_whole(spare.saturating_sub(lacking), &claims, &nothing)
}

/// What each set should have when those that `hope` share by importance what is not needed: no less than it needs, and who does not hope no more than it holds.
pub(super) fn fair(frame: &Frame, views: &[SetView], hope: impl Fn(usize) -> bool) -> Vec<usize> {
    let claim = |at: usize| {
        let (set, view) = (&frame.sets[at], &views[at]);
        // Who is full and does not wait needs no more than it has, whatever it needed before.
        let low = if hope(at) { view.ask.need.min(set.size()).max(view.ask.low) } else { view.ask.want };
        let high = if hope(at) { view.ask.high } else { view.uses.clamp(low, view.ask.high.max(low)) };
        Claim { low, high, weight: standing(set) }
    };
    let claims: Vec<Claim> = (0..views.len()).map(claim).collect();
    let sizes: Vec<usize> = frame.sets.iter().map(SetFrame::size).collect();
    pour_whole(frame.total(), &claims, &sizes)
}

/// How many processors that it has by hope a set must yield to others that claim them.
pub(super) fn beyond(set: &SetFrame, view: &SetView) -> usize {
    set.size().saturating_sub(view.fair.max(view.ask.want).max(set.floor()))
}

/// How many more each set that hopes claims of what others have by hope: as many again as it has, up to its share. Less is noise.
pub(super) fn claims(frame: &Frame, views: &[SetView], hope: impl Fn(usize) -> bool) -> Vec<usize> {
    let needs: usize = views.iter().map(|view| view.ask.need).sum();
    let held: usize = frame.sets.iter().zip(views).map(|(set, view)| beyond(set, view)).sum();
    let claim = |at: usize| {
        let size = frame.sets[at].size();
        let lacks = views[at].fair.saturating_sub(size);
        if !hope(at) || needs > frame.total() || real(lacks) <= NOISE * real(size) {
            0
        } else {
            lacks.min(size.max(1))
        }
    };
    let mut left = held;
    (0..views.len())
        .map(|at| {
            let gets = claim(at).min(left);
            left -= gets;
            gets
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Nanos = Nanos::from_millis(100);

    fn frame(tenth: u64) -> Frame {
        Frame { at: Nanos(TENTH.0 * tenth), elapsed: TENTH, ..Frame::default() }
    }

    fn uses(used: f64) -> Demand {
        Demand { used, wanted: used, is_saturated: true }
    }

    fn wants(used: f64, wanted: f64) -> Demand {
        Demand { used, wanted, is_saturated: true }
    }

    /// Eight are given to a set of four at the time 0, and these frames follow: (demand, size).
    fn after(frames: impl IntoIterator<Item = (Demand, usize)>) -> Hope {
        let mut hope = Hope::default();
        hope.granted(8, 4, 4.0);
        (1..).zip(frames).for_each(|(tenth, (demand, size))| hope.see(demand, size, &frame(tenth)));
        hope
    }

    #[test]
    fn full_is_busy_all_the_time_while_nobody_waits() {
        assert!(is_full(uses(31.4), 32) && is_full(uses(1.0), 1));
        assert!(!is_full(uses(31.3), 32) && !is_full(uses(0.0), 0));
        assert!(is_full(wants(32.0, 32.5), 32), "half a thread of 32 is not noticed");
        assert!(!is_full(wants(32.0, 32.7), 32) && !is_full(wants(1.0, 1.1), 1));
    }

    #[test]
    fn half_of_a_grant_must_be_used_within_a_second() {
        assert_eq!(after([(uses(7.9), 12); 9]).trial.map(|trial| trial.size), Some(12));
        let hope = after([(uses(7.9), 12); 10]);
        assert_eq!((hope.trial, hope.hopeless(&frame(10))), (None, Nanos::from_secs(10)));
        assert_eq!(hope.hopeless(&frame(110)), Nanos(0));
        let hope = after(std::iter::repeat_n((uses(4.0), 12), 9).chain([(uses(8.0), 12)]));
        assert_eq!((hope.is_on_trial(), hope.hopeless(&frame(10))), (false, Nanos(0)));
        assert_eq!(hope.own(), Some(4), "what came by hope stays that");
    }

    #[test]
    fn a_second_may_come_in_pieces() {
        let piece = || std::iter::repeat_n((uses(4.0), 12), 6);
        let mut hope = after(piece().chain([(uses(4.0), 4)]));
        assert_eq!(
            (hope.is_on_trial(), hope.lost, hope.own()),
            (false, None, None),
            "taken back: no verdict"
        );
        hope.granted(8, 4, 4.0);
        (10..14).for_each(|tenth| hope.see(uses(4.0), 12, &frame(tenth)));
        assert_eq!(hope.hopeless(&frame(13)), Nanos::from_secs(10));
    }

    #[test]
    fn hopeless_lasts_twice_as_long_each_time_up_to_ten_minutes() {
        let mut hope = Hope::default();
        let mut tenth = 0;
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                hope.granted(8, 4, 4.0);
                for _ in 0..10 {
                    tenth += 1;
                    hope.see(uses(4.0), 12, &frame(tenth));
                }
                hope.hopeless(&frame(tenth)).0 / 1_000_000_000
            })
            .collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn threads_that_wait_or_a_use_that_rises_by_itself_end_it() {
        let lost = after([(uses(4.0), 12); 10]);
        let next = |demand, size| {
            let mut hope = lost.clone();
            hope.see(demand, size, &frame(11));
            hope.hopeless(&frame(11))
        };
        assert_eq!(next(wants(4.0, 6.0), 4), Nanos(0));
        assert_eq!(next(wants(4.0, 5.0), 4), Nanos(9_900_000_000), "less than a third more is nothing new");
        assert_eq!(next(uses(5.4), 12), Nanos(0), "by a third");
        assert_eq!(next(uses(5.3), 12), Nanos(9_900_000_000));
        assert_eq!(next(uses(1.0), 12), Nanos(9_900_000_000));
    }

    #[test]
    fn who_gave_what_it_did_not_use_does_not_hope_for_it() {
        let mut hope = Hope::default();
        hope.gave(1.0, true, &frame(0));
        hope.see(uses(1.0), 1, &frame(5999));
        assert_eq!(hope.hopeless(&frame(5999)), TENTH);
        hope.see(wants(1.0, 2.0), 1, &frame(5999));
        assert_eq!(hope.hopeless(&frame(5999)), Nanos(0));
    }

    #[test]
    fn what_waits_for_a_second_makes_all_its_own() {
        let grown = [(uses(12.0), 12); 3];
        assert_eq!(after(grown).own(), Some(4));
        let lag = |count| grown.into_iter().chain(std::iter::repeat_n((wants(4.0, 12.0), 4), count));
        assert_eq!(after(lag(9)).own(), Some(4));
        assert_eq!(after(lag(10)).own(), None);
        assert_eq!(after(lag(3).chain([(uses(4.0), 4)])).own(), None, "it has no more than its own");
        assert_eq!(after(lag(3).chain([(uses(5.0), 5)])).own(), Some(4));
    }

    #[test]
    fn what_was_lent_is_counted_until_it_is_back() {
        let mut hope = Hope::default();
        hope.settle(8, 0);
        hope.settle(2, 3);
        assert_eq!(hope.lent(), 7);
        hope.settle(0, 20);
        assert_eq!(hope.lent(), 0);
    }
}
