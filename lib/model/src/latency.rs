//! Timer wake-up latency of a thread, stage by stage, and what else ran on its CPU meanwhile.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// The stages, in the order of time, and the whole.
pub const LATENCY_ROWS: [&str; 5] = ["irq", "wake-up", "on-cpu", "user", "total"];

/// How many of [`LATENCY_ROWS`] are stages.
pub const LATENCY_STAGES: usize = 4;

/// The stage that may be part of the next one.
const WAKE_UP: usize = 1;

/// One waiting for a timer. Instants of one monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySample {
    /// When the timer was due.
    pub due: Nanos,
    /// When its handler was reached, the thread was woken, and it got its CPU; zeros where that was not seen. That it was woken alone may be
    /// unseen: then its stage is part of the next one.
    pub stamps: [Nanos; LATENCY_STAGES - 1],
    /// When the thread was back in user mode.
    pub user: Nanos,
}

impl LatencySample {
    /// From the timer to user mode.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.user - self.due
    }

    /// How long each stage took. They add up to [`LatencySample::total`]; one that is `None` is part of the next. `None` altogether where stamps are
    /// missing or of another timer: then they are out of order.
    #[must_use]
    pub fn stages(&self) -> Option<[Option<Nanos>; LATENCY_STAGES]> {
        let [irq, woken, on_cpu] = self.stamps;
        let split = woken != Nanos(0);
        let points = [self.due, irq, if split { woken } else { irq }, on_cpu, self.user];
        let stage = |stage: usize| (split || stage != WAKE_UP).then(|| points[stage + 1] - points[stage]);
        points.is_sorted().then(|| std::array::from_fn(stage))
    }
}

/// Something that ran, or began or ended to run, on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When.
    pub at: Nanos,
    /// What, by name: `interrupt 24 (virtio0-input.0)`, `soft interrupt NET_RX`, `task hackbench (204)`; `idle` for the thread that runs when
    /// nothing else does.
    pub what: String,
    /// What sort of moment.
    pub kind: MomentKind,
}

/// What sort of moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentKind {
    /// A task got the CPU; the one before lost it.
    Switch,
    /// An interrupt of whatever sort began.
    Begin,
    /// It ended.
    End,
}

/// Something else that used the CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sharer {
    /// What: an interrupt, a softirq or a thread.
    pub what: String,
    /// How often it ran.
    pub times: u64,
    /// How long together.
    #[serde(rename = "ns")]
    pub ran: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(due: u64, stamps: [u64; 3], user: u64) -> LatencySample {
        LatencySample { due: Nanos(due), stamps: stamps.map(Nanos), user: Nanos(user) }
    }

    #[test]
    fn stamps_of_another_timer_give_no_stages() {
        let stages = sample(1000, [1001, 1003, 1006], 1010).stages();
        assert_eq!(stages, Some([1, 2, 3, 4].map(|ns| Some(Nanos(ns)))));
        for stamps in [[0, 0, 0], [900, 1003, 1006], [1001, 1003, 1011], [1003, 1001, 1006]] {
            let sample = sample(1000, stamps, 1010);
            assert_eq!((sample.stages(), sample.total()), (None, Nanos(10)));
        }
    }

    #[test]
    fn where_nobody_saw_it_woken_the_next_stage_has_both() {
        let stages = sample(1000, [1001, 0, 1006], 1010).stages();
        assert_eq!(stages, Some([Some(Nanos(1)), None, Some(Nanos(5)), Some(Nanos(4))]));
        assert_eq!(sample(1000, [1007, 0, 1006], 1010).stages(), None);
    }

    proptest! {
        #[test]
        fn stages_add_up_to_the_whole(due in 1..1u64 << 50, steps in proptest::array::uniform4(0..1u64 << 30)) {
            let mut at = due;
            let points = steps.map(|step| { at += step; at });
            let sample = sample(due, [points[0], points[1], points[2]], points[3]);
            let stages = sample.stages().unwrap();
            prop_assert_eq!(stages.map(|s| s.unwrap().0), steps);
            prop_assert_eq!(steps.iter().sum::<u64>(), sample.total().0);
        }
    }
}
