//! Load averages: threads that ran or waited for a CPU, over one, five and fifteen minutes.
//!
//! Each second, the mean number of threads that ran or waited during that second enters three exponential averages:
//!
//! ```text
//!   average = average e^(-1/T) + number (1 - e^(-1/T)),  T = 60, 300 and 900 seconds
//! ```
//!
//! as in Unix since 4.2BSD. Solaris computes them from times instead of samples since release 10. All numbers are fixed-point, so that every host
//! computes the same.

use crate::state::SimState;
use serde::{Deserialize, Serialize};

/// 1.0, in averages and factors.
const ONE: u128 = 1 << 32;

/// e^(-1/60), e^(-1/300), e^(-1/900).
const DECAY: [u128; 3] = [4_223_977_731, 4_280_674_573, 4_290_197_760];

/// Nanoseconds per second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The averages, and the time up to which they are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadAverage {
    /// The last second that they include, in nanoseconds since boot.
    at: u64,
    /// Nanoseconds of running and waiting up to then.
    spent: u64,
    /// In units of 2^-32.
    averages: [u64; 3],
}

impl LoadAverage {
    /// Whether the first second is not over yet.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.at == 0
    }

    /// The time of their next update.
    pub(crate) fn due(&self) -> u64 {
        self.at.saturating_add(SECOND)
    }

    /// Includes the seconds that have passed. `spent` is the total time of running and waiting up to now, in nanoseconds.
    pub(crate) fn go_on(&mut self, now: u64, spent: u64) {
        let seconds = now.saturating_sub(self.at) / SECOND;
        if seconds == 0 {
            return;
        }
        let passed = u128::from(now - self.at);
        let number = u128::from(spent.saturating_sub(self.spent)) * ONE / passed;
        for (average, decay) in self.averages.iter_mut().zip(DECAY) {
            let mut value = u128::from(*average);
            // 36,000 steps reach the limit of an average, so longer gaps need no more.
            for _ in 0..seconds.min(36_000) {
                value = (value * decay + number * (ONE - decay) + ONE / 2) / ONE;
            }
            *average = u64::try_from(value).unwrap_or(u64::MAX);
        }
        self.at += seconds * SECOND;
        self.spent = spent;
    }

    /// The averages in hundredths, rounded.
    #[must_use]
    pub fn hundredths(&self) -> [u64; 3] {
        self.averages
            .map(|average| u64::try_from((u128::from(average) * 100 + ONE / 2) / ONE).unwrap_or(u64::MAX))
    }
}

impl SimState {
    /// Total time that threads ran or waited for CPUs since boot, in nanoseconds.
    pub(crate) fn run_and_waited(&self) -> u64 {
        let ran: u64 = self.kernel.cpus().iter().map(|cpu| cpu.user + cpu.sys).sum();
        self.kernel.waited().iter().fold(ran, |sum, waited| sum.saturating_add(*waited))
    }
}

#[cfg(test)]
mod tests {
    use crate::SimMachine;
    use crate::workloads::Load;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    fn after(line: &str, seconds: &[u64]) -> [u64; 3] {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let machine = SimMachine::named("x4200").unwrap();
        machine.start_load(&Load::parse(&words).unwrap());
        for second in seconds {
            machine.sleep_until(Nanos::from_secs(*second));
        }
        machine.view(|s| s.load.hundredths())
    }

    #[test]
    fn six_who_never_sleep_come_near_to_six_by_the_minute() {
        // 6 (1 - e^-1), 6 (1 - e^(-1/5)), 6 (1 - e^(-1/15)).
        assert_eq!(after("spin -t 6", &[60]), [379, 109, 39]);
        // With two CPUs or more than enough: a waiting thread counts as a running one.
        assert_eq!(after("spin -t 2", &[60]), [126, 36, 13]);
    }

    #[test]
    fn it_does_not_matter_in_how_many_steps_time_passes() {
        let steps: Vec<u64> = (1..=90).collect();
        assert_eq!(after("nap -t 5", &steps), after("nap -t 5", &[90]));
    }

    #[test]
    fn an_idle_machine_has_none_and_forgets() {
        assert_eq!(after("nap --run 0.001 --sleep 86400000", &[60]), [0, 0, 0]);
        // A minute later e^-1 of it is left: 63.21 % of 4, and of that 36.79 %.
        let words: Vec<String> = "spin -t 4 --seconds 60".split(' ').map(str::to_owned).collect();
        let machine = SimMachine::named("x4200").unwrap();
        machine.start_load(&Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(120));
        assert_eq!(machine.view(|s| s.load.hundredths())[0], 93);
    }
}
