//! Timer wake-up latency of a thread, stage by stage, and other activity on its CPU in the meantime.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// The stages in order of time, and the total.
pub const LATENCY_ROWS: [&str; 5] = ["irq", "wake-up", "on-cpu", "user", "total"];

/// The number of stages in [`LATENCY_ROWS`].
pub const LATENCY_STAGES: usize = 4;

/// The stage that may be included in the next one.
const WAKE_UP: usize = 1;

/// One wait for a timer. All instants are of one monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySample {
    /// The expiry time of the timer.
    pub due: Nanos,
    /// The times at which its handler started, the thread was woken, and the thread got its CPU; zero if not observed. Only the wake-up may be
    /// missing: its stage is then included in the next one.
    pub stamps: [Nanos; LATENCY_STAGES - 1],
    /// The time at which the thread was back in user mode.
    pub user: Nanos,
}

impl LatencySample {
    /// The time from the timer to user mode.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.user - self.due
    }

    /// The duration of each stage. Their sum is [`LatencySample::total`]; a stage that is `None` is included in the next one. The result is
    /// `None` if stamps are missing or belong to another timer, and are therefore out of order.
    #[must_use]
    pub fn stages(&self) -> Option<[Option<Nanos>; LATENCY_STAGES]> {
        let [irq, woken, on_cpu] = self.stamps;
        let split = woken != Nanos(0);
        let points = [self.due, irq, if split { woken } else { irq }, on_cpu, self.user];
        let stage = |stage: usize| (split || stage != WAKE_UP).then(|| points[stage + 1] - points[stage]);
        points.is_sorted().then(|| std::array::from_fn(stage))
    }
}

/// The start or the end of an activity on a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The time.
    pub at: Nanos,
    /// The name: `interrupt 24 (virtio0-input.0)`, `soft interrupt NET_RX`, `task hackbench (204)`; `idle` for the idle thread.
    pub what: String,
    /// The kind.
    pub kind: MomentKind,
}

/// The kind of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentKind {
    /// A context switch: the named task gets the CPU.
    Switch,
    /// An interrupt handler of any kind begins.
    Begin,
    /// An interrupt handler ends.
    End,
}

/// Another activity on the CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sharer {
    /// An interrupt, a softirq or a thread.
    pub what: String,
    /// How often it ran.
    pub times: u64,
    /// Its total time.
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
