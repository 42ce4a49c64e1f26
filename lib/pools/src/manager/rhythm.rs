//! When to measure: at long intervals while no thread waits; at once when a thread waits or the pools have changed.

use millpond_machine::facets::{UsageWatch, WakeReason};
use millpond_machine::{Clock, Refusal};
use millpond_model::Nanos;

/// The first measuring interval of the reactive policy after a wake-up.
pub const FAST: Nanos = Nanos::from_millis(50);

/// The time between two turns while threads keep waiting.
pub const PRESSED: Nanos = Nanos::from_millis(100);

/// The interval of the reactive policy without wake-ups.
pub const SLOW: Nanos = Nanos::from_millis(1000);

/// The default interval of poold(8) of Solaris.
pub const SOLARIS: Nanos = Nanos::from_millis(15_000);

/// The schedule of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// The interval without pressure.
    pub interval: Nanos,
    /// Whether pressure ends a wait.
    pub wakes: bool,
}

impl Rhythm {
    /// The rhythm of a policy: the configured interval, else that of the policy.
    #[must_use]
    pub fn of(policy: &str, asked_ms: Option<u64>) -> Rhythm {
        let reacts = policy != "solaris";
        let usual = if reacts { SLOW } else { SOLARIS };
        let interval = asked_ms.map_or(usual, |ms| Nanos(ms.saturating_mul(1_000_000)));
        Rhythm { interval, wakes: reacts }
    }

    /// The effect of threads that wait at `now` on an interval that began at `began`.
    #[must_use]
    pub fn on_pressure(began: Nanos, now: Nanos) -> OnPressure {
        if (now - began).0 > 2 * PRESSED.0 {
            OnPressure::Again(FAST)
        } else {
            OnPressure::Until(began + PRESSED)
        }
    }

    /// Waits for the end of the interval that begins at `began`, and returns whether a new interval must be started. After a long quiet
    /// time a short wait for CPUs would be averaged away: the interval is then discarded, and a short one follows. A new configuration
    /// counts as pressure if `is_news` says that it differs: a pool may want its first CPU.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    pub fn wait(
        self,
        clock: &dyn Clock,
        watch: &mut dyn UsageWatch,
        began: Nanos,
        end: Option<Nanos>,
        is_news: &dyn Fn() -> bool,
    ) -> Result<Wait, Refusal> {
        let until = |after: u64| {
            let deadline = Nanos(began.0.saturating_add(after));
            end.map_or(deadline, |end| deadline.min(end))
        };
        if !self.wakes {
            clock.sleep_until(until(self.interval.0));
            return Ok(Wait::Over);
        }
        loop {
            match watch.wait(until(self.interval.0)) {
                WakeReason::Deadline => return Ok(Wait::Over),
                WakeReason::Changed if !is_news() => {}
                WakeReason::Pressure | WakeReason::Changed => {
                    match Rhythm::on_pressure(began, clock.now()) {
                        OnPressure::Again(length) => return Ok(Wait::Again(length)),
                        OnPressure::Until(_) => clock.sleep_until(until(PRESSED.0)),
                    }
                    return Ok(Wait::Over);
                }
            }
        }
    }
}

/// The effect of threads that begin to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPressure {
    /// The interval has been quiet for long: a new one begins, with this length.
    Again(Nanos),
    /// The interval ends at this time.
    Until(Nanos),
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The interval is over.
    Over,
    /// A new interval begins, with this length.
    Again(Nanos),
}
