//! Utilization samples of a set, as in poold(8) of Solaris.

use millpond_model::{CpuSet, PsetId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The number of samples kept.
const KEPT: usize = 50;

/// The number of samples from which on they are valid.
const VALID: usize = 5;

/// The number of consecutive samples on one side of the mean that shows a permanent change of the load.
const ONE_SIDE: usize = 9;

/// Utilization of one set, percent, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Samples {
    pub set: PsetId,
    /// The members during the measurement.
    pub cpus: CpuSet,
    /// Whether the interval in which members changed is over.
    has_baseline: bool,
    values: VecDeque<f64>,
}

impl Samples {
    pub fn new(set: PsetId, cpus: CpuSet) -> Samples {
        Samples { set, cpus, has_baseline: false, values: VecDeque::new() }
    }

    /// Adds a value. The first value is of the interval in which members changed: it is dropped.
    pub fn push(&mut self, value: f64) {
        if !self.has_baseline {
            self.has_baseline = true;
            return;
        }
        while self.values.len() >= KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// Discards the samples; the members stay.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    pub fn are_valid(&self) -> bool {
        self.values.len() >= VALID
    }

    /// The latest.
    pub fn last(&self) -> Option<f64> {
        self.values.back().copied()
    }

    fn mean(&self) -> f64 {
        let count = crate::convert::real(self.values.len().max(1));
        self.values.iter().sum::<f64>() / count
    }

    /// The population standard deviation of the samples.
    pub fn sigma(&self) -> f64 {
        let (mean, count) = (self.mean(), crate::convert::real(self.values.len().max(1)));
        (self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
    }

    /// Whether the last nine samples are all above the mean, or all below it.
    pub fn lean_to_one_side(&self) -> bool {
        let mean = self.mean();
        let last = || self.values.iter().rev().take(ONE_SIDE);
        self.values.len() >= ONE_SIDE
            && (last().all(|value| *value > mean) || last().all(|value| *value < mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        let mut samples = Samples::new(PsetId(1), CpuSet::first(4));
        samples.push(99.0);
        values.iter().for_each(|value| samples.push(*value));
        samples
    }

    #[test]
    fn the_first_value_is_a_baseline() {
        assert_eq!(samples(&[]).last(), None);
        assert_eq!(samples(&[7.0]).last(), Some(7.0));
    }

    #[test]
    fn sigma_is_that_of_the_population() {
        // Mean 30; squares 400 + 100 + 0 + 100 + 400 = 1000; 1000 / 5 = 200.
        let five = samples(&[10.0, 20.0, 30.0, 40.0, 50.0]);
        assert!((five.sigma() - 200f64.sqrt()).abs() < 1e-9);
        assert!(five.are_valid());
        assert!(!samples(&[10.0; 4]).are_valid());
    }

    #[test]
    fn the_latest_fifty_are_kept() {
        let values: Vec<f64> = (0..60u8).map(f64::from).collect();
        let kept = samples(&values);
        assert_eq!(kept.values.len(), 50);
        assert_eq!((kept.values.front().copied(), kept.last()), (Some(10.0), Some(59.0)));
    }

    #[test]
    fn nine_in_a_row_on_one_side_of_the_mean_are_a_change() {
        // One 0 and nine times 10: the mean is 9.
        let mut values = vec![0.0];
        values.extend([10.0; 8]);
        assert!(!samples(&values).lean_to_one_side(), "eight");
        values.push(10.0);
        assert!(samples(&values).lean_to_one_side());
        assert!(samples(&[20.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0]).lean_to_one_side());
        assert!(!samples(&[50.0; 20]).lean_to_one_side(), "on the mean is on no side");
    }
}
