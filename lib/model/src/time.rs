//! Instants and durations. There are two clocks, which are never mixed: a monotonic one in nanoseconds, and the wall clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds: a span, or an instant on a machine's monotonic clock.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// In seconds, for rates.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate needs 15 digits at most")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

/// Never below zero: clocks that are read in the wrong order give an empty duration.
impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.as_secs_f64())
    }
}

/// Wall-clock time: seconds since 1970-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(pub i64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_span_added_and_taken_away_leaves_the_instant(a in 0u64..u64::MAX / 2, b in 0u64..u64::MAX / 2) {
            prop_assert_eq!(Nanos(a) + Nanos(b) - Nanos(b), Nanos(a));
        }

        #[test]
        fn spans_never_underflow(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!((Nanos(a) - Nanos(b)).0, a.saturating_sub(b));
        }
    }

    #[test]
    fn spans_print_in_seconds() {
        assert_eq!(Nanos::from_millis(1500).to_string(), "1.500 s");
    }
}
