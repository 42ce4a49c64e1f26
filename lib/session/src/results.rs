//! Results of programs on a simulated machine, in their own units.

use millpond_model::{Nanos, Pid};
use millpond_sim::results::{self, rate_of};

/// Results of a program over a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Achieved(pub(crate) results::Achieved);

impl Achieved {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.0.pid
    }

    /// Its process's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The period.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.0.time
    }

    /// The results since an earlier reading of the same program.
    #[must_use]
    pub fn since(&self, before: &Achieved) -> Achieved {
        Achieved(self.0.since(&before.0))
    }

    /// The figure as the program prints it; `None` if it has none yet.
    #[must_use]
    pub fn figure(&self) -> Option<String> {
        self.0.figure()
    }

    /// The program's output at its end.
    #[must_use]
    pub fn report(&self) -> String {
        self.0.report()
    }
}

/// The rate of a workload's operations in a time, in the unit of its program (Mbits/sec for `iperf`); `None` for a workload that reports
/// no rate.
#[must_use]
pub fn rate(workload: &str, operations: u64, time: Nanos) -> Option<f64> {
    rate_of(workload).map(|rate| rate.of(operations, time))
}
