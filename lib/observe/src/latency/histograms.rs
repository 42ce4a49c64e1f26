//! Histograms of waits, one for each stage and one for the whole.

use hdrhistogram::Histogram;
use millpond_model::{LATENCY_ROWS, LATENCY_STAGES, LatencySample, Nanos};

/// The quantiles of a row.
pub const QUANTILES: [(&str, f64); 6] = [
    ("median", 0.5),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
    ("p99.9999", 0.999_999),
];

/// The longest wait that has a place of its own; longer ones count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Digits of a value.
const DIGITS: u8 = 3;

/// Histograms of all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies {
    rows: [Histogram<u64>; LATENCY_ROWS.len()],
    /// Samples that found no room on their way, and are in no row.
    pub lost: u64,
}

/// What one row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// How many samples there are.
    pub samples: u64,
    /// The shortest.
    pub min: Nanos,
    /// By [`QUANTILES`]; none where too few samples lie beyond.
    pub quantiles: [Option<Nanos>; QUANTILES.len()],
    /// The longest.
    pub max: Nanos,
}

impl Default for Latencies {
    fn default() -> Self {
        let row = || Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        let row = || row().expect("a histogram takes these bounds, which are constants");
        Latencies { rows: std::array::from_fn(|_| row()), lost: 0 }
    }
}

impl Latencies {
    /// Adds a sample.
    pub fn record(&mut self, sample: &LatencySample) {
        self.add(LATENCY_STAGES, sample.total().0, 1);
        for (row, stage) in sample.stages().iter().flatten().enumerate() {
            stage.iter().for_each(|stage| self.add(row, stage.0, 1));
        }
    }

    /// Adds so many samples of a value to a row; there is nothing to be added to a row that does not exist.
    pub(super) fn add(&mut self, row: usize, value_ns: u64, count: u64) {
        if let Some(row) = self.rows.get_mut(row).filter(|_| count > 0) {
            row.saturating_record_n(value_ns, count);
        }
    }

    /// Adds everything that another run measured.
    pub fn merge(&mut self, other: &Latencies) {
        for row in 0..LATENCY_ROWS.len() {
            for (value, count) in other.recorded(row) {
                self.add(row, value.0, count);
            }
        }
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// The values of a row with the number of their samples, ascending: each stands for those that have the same three digits, of which it is the
    /// greatest.
    pub fn recorded(&self, row: usize) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let row = self.rows.get(row).into_iter();
        row.flat_map(|row| {
            row.iter_recorded().map(|step| (Nanos(step.value_iterated_to()), step.count_at_value()))
        })
    }

    /// Samples altogether.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.rows[LATENCY_STAGES].len()
    }

    /// Samples whose stages were not seen.
    #[must_use]
    pub fn unstaged(&self) -> u64 {
        self.samples().saturating_sub(self.rows[0].len())
    }

    /// What a row says; `None` when it has no samples.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<Row> {
        let row = self.rows.get(row).filter(|row| !row.is_empty())?;
        let samples = row.len();
        let quantile = |(_, q): (&str, f64)| {
            #[expect(clippy::cast_precision_loss, reason = "whether there is one beyond needs few digits")]
            let beyond = (1.0 - q) * samples as f64;
            // A hair of slack: 1 - 0.99 is not quite a hundredth.
            (beyond > 0.999_999).then(|| Nanos(row.value_at_quantile(q).min(row.max())))
        };
        let quantiles = QUANTILES.map(quantile);
        Some(Row { samples, min: Nanos(row.min()), quantiles, max: Nanos(row.max()) })
    }

    /// How many samples of the whole took longer.
    #[must_use]
    pub fn above(&self, limit: Nanos) -> u64 {
        self.recorded(LATENCY_STAGES).filter(|(value, _)| *value > limit).map(|(_, count)| count).sum()
    }

    /// What the stages add up to on the average, as a part of the whole; of samples whose stages were seen. `None` where there are none.
    #[must_use]
    pub fn balance(&self) -> Option<f64> {
        if self.unstaged() > 0 || self.samples() == 0 {
            return None;
        }
        let whole = self.rows[LATENCY_STAGES].mean();
        let stages: f64 = self.rows[..LATENCY_STAGES].iter().map(Histogram::mean).sum();
        (whole > 0.0).then(|| stages / whole)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sample with these stages.
    pub(crate) fn staged(stages: [u64; LATENCY_STAGES]) -> LatencySample {
        let mut at = 1_000_000;
        let points = stages.map(|stage| {
            at += stage;
            Nanos(at)
        });
        LatencySample { due: Nanos(1_000_000), stamps: [points[0], points[1], points[2]], user: points[3] }
    }

    pub(crate) fn of(samples: &[[u64; LATENCY_STAGES]]) -> Latencies {
        let mut latencies = Latencies::default();
        samples.iter().for_each(|stages| latencies.record(&staged(*stages)));
        latencies
    }

    #[test]
    fn a_row_has_its_quantiles_as_far_as_samples_reach() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|us| latencies.add(LATENCY_STAGES, us * 1000, 1));
        let row = latencies.row(LATENCY_STAGES).unwrap();
        let near = |is: Nanos, us: u64| is.0.abs_diff(us * 1000) <= us * 2;
        assert!(near(row.min, 1) && near(row.max, 1000), "{row:?}");
        let [median, p99, p999, rest @ ..] = row.quantiles.map(|q| q.map(|n| n.0 / 1000));
        assert_eq!((median, p99, p999), (Some(500), Some(990), Some(999)));
        assert_eq!(rest, [None; 3]);
        assert_eq!((latencies.samples(), latencies.unstaged()), (1000, 1000));
        assert_eq!((latencies.row(0), latencies.row(9), latencies.balance()), (None, None, None));
        assert_eq!(latencies.above(Nanos(990_500)), 10);
    }

    #[test]
    fn what_is_longer_than_an_hour_counts_as_one() {
        let latencies = of(&[[0, 0, 0, u64::MAX / 2]]);
        let row = latencies.row(LATENCY_STAGES).unwrap();
        assert!(row.max.0.abs_diff(LONGEST_NS) < LONGEST_NS / 500);
    }

    proptest! {
        // Walking through a histogram of an hour takes its time.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn stages_add_up_to_the_whole_within_one_percent(samples in proptest::collection::vec(proptest::array::uniform4(1..1u64 << 30), 1..50)) {
            let balance = of(&samples).balance().unwrap();
            prop_assert!((balance - 1.0).abs() < 0.01, "{}", balance);
        }

        #[test]
        fn merging_is_the_same_as_measuring_at_once(
            a in proptest::collection::vec(proptest::array::uniform4(0..1u64 << 34), 0..40),
            b in proptest::collection::vec(proptest::array::uniform4(0..1u64 << 34), 0..40),
        ) {
            let all: Vec<_> = a.iter().chain(&b).copied().collect();
            let (mut ab, mut ba) = (of(&a), of(&b));
            ab.merge(&of(&b));
            ba.merge(&of(&a));
            let values = |l: &Latencies| (0..LATENCY_ROWS.len()).map(|row| l.recorded(row).collect::<Vec<_>>()).collect::<Vec<_>>();
            prop_assert_eq!(values(&ab), values(&of(&all)));
            prop_assert_eq!(values(&ab), values(&ba));
        }

        #[test]
        fn a_quantile_is_within_a_thousandth_of_the_sample_that_it_is(totals in proptest::collection::vec(1..1u64 << 40, 1..200)) {
            let mut latencies = Latencies::default();
            totals.iter().for_each(|total| latencies.add(LATENCY_STAGES, *total, 1));
            let mut sorted = totals.clone();
            sorted.sort_unstable();
            let row = latencies.row(LATENCY_STAGES).unwrap();
            if let Some(median) = row.quantiles[0] {
                let exact = sorted[(sorted.len() - 1) / 2];
                prop_assert!(median.0.abs_diff(exact) <= exact / 500 + 1, "{} {}", median.0, exact);
            }
            prop_assert!(row.max.0.abs_diff(sorted[sorted.len() - 1]) <= row.max.0 / 500 + 1);
            prop_assert!(row.min <= row.max);
        }
    }
}
