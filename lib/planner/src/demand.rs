//! Demand: how many CPUs a set would use if it had them.
//!
//! What a set used is seen; what it would have used is not, once all its CPUs are busy. The demand is therefore at least the use, and is
//! estimated upward when the set is *saturated*, that is, busy nine tenths of its time:
//!
//! * threads' waiting added up: each second of it is a second of a CPU that was lacking. `demand = used + waiting`;
//! * the time in which any thread waited: up to twice the use, so that sizes double until it stops. `demand = used * (1 + share)`;
//! * nothing: half as much again when hardly a moment was idle.
//!
//! In a set that is *not* saturated threads wait, too, for a moment, in the wrong queue. More CPUs would not help them, those there would: their
//! waiting counts up to the size of the set, and no further.

use crate::SetFrame;
use crate::Waiting;
use crate::convert::{ratio, real, up};
use millpond_model::Nanos;

/// Above this share of its time a set is saturated.
const SATURATED: f64 = 0.9;

/// The same where the threads that waited were not counted.
const SATURATED_BLIND: f64 = 0.98;

/// So much of a CPU more is no reason for a whole one.
pub(crate) const CRUMB: f64 = 0.05;

/// What a set needed in an interval, in CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// How many it used on average.
    pub used: f64,
    /// How many it would have used; never below `used`.
    pub wanted: f64,
    /// Whether hardly any of its CPUs had a moment left.
    pub is_saturated: bool,
}

impl Demand {
    /// How many whole CPUs it wanted, without a crumb.
    #[must_use]
    pub fn cpus(&self) -> usize {
        up(self.wanted - CRUMB)
    }
}

/// The need of a set; `None` when nothing can be said, as after counters began anew.
#[must_use]
pub fn demand(set: &SetFrame, elapsed: Nanos) -> Option<Demand> {
    if set.is_reset || elapsed.0 == 0 {
        return None;
    }
    let size = real(set.size());
    let used = ratio(set.busy, elapsed).min(size);
    let bound = if set.waiting == Waiting::Unknown { SATURATED_BLIND } else { SATURATED };
    let is_saturated = used >= bound * size;
    let wanted = match (set.waiting, set.cpus.is_empty()) {
        (Waiting::Threads(time), _) if is_saturated => used + ratio(time, elapsed),
        (Waiting::Threads(time), _) => (used + ratio(time, elapsed)).min(size),
        (Waiting::Any(time), true) => f64::from(u8::from(time.0 > 0)),
        (Waiting::Any(time), false) if is_saturated => used * (1.0 + ratio(time, elapsed).min(1.0)),
        (Waiting::Any(_), false) => used,
        (Waiting::Unknown, true) => f64::from(u8::from(set.has_processes)),
        (Waiting::Unknown, false) if is_saturated => used * 1.5,
        (Waiting::Unknown, false) => used,
    };
    Some(Demand { used, wanted, is_saturated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{load, set};

    const TENTH: Nanos = Nanos::from_millis(100);

    fn wanted(set: &SetFrame) -> f64 {
        demand(set, TENTH).unwrap().wanted
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn threads_that_wait_in_a_full_set_are_demand() {
        assert!(near(wanted(&load(set(1, "0-3"), 4.0, 6.0)), 10.0));
        assert!(near(wanted(&load(set(1, "0-3"), 3.6, 0.0)), 3.6));
    }

    #[test]
    fn threads_that_wait_beside_idle_processors_want_those() {
        assert!(near(wanted(&load(set(1, "0-3"), 2.0, 1.0)), 3.0));
        assert!(near(wanted(&load(set(1, "0-3"), 2.0, 9.0)), 4.0));
    }

    #[test]
    fn pressure_without_a_number_doubles_at_most() {
        let pressed = |busy, time| SetFrame {
            busy: Nanos::from_millis(busy),
            waiting: Waiting::Any(Nanos::from_millis(time)),
            ..set(1, "0-3")
        };
        assert!(near(wanted(&pressed(400, 100)), 8.0));
        assert!(near(wanted(&pressed(400, 50)), 6.0));
        assert!(near(wanted(&pressed(400, 900)), 8.0), "no more than all of the time");
        assert!(near(wanted(&pressed(200, 100)), 2.0), "half of it is idle");
    }

    #[test]
    fn without_any_count_only_a_busy_set_wants_more() {
        let blind =
            |busy| SetFrame { busy: Nanos::from_millis(busy), waiting: Waiting::Unknown, ..set(1, "0-3") };
        assert!(near(wanted(&blind(400)), 6.0));
        assert!(near(wanted(&blind(380)), 3.8));
    }

    #[test]
    fn a_set_without_processors_can_only_wait() {
        assert!(near(wanted(&load(set(1, ""), 0.0, 3.0)), 3.0));
        let some = SetFrame { waiting: Waiting::Any(Nanos(1)), ..set(1, "") };
        assert!(near(wanted(&some), 1.0));
        assert!(near(wanted(&SetFrame { waiting: Waiting::Unknown, ..some }), 1.0));
    }

    #[test]
    fn nobody_used_more_than_there_is() {
        assert!(near(wanted(&load(set(1, "0-3"), 4.2, 0.0)), 4.0));
    }

    #[test]
    fn counters_that_began_anew_say_nothing() {
        assert_eq!(demand(&SetFrame { is_reset: true, ..set(1, "0-3") }, TENTH), None);
        assert_eq!(demand(&set(1, "0-3"), Nanos(0)), None);
    }
}
