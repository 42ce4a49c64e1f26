//! Histograms of times: eight buckets per power of two, so that the bounds of a bucket are 9 % apart.
//!
//! Bounds are 2^(i/8) seconds. This is schema 3 of native histograms of Prometheus, so the conversion splits no bucket. To find the
//! bucket of a time, it is converted to units of 2^-30 s (0.93 ns) with integer arithmetic, so that a BPF program finds the same bucket
//! (`lib/bpf/include/histogram.bpf.h`).

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// The number of buckets: the first ends at 2^-30 s, the last at 16 s; longer times count in the last one.
pub const HISTOGRAM_BUCKETS: usize = 8 * OCTAVES as usize + 1;

/// Buckets per power of two.
const IN_OCTAVE: i32 = 8;
const OCTAVES: u32 = 34;

/// Bucket 0 ends at 2^-30 s, this one at 1 s.
const OF_A_SECOND: i32 = 30 * IN_OCTAVE;

/// 2^(31 + k/8) rounded down: a 32-bit number is above bound k of its power of two if it is greater.
const BOUNDS: [u64; 8] = [
    2_147_483_648,
    2_341_847_523,
    2_553_802_833,
    2_784_941_737,
    3_037_000_499,
    3_311_872_529,
    3_611_622_602,
    3_938_502_375,
];

/// A histogram of durations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Histogram {
    /// The nonempty buckets, ascending, with their counts.
    buckets: Vec<(u16, u64)>,
    /// The sum of all times.
    sum: Nanos,
}

/// The buckets and the sum, as stored in files.
type Parts = (Vec<(u16, u64)>, Nanos);

impl From<Histogram> for Parts {
    fn from(histogram: Histogram) -> Parts {
        (histogram.buckets, histogram.sum)
    }
}

impl TryFrom<Parts> for Histogram {
    type Error = &'static str;

    fn try_from((buckets, sum): Parts) -> Result<Histogram, &'static str> {
        Histogram::of_buckets(buckets, sum).ok_or("the buckets of a histogram are out of order")
    }
}

impl Histogram {
    /// From the counts of all buckets, first one first.
    #[must_use]
    pub fn of_counts(counts: impl IntoIterator<Item = u64>, sum: Nanos) -> Histogram {
        let known = (0u16..).zip(counts).take(HISTOGRAM_BUCKETS);
        Histogram { buckets: known.filter(|(_, count)| *count > 0).collect(), sum }
    }

    /// From nonempty buckets. `None` if they are not ascending, are empty, or exceed the last one.
    #[must_use]
    pub fn of_buckets(buckets: Vec<(u16, u64)>, sum: Nanos) -> Option<Histogram> {
        let ascends = buckets.is_sorted_by(|(a, _), (b, _)| a < b);
        let is_known = |(bucket, count): &(u16, u64)| usize::from(*bucket) < HISTOGRAM_BUCKETS && *count > 0;
        (ascends && buckets.iter().all(is_known)).then_some(Histogram { buckets, sum })
    }

    /// Adds a time.
    pub fn record(&mut self, time: Nanos) {
        self.add(Histogram::bucket(time), 1);
        self.sum = Nanos(self.sum.0.saturating_add(time.0));
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        other.buckets.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
        self.sum = Nanos(self.sum.0.saturating_add(other.sum.0));
    }

    fn add(&mut self, bucket: u16, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// The difference to an earlier histogram. If it is not earlier, counts stop at 0.
    #[must_use]
    pub fn since(&self, before: &Histogram) -> Histogram {
        let old = |bucket: u16| {
            let at = before.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
            at.map_or(0, |at| before.buckets[at].1)
        };
        let more = self.buckets.iter().map(|(bucket, count)| (*bucket, count.saturating_sub(old(*bucket))));
        Histogram { buckets: more.filter(|(_, count)| *count > 0).collect(), sum: self.sum - before.sum }
    }

    /// The nonempty buckets, ascending, with their counts; their bounds are in [`Histogram::bound_s`].
    #[must_use]
    pub fn buckets(&self) -> &[(u16, u64)] {
        &self.buckets
    }

    /// The sum of all times.
    #[must_use]
    pub fn sum(&self) -> Nanos {
        self.sum
    }

    /// The number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The upper bound of the bucket that contains the quantile, in seconds: at most 9 % too high. `None` if less than one time
    /// lies above the quantile.
    #[must_use]
    pub fn quantile_s(&self, quantile: f64) -> Option<f64> {
        let all = self.count();
        #[expect(clippy::cast_precision_loss, reason = "a part of a count needs few digits")]
        let beyond = (1.0 - quantile) * all as f64;
        // A tolerance: 1 - 0.99 is not exactly 0.01 in floating point.
        if all == 0 || beyond < 0.999_999 {
            return None;
        }
        let mut left = all;
        let reaches = |(_, count): &&(u16, u64)| {
            left -= *count;
            #[expect(clippy::cast_precision_loss, reason = "as above")]
            let is_reached = left as f64 <= beyond;
            is_reached
        };
        self.buckets.iter().find(reaches).map(|(bucket, _)| Histogram::bound_s(*bucket))
    }

    /// The upper bound of the highest nonempty bucket, in seconds. `None` for an empty histogram.
    #[must_use]
    pub fn longest_s(&self) -> Option<f64> {
        self.buckets.last().map(|(bucket, _)| Histogram::bound_s(*bucket))
    }

    /// The bucket of a time.
    #[must_use]
    pub fn bucket(time: Nanos) -> u16 {
        let longest = 1u64 << OCTAVES;
        // 2^30 / 10^9 = 1 + 316718722 / 2^32.
        let ns = time.0.min(longest);
        let units = (ns + ((ns * 316_718_722) >> 32)).clamp(1, longest);
        let octave = units.ilog2();
        let head = (units << (63 - octave)) >> 32;
        let above = BOUNDS.iter().filter(|bound| head > **bound).count();
        u16::try_from(octave as usize * 8 + above).unwrap_or(u16::MAX)
    }

    /// The upper bound of a bucket, in seconds; the bound belongs to the bucket.
    #[must_use]
    pub fn bound_s(bucket: u16) -> f64 {
        (f64::from(Histogram::schema_3(bucket)) / f64::from(IN_OCTAVE)).exp2()
    }

    /// The number of the bucket in schema 3 of native histograms: its upper bound is 2^(i/8) s.
    #[must_use]
    pub fn schema_3(bucket: u16) -> i32 {
        i32::from(bucket) - OF_A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_powers_of_the_eighth_root_of_two() {
        for (k, bound) in BOUNDS.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let power = (31.0 + k as f64 / 8.0).exp2();
            #[expect(clippy::cast_precision_loss, reason = "32 bits")]
            let near = *bound as f64;
            assert!(near <= power && power - near < 1.0, "{k}: {power}");
        }
        assert!((Histogram::bound_s(240) - 1.0).abs() < 1e-12);
        assert!((Histogram::bound_s(248) - 2.0).abs() < 1e-12);
        assert!((Histogram::bound_s(272) - 16.0).abs() < 1e-12);
    }

    #[test]
    fn a_time_lies_within_the_bounds_of_its_bucket() {
        let mut time = 1u64;
        while time < 20_000_000_000 {
            let bucket = Histogram::bucket(Nanos(time));
            let seconds = Nanos(time).as_secs_f64();
            // A unit is slightly shorter than a nanosecond.
            let slack = 1.1e-9;
            if time < 15_900_000_000 {
                assert!(seconds <= Histogram::bound_s(bucket) + slack, "{time}");
            }
            if bucket > 0 {
                assert!(seconds > Histogram::bound_s(bucket - 1) - slack, "{time}");
            }
            time += time / 13 + 1;
        }
        assert_eq!(Histogram::bucket(Nanos(0)), 0);
        assert_eq!(Histogram::bucket(Nanos(u64::MAX)), 272);
        assert_eq!(Histogram::bucket(Nanos::from_secs(1)), 240);
        assert_eq!(Histogram::bucket(Nanos::from_secs(2)), 248);
        // 2^(159/8) us is 0.96 s, 2^(159.2/8): 1 ms is 2^(-79.7/8) s.
        assert_eq!(Histogram::bucket(Nanos::from_millis(1)), 240 - 79);
    }

    #[test]
    fn quantiles_are_known_where_one_lies_beyond() {
        let mut waits = Histogram::default();
        (0..99).for_each(|_| waits.record(Nanos::from_millis(1)));
        waits.record(Nanos::from_secs(1));
        assert_eq!((waits.count(), waits.sum()), (100, Nanos::from_millis(1099)));
        let millisecond = Histogram::bound_s(161);
        assert_eq!(waits.quantile_s(0.5), Some(millisecond));
        assert_eq!(waits.quantile_s(0.99), Some(millisecond));
        assert_eq!(waits.quantile_s(0.999), None);
        assert_eq!(waits.longest_s(), Some(1.0));
        assert_eq!(Histogram::default().quantile_s(0.5), None);
    }

    #[test]
    fn an_interval_is_what_was_added() {
        let mut waits = Histogram::default();
        waits.record(Nanos::from_millis(1));
        let before = waits.clone();
        waits.record(Nanos::from_millis(1));
        waits.record(Nanos::from_secs(2));
        let since = waits.since(&before);
        assert_eq!(since.buckets(), [(161, 1), (248, 1)]);
        assert_eq!(since.sum(), Nanos::from_millis(2001));
        let mut again = before.clone();
        again.merge(&since);
        assert_eq!(again, waits);
        assert_eq!(before.since(&waits), Histogram::default());
    }

    #[test]
    fn buckets_of_others_are_checked() {
        let sum = Nanos(5);
        assert_eq!(
            Histogram::of_buckets(vec![(1, 2), (3, 4)], sum),
            Some(Histogram::of_counts([0, 2, 0, 4], sum))
        );
        for wrong in [vec![(3, 1), (1, 1)], vec![(1, 1), (1, 1)], vec![(1, 0)], vec![(273, 1)]] {
            assert_eq!(Histogram::of_buckets(wrong, sum), None);
        }
    }
}
