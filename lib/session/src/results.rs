//! What programs of a simulated machine achieved, in their own units.

use millpond_model::{Nanos, Pid};
use millpond_sim::results::{self, rate_of};

/// What a program achieved in a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Achieved(pub(crate) results::Achieved);

impl Achieved {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.0.pid
    }

    /// What its process is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How long it counted.
    #[must_use]
    pub fn time(&self) -> Nanos {
        self.0.time
    }

    /// What it achieved since an earlier look at the same program.
    #[must_use]
    pub fn since(&self, before: &Achieved) -> Achieved {
        Achieved(self.0.since(&before.0))
    }

    /// The figure as the program writes it; nothing where it has none yet.
    #[must_use]
    pub fn figure(&self) -> Option<String> {
        self.0.figure()
    }

    /// What the program says at its end.
    #[must_use]
    pub fn report(&self) -> String {
        self.0.report()
    }
}

/// So many operations of a workload in so much time, in the unit of its program (Mbits/sec of `iperf`); nothing for a workload that
/// reports no rate.
#[must_use]
pub fn rate(workload: &str, operations: u64, time: Nanos) -> Option<f64> {
    rate_of(workload).map(|rate| rate.of(operations, time))
}
