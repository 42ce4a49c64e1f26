//! The history of a set: its filtered demand, and how far recent changes are trusted.
//!
//! **The level** is the demand without noise. It rises at once with the demand. It falls only when the demand falls by a quarter, or was
//! below the level for some seconds. Steady noise of some percent does not change it.
//!
//! **The hold** damps swings that are too quick to follow. A failure is counted when a set gave CPUs away, lacked CPUs within three
//! intervals, and the receiver used them less than the giver now lacks them. After a failure the demand must be low for longer before the
//! set gives again, but for at most two decisions ([`LACKED`]). The hold is halved after each correct decision, and after a time without
//! failures. Swings that are slow enough to follow leave it at zero. A need is never delayed.
//!
//! **The peak** is the highest recent demand. CPUs below it are not given for objectives.

use super::speculation::{FALLEN, FALLEN_BY, Speculation};
use crate::convert::{real, span};
use crate::{Demand, Frame};
use millpond_model::{Nanos, PsetId};
use serde::{Deserialize, Serialize};

/// A level that is not reached for one to two windows falls to the highest demand within them.
const WINDOW: Nanos = Nanos::from_secs(5);

/// A hold without a further failure is halved after this time.
const FORGIVEN: Nanos = Nanos::from_secs(10);

/// Demand within one to two windows is recent: a new window begins when the previous one ends.
const RECENT: Nanos = Nanos::from_secs(10);

/// A thread waits for at most two decisions while another set has unused CPUs: the third decision gives them, also if batches are expensive.
pub(super) const LACKED: u32 = 3;

/// For this time after a grant, a set counts as recently served.
const SERVED: Nanos = Nanos::from_secs(30);

/// The assumed duration of a need before any measurement, in seconds.
const STAY: f64 = 1.0;

/// The longest assumed duration of a need, in seconds.
const STAY_MAX: f64 = 60.0;

/// The history of one set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SetHistory {
    level: Level,
    /// The highest recent demand.
    peak: Level,
    /// The start of the current need.
    need_since: Option<Nanos>,
    /// The number of decisions since then in which it lacked CPUs.
    pub lacked: u32,
    /// The time for which the demand must be low before CPUs are given.
    hold: Doubt,
    /// CPUs that it was given, until the need for them is confirmed.
    grant: Option<Event>,
    /// The time of the last grant.
    last_grant: Option<Nanos>,
    /// CPUs that it gave, until it is confirmed that it does not need them.
    #[serde(rename = "trade")]
    gift: Option<Gift>,
    /// The duration of needs after they were served, in seconds; none before the first.
    stay: Option<f64>,
    /// Average number of CPUs used.
    pub mean_used: f64,
    /// Speculative grants. Saved states call this field `hope`.
    #[serde(rename = "hope")]
    pub speculation: Speculation,
}

/// The highest demand of the present window and of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Level {
    is_known: bool,
    now: f64,
    before: f64,
    since: Nanos,
    /// The time since which the demand is lower, and its maximum since then.
    low: Option<(Nanos, f64)>,
}

/// A delay with exponential backoff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Doubt {
    wait: Nanos,
    /// The time of its last change.
    at: Nanos,
}

/// A change of size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Event {
    at: Nanos,
    /// The size before it.
    before: usize,
}

/// CPUs that a set gave to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Gift {
    pub at: Nanos,
    pub count: usize,
    /// The receiving set, and its size before.
    pub to: (PsetId, usize),
    /// CPU time, in seconds, that the receiver used on them, less the cost of the move.
    pub gained: f64,
}

fn times(span: Nanos, count: u64) -> Nanos {
    Nanos(span.0.saturating_mul(count))
}

impl Doubt {
    fn confirm(&mut self, frame: &Frame) {
        let most = times(frame.elapsed, LACKED.into());
        self.wait = times(self.wait, 2).max(times(frame.elapsed, 2)).min(most);
        self.at = frame.at;
    }

    fn relent(&mut self, frame: &Frame) {
        let half = Nanos(self.wait.0 / 2);
        self.wait = if half < frame.elapsed { Nanos(0) } else { half };
        self.at = frame.at;
    }

    fn forget(&mut self, frame: &Frame) {
        if self.wait.0 > 0 && frame.at - self.at >= FORGIVEN.max(times(frame.elapsed, 20)) {
            self.relent(frame);
        }
    }
}

impl Level {
    fn value(&self) -> f64 {
        self.now.max(self.before)
    }

    fn set(&mut self, value: f64, at: Nanos) {
        *self = Level { is_known: true, now: value, before: value, since: at, low: None };
    }

    fn see(&mut self, demand: f64, hold: Nanos, frame: &Frame) {
        let start = frame.at - frame.elapsed;
        let level = self.value();
        if !self.is_known {
            return self.set(demand, start);
        }
        if demand < (level * FALLEN).min(level - FALLEN_BY) {
            let (since, highest) = self.low.unwrap_or((start, demand));
            let highest = highest.max(demand);
            self.low = Some((since, highest));
            if frame.at - since >= hold {
                self.set(highest, start);
            }
            return;
        }
        self.low = None;
        self.reach(demand, WINDOW, frame);
    }

    /// The highest value of one to two windows.
    fn reach(&mut self, demand: f64, window: Nanos, frame: &Frame) {
        if frame.at - self.since >= window.max(times(frame.elapsed, 5)) {
            (self.before, self.now, self.since) = (self.now, demand, frame.at);
        }
        self.is_known = true;
        self.now = self.now.max(demand);
    }
}

impl SetHistory {
    /// Adds one frame. `size` is the size of the set in it; `lacks` says whether that was below its need.
    pub fn see(&mut self, demand: Demand, size: usize, lacks: bool, frame: &Frame) {
        self.judge_grant(demand.wanted, size, frame);
        self.judge_gift(demand.wanted - real(size), lacks, frame);
        self.hold.forget(frame);
        self.speculation.see(demand, size, frame);
        self.level.see(demand.wanted, self.hold.wait, frame);
        self.peak.reach(demand.wanted, RECENT, frame);
        self.need_since = lacks.then(|| self.need_since.unwrap_or(frame.at - frame.elapsed));
        self.lacked = if lacks { self.lacked.saturating_add(1) } else { 0 };
    }

    fn judge_grant(&mut self, wanted: f64, size: usize, frame: &Frame) {
        let Some(grant) = self.grant else { return };
        let start = frame.at - frame.elapsed;
        let is_used = wanted > real(grant.before);
        let until = if is_used { frame.at } else { start };
        let used = until - grant.at;
        let is_proven = used.as_secs_f64() >= STAY_MAX;
        if is_used && size > grant.before && !is_proven {
            return;
        }
        self.grant = None;
        let known = self.stay.unwrap_or(STAY);
        self.stay = Some(f64::midpoint(known, used.as_secs_f64()).min(STAY_MAX));
    }

    /// Compares the CPUs that the set lacks now with their use by the receiver: a failure if the receiver used less.
    fn judge_gift(&mut self, lacking: f64, lacks: bool, frame: &Frame) {
        let Some(gift) = self.gift else { return };
        let is_soon = frame.at - gift.at <= times(frame.elapsed, 3);
        if is_soon && !lacks {
            return;
        }
        self.gift = None;
        let lost = lacking.min(real(gift.count)) * frame.elapsed.as_secs_f64();
        if is_soon && lost >= gift.gained { self.hold.confirm(frame) } else { self.hold.relent(frame) }
    }

    /// Adds the CPU time that the receiver of its CPUs used on them in a frame. `used` gives the usage of each set.
    pub fn follow_gift(&mut self, frame: &Frame, used: impl Fn(PsetId) -> f64) {
        let Some(gift) = &mut self.gift else { return };
        let had = (used(gift.to.0) - real(gift.to.1)).clamp(0.0, real(gift.count));
        gift.gained += had * frame.elapsed.as_secs_f64();
    }

    /// Records a grant to the set.
    pub fn granted(&mut self, before: usize, frame: &Frame) {
        self.grant = self.grant.or(Some(Event { at: frame.at, before }));
        self.last_grant = Some(frame.at);
        self.lacked = 0;
    }

    /// Whether the set was given CPUs recently. If so, it gets a little more than it asks for. Otherwise noise causes a new
    /// request each time that the demand slightly exceeds all earlier ones.
    pub fn was_served(&self, frame: &Frame) -> bool {
        self.last_grant.is_some_and(|at| frame.at - at <= SERVED.max(times(frame.elapsed, 20)))
    }

    /// Records CPUs that the set gave away and did not need.
    pub fn gave(&mut self, gift: Gift) {
        self.gift = Some(gift);
    }

    /// Its level in CPUs; none before the first frame.
    pub fn level(&self) -> Option<f64> {
        self.level.is_known.then(|| self.level.value())
    }

    /// The highest recent demand.
    pub fn peak(&self) -> f64 {
        self.peak.value()
    }

    /// The time since its need began.
    fn age(&self, frame: &Frame) -> Nanos {
        self.need_since.map_or(Nanos(0), |since| frame.at - since)
    }

    /// The expected useful life of a grant: the duration of earlier needs, but at least the present age of the need.
    pub fn stay(&self, frame: &Frame) -> Nanos {
        span(self.stay.unwrap_or(STAY)).max(self.age(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The history of a set with four CPUs after each demand; one demand is 100 ms.
    fn watch(demands: &[f64]) -> Vec<SetHistory> {
        let mut history = SetHistory::default();
        let see = |(at, wanted): (u64, &f64)| {
            let frame = frame(at);
            let demand = Demand { used: wanted.min(4.0), wanted: *wanted, is_saturated: *wanted > 4.0 };
            history.see(demand, 4, *wanted > 4.0, &frame);
            history.clone()
        };
        (1..).zip(demands).map(see).collect()
    }

    fn frame(at: u64) -> Frame {
        Frame { at: Nanos::from_millis(100 * at), elapsed: Nanos::from_millis(100), ..Frame::default() }
    }

    fn levels(demands: &[f64]) -> Vec<f64> {
        watch(demands).iter().map(|history| history.level().unwrap()).collect()
    }

    #[test]
    fn a_level_rises_at_once_and_falls_by_a_quarter_at_once() {
        assert_eq!(levels(&[4.0, 8.0, 6.1, 5.9]), [4.0, 8.0, 8.0, 5.9]);
        assert_eq!(levels(&[0.9, 0.5, 0.3]), [0.9, 0.9, 0.3], "half a CPU at least");
    }

    #[test]
    fn a_level_that_is_not_reached_any_more_falls_within_two_windows() {
        let mut demands = vec![8.0];
        demands.extend([7.0; 101]);
        let levels = levels(&demands);
        assert_eq!(levels[40], 8.0);
        assert_eq!(levels[101], 7.0);
    }

    #[test]
    fn what_was_wanted_recently_is_remembered_for_one_to_two_windows() {
        let mut demands = vec![8.0];
        demands.extend([1.0; 201]);
        let seen = watch(&demands);
        assert_eq!((seen[1].level(), seen[1].peak()), (Some(1.0), 8.0));
        assert_eq!((seen[198].peak(), seen[199].peak()), (8.0, 1.0));
    }

    #[test]
    fn a_need_that_lasted_is_thought_to_last_again() {
        let mut history = watch(&[5.0])[0].clone();
        history.granted(4, &frame(1));
        let much = Demand { used: 5.0, wanted: 5.0, is_saturated: true };
        for at in 2..=4 {
            history.see(much, 5, false, &frame(at));
        }
        let none = Demand { used: 1.0, wanted: 1.0, is_saturated: false };
        history.see(none, 5, false, &frame(5));
        // One second was assumed, 0.3 s were measured.
        assert_eq!(history.stay(&frame(5)), Nanos::from_millis(650));
    }

    #[test]
    fn decisions_in_which_it_lacks_are_counted() {
        let counts: Vec<u32> = watch(&[5.0, 6.0, 4.0, 5.0]).iter().map(|history| history.lacked).collect();
        assert_eq!(counts, [1, 2, 0, 1]);
    }

    #[test]
    fn a_set_that_gave_and_wants_it_back_holds_it_longer() {
        let mut history = watch(&[4.0, 1.0]).pop().unwrap();
        let gift = |gained| Gift { at: frame(2).at, count: 2, to: (PsetId(7), 3), gained };
        history.gave(gift(0.0));
        let mut worth = history.clone();
        worth.follow_gift(&frame(3), |_| 9.0);
        let much = Demand { used: 2.0, wanted: 4.0, is_saturated: true };
        history.see(much, 2, true, &frame(3));
        assert_eq!(history.hold.wait, Nanos::from_millis(200));
        // The other set had two CPUs for 100 ms; this set lacked one.
        worth.see(Demand { wanted: 3.0, ..much }, 2, true, &frame(3));
        assert_eq!(worth.hold.wait, Nanos(0));
        let none = Demand { used: 1.0, wanted: 1.0, is_saturated: false };
        history.see(none, 4, false, &frame(4));
        assert_eq!(history.level(), Some(4.0), "one interval is not believed");
        history.see(none, 4, false, &frame(5));
        assert_eq!(history.level(), Some(1.0));
    }

    #[test]
    fn doubts_that_nothing_confirms_are_forgotten() {
        let mut history =
            SetHistory { hold: Doubt { wait: Nanos::from_secs(2), at: Nanos(0) }, ..SetHistory::default() };
        let none = Demand { used: 1.0, wanted: 1.0, is_saturated: false };
        (1..=500).for_each(|at| history.see(none, 4, false, &frame(at)));
        assert!(history.hold.wait < Nanos::from_millis(100));
    }
}
