//! Statistics of pairs: medians, and intervals without assumptions about the distribution.
//!
//! A pair is one measurement of ours and one of the peer, one right after the other. The ratio is computed within the pair, so that
//! a temporary slowdown of the machine affects both. Over the pairs the median is reported, with an interval that contains the
//! true median in 95 of 100 cases. Its ends are two of the sorted values, at ranks that follow from the binomial distribution with
//! p = 1/2. Nothing is random, so the same numbers always give the same interval.

use serde::Serialize;

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// A median with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The middle value.
    pub median: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The median, and its 95 % interval. `None` with fewer than six values, for which there is no such interval, or if a value
/// is not a number.
#[must_use]
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    if sorted.iter().any(|value| !value.is_finite()) {
        return None;
    }
    sorted.sort_by(f64::total_cmp);
    let rank = rank_below_median(sorted.len())?;
    Some(Estimate { median: median(&sorted), low: sorted[rank], high: sorted[sorted.len() - 1 - rank] })
}

/// The median of sorted values; 0 without values.
#[must_use]
pub fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// The median of values in any order.
#[must_use]
pub fn median_of(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median(&sorted)
}

/// Ours divided by the peer's, pair by pair.
#[must_use]
pub fn ratios(ours: &[f64], peer: &[f64]) -> Vec<f64> {
    ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect()
}

/// The largest index `k` (from 0) for which the sorted values `k` and `n - 1 - k` enclose the median with the required
/// confidence: the probability that at most `k` of `n` values are below it is at most 2.5 %.
fn rank_below_median(count: usize) -> Option<usize> {
    let n = f64::from(u32::try_from(count).ok()?);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    // P(exactly k of n) for k = 0, by logarithms, because 2^-n is 0 for large n.
    let mut log_term = -n * std::f64::consts::LN_2;
    let mut sum = 0.0;
    let mut best = None;
    for k in 0..count {
        sum += log_term.exp();
        if sum > tail {
            break;
        }
        best = Some(k);
        let step = f64::from(u32::try_from(k).ok()?);
        log_term += ((n - step) / (step + 1.0)).ln();
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ranks_are_those_of_the_tables() {
        // Published ranks (counted from 1) of the two-sided 95 % interval of a median.
        for (count, lower) in
            [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (50, 18), (100, 40)]
        {
            assert_eq!(rank_below_median(count), Some(lower - 1), "{count}");
        }
    }

    #[test]
    fn with_five_values_there_is_no_interval() {
        assert_eq!(rank_below_median(5), None);
        assert_eq!(estimate(&[1.0; 5]), None);
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn a_value_that_is_no_number_gives_no_estimate() {
        assert_eq!(estimate(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, f64::NAN]), None);
        assert_eq!(estimate(&ratios(&[1.0; 6], &[0.0; 6])), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median_of(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median_of(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median_of(&[]).abs() < 1e-12);
    }

    /// Numbers from a seed, uniform over 0..1 (a xorshift generator, good enough for counting).
    fn numbers(seed: u64, count: usize) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn the_interval_holds_the_median_as_often_as_it_says() {
        let runs = 2000;
        let holds = (1..=runs)
            .filter(|&seed| {
                let it = estimate(&numbers(seed, 20)).unwrap();
                it.low <= 0.5 && 0.5 <= it.high
            })
            .count();
        // 95.9 % with 20 values; four standard errors of 2,000 runs are 1.8 %.
        assert!((1880..=1960).contains(&holds), "{holds} of {runs}");
    }

    proptest! {
        #[test]
        fn the_median_lies_within_its_interval_and_both_within_the_values(
            values in proptest::collection::vec(-1e6_f64..1e6, 6..80),
        ) {
            let it = estimate(&values).unwrap();
            prop_assert!(it.low <= it.median && it.median <= it.high);
            prop_assert!(values.contains(&it.low) && values.contains(&it.high));
        }

        #[test]
        fn order_does_not_matter_and_scale_passes_through(
            values in proptest::collection::vec(0.1_f64..1e6, 6..40),
            factor in 1_u8..9,
        ) {
            let factor = f64::from(factor);
            let reversed: Vec<f64> = values.iter().rev().map(|v| v * factor).collect();
            let (one, other) = (estimate(&values).unwrap(), estimate(&reversed).unwrap());
            prop_assert!((one.median * factor - other.median).abs() <= 1e-9 * other.median);
            prop_assert!((one.low * factor - other.low).abs() <= 1e-9 * other.low);
            prop_assert!((one.high * factor - other.high).abs() <= 1e-9 * other.high);
        }

        #[test]
        fn more_values_never_need_a_rank_further_out(count in 6_usize..400) {
            let (here, next) = (rank_below_median(count).unwrap(), rank_below_median(count + 1).unwrap());
            prop_assert!(here <= next && 2 * next < count + 1);
        }
    }
}
