//! Distribution of rows over threads, and sums that are identical for any number of threads.
//!
//! Rows are divided into *blocks* whose size only depends on the number of rows. A thread owns whole blocks, sums each of its
//! blocks in order, and stores the block's sum where all threads can read it. Then every thread adds the block sums in
//! order. So a sum is identical to the last bit, independent of the thread that computed a part. The result of the benchmark does not
//! depend on the number of threads, nor on when it changes.

use super::shared::SharedVector;
use std::ops::Range;

/// Maximum number of blocks: every thread adds all block sums, so this must be cheap compared with the work on rows.
const BLOCKS_MAX: usize = 256;

/// Blocks are multiples of a cache line of doubles, so that two threads rarely write to one line.
const LINE_DOUBLES: usize = 8;

/// The blocks of a number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    rows: usize,
    block_rows: usize,
}

impl Blocks {
    pub(super) fn new(rows: usize) -> Self {
        let block_rows = rows.div_ceil(BLOCKS_MAX).next_multiple_of(LINE_DOUBLES).max(LINE_DOUBLES);
        Self { rows, block_rows }
    }

    /// Number of blocks.
    pub(super) fn count(&self) -> usize {
        self.rows.div_ceil(self.block_rows)
    }

    /// Rows of every block except the last, which may have fewer.
    pub(super) fn block_rows(&self) -> usize {
        self.block_rows
    }

    /// The blocks of thread `index` of `threads`: as even as whole blocks allow, none for threads beyond the number of blocks.
    pub(super) fn of_thread(&self, index: usize, threads: usize) -> Range<usize> {
        let count = self.count();
        index * count / threads..(index + 1) * count / threads
    }

    /// The rows of a range of blocks.
    pub(super) fn rows_of(&self, blocks: &Range<usize>) -> Range<usize> {
        (blocks.start * self.block_rows).min(self.rows)..(blocks.end * self.block_rows).min(self.rows)
    }
}

/// A sum under construction: one part per block.
#[derive(Debug)]
pub(super) struct BlockSums(SharedVector);

impl BlockSums {
    pub(super) fn new(blocks: Blocks) -> Self {
        Self(SharedVector::new(blocks.count()))
    }

    /// Stores the sum of one block. Visible to other threads after the next barrier.
    pub(super) fn put(&self, block: usize, sum: f64) {
        self.0.set(block, sum);
    }

    /// The whole sum, in the order of blocks.
    pub(super) fn total(&self) -> f64 {
        self.0.sum()
    }
}

/// The inner product of two slices of equal length: four interleaved sums, so that additions do not depend on each other.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_fours, a_rest) = a.as_chunks::<4>();
    let (b_fours, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a_fours.iter().zip(b_fours) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn class_s_has_175_blocks_of_a_cache_line() {
        let blocks = Blocks::new(1_400);
        assert_eq!((blocks.count(), blocks.block_rows()), (175, 8));
        assert_eq!(blocks.of_thread(0, 2), 0..87);
        assert_eq!(blocks.rows_of(&(87..175)), 696..1_400);
    }

    proptest! {
        #[test]
        fn every_row_belongs_to_exactly_one_thread(rows in 0_usize..100_000, threads in 1_usize..400) {
            let blocks = Blocks::new(rows);
            let mut next = 0;
            for index in 0..threads {
                let range = blocks.rows_of(&blocks.of_thread(index, threads));
                prop_assert_eq!(range.start, next);
                next = range.end;
            }
            prop_assert_eq!(next, rows);
            prop_assert!(blocks.count() <= BLOCKS_MAX);
        }

        #[test]
        fn shares_differ_by_one_block_at_most(rows in 1_usize..100_000, threads in 1_usize..64) {
            let blocks = Blocks::new(rows);
            let shares: Vec<_> = (0..threads).map(|index| blocks.of_thread(index, threads).len()).collect();
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }

        #[test]
        fn the_inner_product_of_whole_numbers_is_exact(numbers in prop::collection::vec((-1000_i32..1000, -1000_i32..1000), 0..50)) {
            let a: Vec<_> = numbers.iter().map(|(a, _)| f64::from(*a)).collect();
            let b: Vec<_> = numbers.iter().map(|(_, b)| f64::from(*b)).collect();
            let expected: i64 = numbers.iter().map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
            prop_assert_eq!(dot(&a, &b), expected as f64);
        }
    }
}
