//! Vectors that several threads read and write: doubles kept as atomics.
//!
//! Relaxed 64-bit loads and stores are plain moves on all supported CPUs, so the atomics cost nothing in the matrix-vector product. The
//! barrier between writing and reading orders the accesses of threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub(super) struct SharedVector(Box<[AtomicU64]>);

impl SharedVector {
    /// `len` zeros.
    pub(super) fn new(len: usize) -> Self {
        Self((0..len).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn set(&self, index: usize, value: f64) {
        self.0[index].store(value.to_bits(), Relaxed);
    }

    /// The element at `index`, without a bounds check.
    ///
    /// # Safety
    ///
    /// `index < self.len()`.
    #[inline(always)]
    pub(super) unsafe fn get_unchecked(&self, index: usize) -> f64 {
        debug_assert!(index < self.0.len());
        // SAFETY: the caller promises that the index is within the slice.
        f64::from_bits(unsafe { self.0.get_unchecked(index) }.load(Relaxed))
    }

    /// Writes `values` from `start` on.
    pub(super) fn publish(&self, start: usize, values: &[f64]) {
        for (place, value) in self.0[start..start + values.len()].iter().zip(values) {
            place.store(value.to_bits(), Relaxed);
        }
    }

    /// Reads `values.len()` elements from `start` on.
    pub(super) fn fetch(&self, start: usize, values: &mut [f64]) {
        for (place, value) in self.0[start..start + values.len()].iter().zip(values) {
            *value = f64::from_bits(place.load(Relaxed));
        }
    }

    pub(super) fn fill(&self, value: f64) {
        for place in &self.0 {
            place.store(value.to_bits(), Relaxed);
        }
    }

    /// The sum of all elements, in an order that only depends on their number.
    pub(super) fn sum(&self) -> f64 {
        let (fours, rest) = self.0.as_chunks::<4>();
        let mut sums = [0.0; 4];
        for four in fours {
            for lane in 0..4 {
                sums[lane] += f64::from_bits(four[lane].load(Relaxed));
            }
        }
        let rest: f64 = rest.iter().map(|place| f64::from_bits(place.load(Relaxed))).sum();
        (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_published_is_fetched_and_summed(values in prop::collection::vec(-1000_i32..1000, 0..40), start in 0_usize..8) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let vector = SharedVector::new(start + values.len());
            vector.publish(start, &values);
            let mut read = vec![0.0; values.len()];
            vector.fetch(start, &mut read);
            prop_assert_eq!(&read, &values);
            prop_assert_eq!(vector.sum(), values.iter().sum::<f64>());
            vector.fill(1.0);
            prop_assert_eq!(vector.sum(), vector.len() as f64);
        }
    }
}
