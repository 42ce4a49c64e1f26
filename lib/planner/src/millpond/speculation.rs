//! Speculative grants: a set that is busy all the time gets idle CPUs, although none of its threads waits.
//!
//! A *malleable* program runs one thread per CPU of its set. It is busy all the time and its threads never wait, so its demand
//! beyond its size cannot be measured. The set is *full*: it gets the CPUs that are idle elsewhere, and only these, at once.
//!
//! **A speculative grant never costs a set that needs its CPUs.** The size of a set before its first speculative grant is its *own*. CPUs
//! that it uses beyond that are *held*; needs and wants of all sets rank before them. A set that *lent* CPUs gets them back in the first
//! frame in which it needs them: for this need there is no hold and no minimum time between batches. A program takes a moment to run fewer
//! threads. Only when its threads have waited for a second do they count as a need, and all CPUs of the set become its own.
//!
//! **Speculative grants are shared by importance.** A full set that finds no idle CPU *claims* CPUs that others hold beyond their own and
//! beyond their share: as many as it has, until it has its share. The same trial follows; until it ends no other set takes them back.
//! Later they become its own. So a program that restarts with one thread on one CPU reaches its former share.
//!
//! **A failed trial is remembered.** A grant is on trial for one second; a grant that is taken back continues its trial with the next
//! one. When the usage rises by half of the grant, the trial succeeds. Otherwise the set gets no speculative grant for ten seconds (its
//! *backoff*), and for twice as long after each further failure. A set that gave CPUs that it did not use has shown the same without a
//! trial, and gets the longest backoff. Threads that wait for more CPUs, or a usage that rises by itself, end the backoff.

use crate::convert::real;
use crate::{Demand, Frame, SetFrame};
use millpond_model::Nanos;
use millpond_model::pools::{Bound, Objective};
use serde::{Deserialize, Serialize};

/// Below this fraction of an earlier demand, a demand is lower and not noise.
pub(super) const FALLEN: f64 = 0.75;

/// The minimum difference in CPUs.
pub(super) const FALLEN_BY: f64 = 0.5;

/// A set that is busy for this part of its time is full.
const FULL: f64 = 0.98;

/// Threads wait if they lack more than this fraction of the CPUs of the set, and more than this fraction of one CPU.
const WAITS: (f64, f64) = (0.02, 0.05);

/// The time of a trial, and the time after which waiting threads are a need.
const TRIAL: Nanos = Nanos::from_secs(1);

/// The fraction of a grant that must be used.
const PROOF: f64 = 0.5;

/// The first and the longest backoff of a set.
const BACKOFF: (Nanos, Nanos) = (Nanos::from_secs(10), Nanos::from_secs(600));

/// A donor gives speculatively if it can spare more than this fraction of what it keeps. A recently served set takes no less. Less is noise.
pub(super) const NOISE: f64 = 0.1;

/// The speculative state of one set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Speculation {
    /// Its size before its first speculative grant; none without one.
    own: Option<usize>,
    trial: Option<Trial>,
    /// How long it has had CPUs that it did not use, since a trial succeeded.
    tried: Nanos,
    lost: Option<Failure>,
    /// The time since which its threads wait.
    waits_since: Option<Nanos>,
    /// The number of CPUs that it gave speculatively and that have not returned.
    lent: usize,
    /// The last time that it claimed held CPUs.
    claimed: Option<Nanos>,
}

/// A grant on trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Trial {
    /// The number of CPUs granted.
    granted: usize,
    /// The size with the grant.
    size: usize,
    /// The usage before it.
    used: f64,
    /// Whether other sets held the CPUs.
    #[serde(default)]
    is_claim: bool,
}

/// A failed trial, and the backoff after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Failure {
    until: Nanos,
    wait: Nanos,
    /// The usage of the set at that time.
    used: f64,
}

/// Whether a set is busy all of its time and its threads do not wait.
pub(super) fn is_full(demand: Demand, size: usize) -> bool {
    size > 0 && demand.used >= FULL * real(size) && !waits(demand, size)
}

fn waits(demand: Demand, size: usize) -> bool {
    demand.wanted - real(size) > WAITS.1.max(WAITS.0 * real(size))
}

/// Whether a set may get speculative grants: with `wt-load` up to the limit of its own objectives; without it only if none of them limits it.
pub(super) fn is_allowed(frame: &Frame, set: &SetFrame) -> bool {
    let limits =
        |objective: &Objective| matches!(objective, Objective::Utilization(Bound::Above | Bound::Near, _));
    frame.wt_load().is_some_and(|importance| importance > 0)
        || !set.objectives.iter().any(|weighted| limits(&weighted.objective))
}

impl Speculation {
    /// Adds one frame. `size` is the size of the set in it.
    pub fn see(&mut self, demand: Demand, size: usize, frame: &Frame) {
        let waits = waits(demand, size);
        self.waits_since = waits.then(|| self.waits_since.unwrap_or(frame.at - frame.elapsed));
        let rose =
            |lost: Failure| demand.wanted * FALLEN > lost.used && demand.wanted - lost.used >= FALLEN_BY;
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
            let wait = wait.clamp(BACKOFF.0, BACKOFF.1);
            self.lost = Some(Failure { until: frame.at + wait, wait, used: demand.used });
            (self.trial, self.tried) = (None, Nanos(0));
        }
    }

    /// Records a speculative grant of `granted` CPUs to a set with `before` CPUs that used `used` of them.
    pub fn granted(&mut self, granted: usize, before: usize, used: f64) {
        self.own = self.own.or(Some(before));
        self.trial = Some(Trial { granted, size: before + granted, used, is_claim: false });
    }

    /// The same for CPUs that other sets held.
    pub fn claimed(&mut self, granted: usize, before: usize, used: f64, frame: &Frame) {
        self.granted(granted, before, used);
        self.trial = self.trial.map(|trial| Trial { is_claim: true, ..trial });
        self.claimed = Some(frame.at);
    }

    /// Other sets claimed held CPUs. The program takes a moment to run fewer threads.
    pub fn yielded(&mut self) {
        self.waits_since = None;
    }

    /// Whether a claim is still on trial.
    pub fn has_claim_on_trial(&self) -> bool {
        self.trial.is_some_and(|trial| trial.is_claim)
    }

    /// Records that the set gave unused CPUs while it used `used`. If other sets needed held CPUs, this proves nothing yet.
    pub fn gave(&mut self, used: f64, is_speculative: bool, frame: &Frame) {
        if self.own.is_some() && !is_speculative {
            return;
        }
        let wait = self.lost.map_or(Nanos(0), |lost| lost.wait);
        self.lost = Some(Failure { until: frame.at + BACKOFF.1, wait, used });
    }

    /// Records that it gave `lent` CPUs speculatively and got `gets`.
    pub fn settle(&mut self, lent: usize, gets: usize) {
        self.lent = self.lent.saturating_add(lent).saturating_sub(gets);
    }

    /// Its size before its first speculative grant; none without one.
    pub fn own(&self) -> Option<usize> {
        self.own
    }

    /// The number of CPUs that it gave speculatively and that have not returned.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Whether a grant is still on trial.
    pub fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// The remaining backoff.
    pub fn backoff(&self, frame: &Frame) -> Nanos {
        self.lost.map_or(Nanos(0), |lost| lost.until - frame.at)
    }
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

    /// A set of four gets eight CPUs at time 0; these frames follow: (demand, size).
    fn after(frames: impl IntoIterator<Item = (Demand, usize)>) -> Speculation {
        let mut set = Speculation::default();
        set.granted(8, 4, 4.0);
        (1..).zip(frames).for_each(|(tenth, (demand, size))| set.see(demand, size, &frame(tenth)));
        set
    }

    #[test]
    fn a_full_set_is_busy_all_the_time_while_no_thread_waits() {
        assert!(is_full(uses(31.4), 32) && is_full(uses(1.0), 1));
        assert!(!is_full(uses(31.3), 32) && !is_full(uses(0.0), 0));
        assert!(is_full(wants(32.0, 32.5), 32), "half a thread of 32 is not noticed");
        assert!(!is_full(wants(32.0, 32.7), 32) && !is_full(wants(1.0, 1.1), 1));
    }

    #[test]
    fn half_of_a_grant_must_be_used_within_a_second() {
        assert_eq!(after([(uses(7.9), 12); 9]).trial.map(|trial| trial.size), Some(12));
        let set = after([(uses(7.9), 12); 10]);
        assert_eq!((set.trial, set.backoff(&frame(10))), (None, Nanos::from_secs(10)));
        assert_eq!(set.backoff(&frame(110)), Nanos(0));
        let set = after(std::iter::repeat_n((uses(4.0), 12), 9).chain([(uses(8.0), 12)]));
        assert_eq!((set.is_on_trial(), set.backoff(&frame(10))), (false, Nanos(0)));
        assert_eq!(set.own(), Some(4), "what was granted speculatively stays that");
    }

    #[test]
    fn a_second_may_come_in_pieces() {
        let piece = || std::iter::repeat_n((uses(4.0), 12), 6);
        let mut set = after(piece().chain([(uses(4.0), 4)]));
        assert_eq!((set.is_on_trial(), set.lost, set.own()), (false, None, None), "taken back: no verdict");
        set.granted(8, 4, 4.0);
        (10..14).for_each(|tenth| set.see(uses(4.0), 12, &frame(tenth)));
        assert_eq!(set.backoff(&frame(13)), Nanos::from_secs(10));
    }

    #[test]
    fn each_backoff_is_twice_as_long_up_to_ten_minutes() {
        let mut set = Speculation::default();
        let mut tenth = 0;
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                set.granted(8, 4, 4.0);
                for _ in 0..10 {
                    tenth += 1;
                    set.see(uses(4.0), 12, &frame(tenth));
                }
                set.backoff(&frame(tenth)).0 / 1_000_000_000
            })
            .collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn threads_that_wait_or_a_use_that_rises_by_itself_end_the_backoff() {
        let lost = after([(uses(4.0), 12); 10]);
        let next = |demand, size| {
            let mut set = lost.clone();
            set.see(demand, size, &frame(11));
            set.backoff(&frame(11))
        };
        assert_eq!(next(wants(4.0, 6.0), 4), Nanos(0));
        assert_eq!(next(wants(4.0, 5.0), 4), Nanos(9_900_000_000), "less than a third more is nothing new");
        assert_eq!(next(uses(5.4), 12), Nanos(0), "by a third");
        assert_eq!(next(uses(5.3), 12), Nanos(9_900_000_000));
        assert_eq!(next(uses(1.0), 12), Nanos(9_900_000_000));
    }

    #[test]
    fn a_set_that_gave_what_it_did_not_use_backs_off() {
        let mut set = Speculation::default();
        set.gave(1.0, true, &frame(0));
        set.see(uses(1.0), 1, &frame(5999));
        assert_eq!(set.backoff(&frame(5999)), TENTH);
        set.see(wants(1.0, 2.0), 1, &frame(5999));
        assert_eq!(set.backoff(&frame(5999)), Nanos(0));
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
        let mut set = Speculation::default();
        set.settle(8, 0);
        set.settle(2, 3);
        assert_eq!(set.lent(), 7);
        set.settle(0, 20);
        assert_eq!(set.lent(), 0);
    }
}
