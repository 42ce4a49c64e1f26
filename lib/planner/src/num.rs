//! Counts to reals, in one place.

use millpond_model::Nanos;

/// A count as a real.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 processors")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// How often `part` goes into `whole`; 0 when there is no whole.
pub(crate) fn ratio(part: Nanos, whole: Nanos) -> f64 {
    if whole.0 == 0 { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_nothing_is_nothing() {
        assert!(ratio(Nanos(5), Nanos(0)).abs() < 1e-12);
        assert!((ratio(Nanos(1), Nanos(4)) - 0.25).abs() < 1e-12);
    }
}
