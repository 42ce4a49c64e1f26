//! Real time, for waiting on users while a simulated machine has its own time.

use millpond_model::Nanos;
use std::thread;
use std::time::{Duration, Instant};

/// Measures real time from its creation.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Sleeps until this much time has passed since the start.
    pub fn sleep_until(self, time: Nanos) {
        thread::sleep(Duration::from_nanos(time.0).saturating_sub(self.0.elapsed()));
    }
}
