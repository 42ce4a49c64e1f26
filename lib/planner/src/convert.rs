//! Conversions between counts and floating-point numbers.

use millpond_model::Nanos;

/// A count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 CPUs")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// The smallest count that is not below `value`; NaN gives 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "kept within bounds")]
pub(crate) fn up(value: f64) -> usize {
    value.ceil().clamp(0.0, 1e9) as usize
}

/// The largest count that is not above `value`; NaN gives 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "kept within bounds")]
pub(crate) fn down(value: f64) -> usize {
    value.floor().clamp(0.0, 1e9) as usize
}

/// An importance as a weight; negative values give 0.
#[expect(clippy::cast_precision_loss, reason = "a weight needs few digits")]
pub(crate) fn weight(importance: i64) -> f64 {
    importance.max(0) as f64
}

/// The quotient `part / whole`; 0 if `whole` is 0.
pub(crate) fn ratio(part: Nanos, whole: Nanos) -> f64 {
    if whole.0 == 0 { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

/// Seconds as a duration; NaN gives 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to u64 saturates")]
pub(crate) fn span(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_within_bounds() {
        assert_eq!((up(2.1), up(-1.0), span(0.5), span(f64::NAN)), (3, 0, Nanos(500_000_000), Nanos(0)));
        assert_eq!((down(2.9), down(-1.0), down(f64::NAN), down(f64::INFINITY)), (2, 0, 0, 1_000_000_000));
    }

    #[test]
    fn a_part_of_nothing_is_nothing() {
        assert!(ratio(Nanos(5), Nanos(0)).abs() < 1e-12);
        assert!((ratio(Nanos(1), Nanos(4)) - 0.25).abs() < 1e-12);
    }
}
