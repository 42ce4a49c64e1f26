//! Averages of load: how many threads ran or waited for a CPU, over one, five and fifteen minutes.
//!
//! Each second the number of threads that ran or waited, on average over that second, goes into three exponential averages:
//!
//! ```text
//!   average = average e^(-1/T) + number (1 - e^(-1/T)),  T = 60, 300 and 900 seconds
//! ```
//!
//! as Unix has computed them since 4.2BSD, and Solaris since release 10 from times instead of samples. All numbers are fixed-point, so that every machine gives the same.

use crate::state::SimState;
use serde::{Deserialize, Serialize};

/// One, in the averages and factors.
const ONE: u128 = 1 << 32;

/// e^(-1/60), e^(-1/300), e^(-1/900).
const DECAY: [u128; 3] = [4_223_977_731, 4_280_674_573, 4_290_197_760];

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The averages, and until when they were computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadAverage {
    /// The last second that is in them, in nanoseconds since boot.
    at: u64,
    /// Nanoseconds that threads had run or waited until then.
    spent: u64,
    /// Each in parts of 2^32.
    averages: [u64; 3],
}

impl LoadAverage {
    /// Whether no second is over yet.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.at == 0
    }

    /// The next moment at which they change.
    pub(crate) fn due(&self) -> u64 {
        self.at.saturating_add(SECOND)
    }

    /// The seconds that are over since then; threads had run or waited for so many nanoseconds until now.
    pub(crate) fn go_on(&mut self, now: u64, spent: u64) {
        let seconds = now.saturating_sub(self.at) / SECOND;
        if seconds == 0 {
            return;
        }
        let passed = u128::from(now - self.at);
        let number = u128::from(spent.saturating_sub(self.spent)) * ONE / passed;
        for (average, decay) in self.averages.iter_mut().zip(DECAY) {
            let mut value = u128::from(*average);
            // After an hour without a change an average is what it will be.
            for _ in 0..seconds.min(36_000) {
                value = (value * decay + number * (ONE - decay) + ONE / 2) / ONE;
            }
            *average = u64::try_from(value).unwrap_or(u64::MAX);
        }
        self.at += seconds * SECOND;
        self.spent = spent;
    }

    /// Hundredths of each, rounded.
    #[must_use]
    pub fn hundredths(&self) -> [u64; 3] {
        self.averages
            .map(|average| u64::try_from((u128::from(average) * 100 + ONE / 2) / ONE).unwrap_or(u64::MAX))
    }
}

impl SimState {
    /// How long threads have run and waited for CPUs since boot, all together, in nanoseconds.
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
        // Two CPUs are enough for them, or not: a thread that waits counts as one that runs.
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
