//! Real time, for those that wait for people while a simulated machine has a time of its own.

use millpond_model::Nanos;
use std::thread;
use std::time::{Duration, Instant};

/// Counts real time from its beginning on.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// From now on.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since then.
    #[must_use]
    pub fn elapsed(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Sleeps until this much time has passed since then.
    pub fn sleep_until(self, time: Nanos) {
        thread::sleep(Duration::from_nanos(time.0).saturating_sub(self.0.elapsed()));
    }
}
