//! Water-fill: divides a supply by weight, between a lower and an upper bound for each set.
//!
//! Each set is a vessel with a bottom (its lower bound), a rim (its upper bound) and a width (its weight). The vessels are connected and
//! filled with the supply: a set gets `level * weight`, limited to its bottom and its rim. What does not fit into one vessel raises the
//! level in the others. The level is found by bisection, because the sum grows with it.
//!
//! CPUs are whole, so the shares are rounded: each set gets the integer part, and the remaining CPUs go to the largest fractional parts.
//! The fraction of a set that already has the CPU is increased a little; otherwise noise would move the CPU back and forth.

use crate::convert::{down, real};

/// One vessel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Claim {
    /// The lower bound.
    pub low: usize,
    /// The upper bound; not below `low`.
    pub high: usize,
    /// The weight. A set with weight 0 gets its lower bound.
    pub weight: f64,
}

/// The difference between two fractions that moves a CPU away from the set that has it.
const STICKY: f64 = 0.7;

/// Bisection steps: more than the number of bits in a mantissa.
const HALVINGS: usize = 80;

/// The share of each set in `total`; all upper bounds if their sum fits, all lower bounds if not even these fit.
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

/// The same in whole CPUs. `sizes` are the current sizes of the sets.
pub(super) fn pour_whole(total: usize, claims: &[Claim], sizes: &[usize]) -> Vec<usize> {
    // Bisection ends a little below the exact value.
    let shares: Vec<f64> = pour(total, claims).into_iter().map(|share| share + 1e-9).collect();
    let mut whole: Vec<usize> = shares.iter().map(|share| down(*share)).collect();
    let mut left = total.saturating_sub(whole.iter().sum());
    let mut order: Vec<usize> = (0..claims.len()).filter(|at| whole[*at] < claims[*at].high).collect();
    let thirst = |at: usize| {
        let has = if sizes[at] == whole[at] + 1 { STICKY } else { 0.0 };
        shares[at] - real(whole[at]) + has
    };
    order.sort_by(|a, b| thirst(*b).total_cmp(&thirst(*a)));
    // Weight 0 gets nothing beyond the lower bound.
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
