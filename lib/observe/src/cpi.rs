//! Counts of events to figures: differences, scaling, and cycles for an instruction with their distribution.

use millpond_model::Counted;

/// What was counted in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Counts, scaled to the whole interval; `None` where counters never counted in it.
    pub counts: Option<Vec<u64>>,
    /// The share of the interval in which they counted, 0 to 1. Below 1 the counts are estimates.
    pub share: f64,
}

/// The difference of two readings. A counter that went back counts from zero. What was not wanted at all (a thread that did not run) was counted
/// in full: nothing happened.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are not negative, and what exceeds the range saturates"
)]
pub fn between(before: &Counted, after: &Counted) -> Interval {
    let wanted = after.wanted.0.saturating_sub(before.wanted.0);
    let counting = after.counting.0.saturating_sub(before.counting.0).min(wanted);
    let zero = |at: usize| before.values.get(at).copied().unwrap_or(0);
    let deltas = after.values.iter().enumerate().map(|(at, value)| value.saturating_sub(zero(at)));
    if counting == wanted {
        return Interval { counts: Some(deltas.collect()), share: 1.0 };
    }
    let share = counting as f64 / wanted as f64;
    let scaled = |delta: u64| (delta as f64 / share).round() as u64;
    Interval { counts: (counting > 0).then(|| deltas.map(scaled).collect()), share }
}

/// Cycles for each instruction; nothing without instructions.
#[must_use]
pub fn cycles_per_instruction(cycles: u64, instructions: u64) -> Option<f64> {
    (instructions > 0).then(|| cycles as f64 / instructions as f64)
}

/// A distribution of values.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Distribution {
    /// The number of values.
    pub samples: usize,
    /// The minimum.
    #[serde(serialize_with = "crate::digits::millionths")]
    pub min: f64,
    /// The median, by nearest rank.
    #[serde(serialize_with = "crate::digits::millionths")]
    pub median: f64,
    /// The 90th percentile, by nearest rank.
    #[serde(serialize_with = "crate::digits::millionths")]
    pub p90: f64,
    /// The 99th percentile, by nearest rank.
    #[serde(serialize_with = "crate::digits::millionths")]
    pub p99: f64,
    /// The maximum.
    #[serde(serialize_with = "crate::digits::millionths")]
    pub max: f64,
}

impl Distribution {
    /// Of values in any order, by nearest rank. `None` of none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Distribution> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        // The rank of a hundredth is rounded up, and counts from 1.
        let at = |hundredths: usize| sorted[(sorted.len() * hundredths).div_ceil(100).max(1) - 1];
        Some(Distribution { samples: sorted.len(), min, median: at(50), p90: at(90), p99: at(99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::Nanos;
    use proptest::prelude::*;

    fn counted(values: &[u64], wanted: u64, counting: u64) -> Counted {
        Counted { values: values.to_vec(), wanted: Nanos(wanted), counting: Nanos(counting) }
    }

    #[test]
    fn what_was_counted_all_the_time_is_exact() {
        let interval = between(&counted(&[10, 20], 100, 100), &counted(&[u64::MAX, 25], 200, 200));
        assert_eq!(interval, Interval { counts: Some(vec![u64::MAX - 10, 5]), share: 1.0 });
    }

    #[test]
    fn what_was_counted_for_a_part_is_scaled_to_the_whole() {
        let interval = between(&counted(&[10], 100, 100), &counted(&[15], 200, 125));
        assert_eq!(interval, Interval { counts: Some(vec![20]), share: 0.25 });
    }

    #[test]
    fn what_was_never_counted_is_not_zero() {
        let interval = between(&counted(&[10], 100, 100), &counted(&[10], 200, 100));
        assert_eq!(interval, Interval { counts: None, share: 0.0 });
        // No thread ran, so nothing was missed.
        let interval = between(&counted(&[10], 100, 100), &counted(&[10], 100, 100));
        assert_eq!(interval, Interval { counts: Some(vec![0]), share: 1.0 });
    }

    #[test]
    fn without_instructions_there_are_no_cycles_for_each() {
        assert_eq!(cycles_per_instruction(5, 0), None);
        assert_eq!(cycles_per_instruction(5, 2), Some(2.5));
    }

    #[test]
    fn ranks_are_the_nearest_from_above() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let expected = Distribution { samples: 10, min: 1.0, median: 5.0, p90: 9.0, p99: 10.0, max: 10.0 };
        assert_eq!(Distribution::of(&values), Some(expected));
        assert_eq!(Distribution::of(&[]), None);
        assert_eq!(Distribution::of(&[2.0]).map(|d| (d.min, d.p99)), Some((2.0, 2.0)));
    }

    proptest! {
        #[test]
        fn a_distribution_ascends_and_has_only_values_that_were_there(
            values in proptest::collection::vec(0.0f64..100.0, 1..50)
        ) {
            let d = Distribution::of(&values).unwrap();
            let ranks = [d.min, d.median, d.p90, d.p99, d.max];
            prop_assert!(ranks.windows(2).all(|two| two[0] <= two[1]));
            prop_assert!(ranks.iter().all(|rank| values.contains(rank)));
            let below = values.iter().filter(|value| **value <= d.p90).count();
            prop_assert!(below * 10 >= values.len() * 9);
        }

        #[test]
        fn scaling_never_counts_less(delta in 0u64..1 << 40, wanted in 1u64..1 << 40, part in 1u64..1 << 40) {
            let counting = part.min(wanted);
            let interval = between(&counted(&[0], 0, 0), &counted(&[delta], wanted, counting));
            prop_assert!(interval.counts.unwrap()[0] >= delta);
        }
    }
}
