//! Demand: the number of CPUs that a set would use if it had them.
//!
//! The CPU time used is measured. The time that the set would have used is unknown once all its CPUs are busy. The demand is therefore at
//! least the usage, and is estimated higher when the set is *saturated*, that is, busy at least nine tenths of its time:
//!
//! * From run-queue delay summed over threads: each second of waiting is a second of a missing CPU. `demand = used + waiting`.
//! * From the time in which any thread waited: up to twice the usage, so that sizes double until waiting stops. `demand = used * (1 +
//!   share)`.
//! * From usage alone: one and a half times the usage if the set was almost never idle.
//!
//! Threads in a set that is *not* saturated also wait briefly, in the wrong run queue. The existing CPUs would serve them; further CPUs would
//! not help. This waiting counts up to the size of the set only.

use crate::SetFrame;
use crate::Waiting;
use crate::convert::{ratio, real, up};
use millpond_model::Nanos;

/// Above this utilization a set is saturated.
const SATURATED: f64 = 0.9;

/// The same threshold if waiting was not measured.
const SATURATED_BLIND: f64 = 0.98;

/// A demand for no more than this fraction of a further CPU is ignored.
pub(crate) const CRUMB: f64 = 0.05;

/// The demand of a set in an interval, in CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// CPUs used on average.
    pub used: f64,
    /// CPUs that it would have used; never below `used`.
    pub wanted: f64,
    /// Whether its CPUs were busy nearly all the time.
    pub is_saturated: bool,
}

impl Demand {
    /// The demand in whole CPUs, without a fraction below the threshold.
    #[must_use]
    pub fn cpus(&self) -> usize {
        up(self.wanted - CRUMB)
    }
}

/// The demand of a set; `None` if it is unknown, for example after a counter reset.
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
