//! When to measure: slowly while no thread waits, at once when one does, or when the pools became others.

use millpond_machine::facets::{UsageWatch, WakeReason};
use millpond_machine::{Clock, Refusal};
use millpond_model::Nanos;

/// How long the policy that reacts at once measures after it was woken.
pub const FAST: Nanos = Nanos::from_millis(50);

/// Between two turns while threads keep waiting.
pub const PRESSED: Nanos = Nanos::from_millis(100);

/// What the policy that reacts at once does without being woken.
pub const SLOW: Nanos = Nanos::from_millis(1000);

/// The default interval of the daemon of Solaris (reference §13.1).
pub const SOLARIS: Nanos = Nanos::from_millis(15_000);

/// The rhythm of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// Without pressure.
    pub interval: Nanos,
    /// Pressure ends a wait.
    pub wakes: bool,
}

impl Rhythm {
    /// The rhythm of a policy: the interval that is asked for, else its own.
    #[must_use]
    pub fn of(policy: &str, asked_ms: Option<u64>) -> Rhythm {
        let reacts = policy != "solaris";
        let usual = if reacts { SLOW } else { SOLARIS };
        let interval = asked_ms.map_or(usual, |ms| Nanos(ms.saturating_mul(1_000_000)));
        Rhythm { interval, wakes: reacts }
    }

    /// What threads that wait at `now` change about an interval that began at `began`.
    #[must_use]
    pub fn on_pressure(began: Nanos, now: Nanos) -> OnPressure {
        if (now - began).0 > 2 * PRESSED.0 {
            OnPressure::Again(FAST)
        } else {
            OnPressure::Until(began + PRESSED)
        }
    }

    /// Waits for the end of the next interval that begins at `began`. After a long quiet time the wait for processors of a moment would be lost in the
    /// mean of the interval: so a look is thrown away, and a short interval follows. Gives whether the interval began anew. A configuration that
    /// was written counts as pressure when `is_news` says that it is another one: a pool may want its first CPU.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
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

/// What follows when threads begin to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPressure {
    /// The interval has been quiet for long: it begins anew, and is so long.
    Again(Nanos),
    /// It ends then.
    Until(Nanos),
}

/// What follows a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The interval is over.
    Over,
    /// It begins anew, and is so long.
    Again(Nanos),
}
