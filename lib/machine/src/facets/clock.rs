//! Time. Every wait uses the machine's clock, so that a simulated day takes a second.

use millpond_model::{Nanos, WallTime};

/// A machine's clock.
pub trait Clock {
    /// The monotonic time since boot.
    fn now(&self) -> Nanos;
    /// The wall-clock time.
    fn wall(&self) -> WallTime;
    /// The wall-clock time of the boot.
    fn booted(&self) -> WallTime;
    /// Waits until `deadline` of [`Clock::now`]; returns at once if it has passed. Returns early if the program is asked to stop.
    fn sleep_until(&self, deadline: Nanos);
}
