//! Water-fill: shares a supply by weight, within a least and a most.
//!
//! Each set is a vessel with a bottom (what it cannot be without), a rim (what it wants) and a width (how much it counts). All are joined,
//! and the supply is poured in: a set gets `level * weight`, but never less than its bottom nor more than its rim. What does not fit into a
//! narrow one rises in the others. The level is found by halving, because the total only grows with it.
//!
//! CPUs come whole, so the reals are rounded: each set gets what is before the point, and what is left over goes where most is
//! behind the point. A set that already has that CPU is believed to have a little more, or noise would move it back and forth.

use crate::convert::{down, real};

/// One vessel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Claim {
    /// Its bottom.
    pub low: usize,
    /// Its rim; not below its bottom.
    pub high: usize,
    /// Its width. What weighs nothing gets its bottom.
    pub weight: f64,
}

/// How much larger than another a fraction must be to take a CPU from the set that has it.
const STICKY: f64 = 0.7;

/// Halvings: more than a real has digits.
const HALVINGS: usize = 80;

/// What each gets of `total`; every rim if that is not too much, every bottom if not even that is there.
pub(super) fn pour(total: usize, claims: &[Claim]) -> Vec<f64> {
    let at = |level: f64, claim: &Claim| (level * claim.weight).clamp(real(claim.low), real(claim.high));
    let sum = |level: f64| claims.iter().map(|claim| at(level, claim)).sum::<f64>();
    let brim = |claim: &Claim| if claim.weight > 0.0 { real(claim.high) / claim.weight } else { 0.0 };
    let (mut low, mut high) = (0.0, claims.iter().map(brim).fold(0.0, f64::max));
    if sum(high) > real(total) {
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if sum(middle) > real(total) { high = middle } else { low = middle }
        }
    } else {
        low = high;
    }
    claims.iter().map(|claim| at(low, claim)).collect()
}

/// The same in whole CPUs. `sizes` are what sets have now.
pub(super) fn pour_whole(total: usize, claims: &[Claim], sizes: &[usize]) -> Vec<usize> {
    // What is found by halving ends a little below what it should be.
    let shares: Vec<f64> = pour(total, claims).into_iter().map(|share| share + 1e-9).collect();
    let mut whole: Vec<usize> = shares.iter().map(|share| down(*share)).collect();
    let mut left = total.saturating_sub(whole.iter().sum());
    let mut order: Vec<usize> = (0..claims.len()).filter(|at| whole[*at] < claims[*at].high).collect();
    let thirst = |at: usize| {
        let has = if sizes[at] == whole[at] + 1 { STICKY } else { 0.0 };
        shares[at] - real(whole[at]) + has
    };
    order.sort_by(|a, b| thirst(*b).total_cmp(&thirst(*a)));
    // What weighs nothing wants nothing beyond its bottom.
    for at in order.into_iter().filter(|at| claims[*at].weight > 0.0) {
        if left == 0 {
            break;
        }
        whole[at] += 1;
        left -= 1;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(low: usize, high: usize, weight: f64) -> Claim {
        Claim { low, high, weight }
    }

    #[test]
    fn where_there_is_enough_everybody_is_full() {
        assert_eq!(pour_whole(10, &[claim(1, 3, 1.0), claim(1, 5, 9.0)], &[5, 5]), [3, 5]);
    }

    #[test]
    fn where_there_is_not_it_goes_by_weight() {
        assert_eq!(pour_whole(12, &[claim(1, 12, 1.0), claim(1, 12, 2.0)], &[6, 6]), [4, 8]);
        assert_eq!(pour_whole(12, &[claim(1, 12, 64.0), claim(1, 12, 64.0)], &[11, 1]), [6, 6]);
    }

    #[test]
    fn what_one_cannot_hold_rises_in_the_others() {
        // Thirds of 12 are 4; the first holds 2, so the others get 5 each.
        let three = [claim(0, 2, 1.0), claim(0, 12, 1.0), claim(0, 12, 1.0)];
        assert_eq!(pour_whole(12, &three, &[4, 4, 4]), [2, 5, 5]);
    }

    #[test]
    fn nobody_gets_less_than_its_bottom() {
        assert_eq!(pour_whole(8, &[claim(3, 8, 0.0), claim(1, 8, 1.0)], &[4, 4]), [3, 5]);
        assert_eq!(
            pour_whole(3, &[claim(3, 8, 1.0), claim(2, 8, 1.0)], &[2, 1]),
            [3, 2],
            "more than there is"
        );
    }

    #[test]
    fn who_has_the_odd_processor_keeps_it() {
        let halves = [claim(1, 9, 1.0), claim(1, 9, 1.0)];
        assert_eq!(pour_whole(7, &halves, &[4, 3]), [4, 3]);
        assert_eq!(pour_whole(7, &halves, &[3, 4]), [3, 4]);
        assert_eq!(pour_whole(7, &halves, &[6, 1]), [4, 3], "it has more than that");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_bounds_are_kept(
            claims in prop::collection::vec((0usize..5, 0usize..20, 0.1f64..100.0), 1..12),
            total in 0usize..100,
        ) {
            let claims: Vec<Claim> =
                claims.into_iter().map(|(low, more, weight)| claim(low, low + more, weight)).collect();
            let sizes = vec![1; claims.len()];
            let got = pour_whole(total, &claims, &sizes);
            let (lows, highs): (usize, usize) =
                (claims.iter().map(|c| c.low).sum(), claims.iter().map(|c| c.high).sum());
            prop_assert_eq!(got.iter().sum::<usize>(), total.clamp(lows, highs));
            for (got, claim) in got.iter().zip(&claims) {
                prop_assert!((claim.low..=claim.high).contains(got));
            }
        }
    }
}
