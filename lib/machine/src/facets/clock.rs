//! Time. Every wait is on the machine's clock, so that a simulated day takes a second.

use millpond_model::{Nanos, WallTime};

/// A machine's clock.
pub trait Clock {
    /// Monotonic, since boot.
    fn now(&self) -> Nanos;
    /// The wall.
    fn wall(&self) -> WallTime;
    /// When the machine was booted, on the wall.
    fn booted(&self) -> WallTime;
    /// Waits until `deadline` of [`Clock::now`]; returns at once when it has passed. Returns early when the
    /// program is asked to stop.
    fn sleep_until(&self, deadline: Nanos);
}
