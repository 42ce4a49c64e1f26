//! The formulas of poold(8) of Solaris: when a reconfiguration is required, and the score of a move.

use crate::convert::real;
use millpond_model::pools::{Bound, Locality};

/// The distance of a value from its target, in standard deviations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    /// At most one.
    C,
    /// At most two.
    B,
    /// At most three.
    A,
    /// More than three.
    Z,
}

/// The share of a set: its part of the total usage, in CPUs, rounded; 0 if it uses nothing.
pub(super) fn share(busy: f64, all_busy: f64, total: usize) -> usize {
    if busy <= 0.0 || all_busy <= 0.0 {
        return 0;
    }
    crate::convert::down((busy / all_busy * real(total)).round())
}

/// The target of an objective: its value, or three standard deviations on the safe side of it.
pub(super) fn target(bound: Bound, percent: u8, sigma: f64) -> f64 {
    let value = f64::from(percent);
    match bound {
        Bound::Near => value,
        Bound::Below => value - 3.0 * sigma,
        Bound::Above => value + 3.0 * sigma,
    }
}

pub(super) fn zone(value: f64, target: f64, sigma: f64) -> Zone {
    let distance = (value - target).abs();
    match () {
        () if distance <= sigma => Zone::C,
        () if distance <= 2.0 * sigma => Zone::B,
        () if distance <= 3.0 * sigma => Zone::A,
        () => Zone::Z,
    }
}

/// Whether the objective is violated. A value on the safe side is never a violation.
pub(super) fn is_violated(bound: Bound, percent: u8, value: f64, sigma: f64) -> bool {
    let target = target(bound, percent, sigma);
    let is_safe = match bound {
        Bound::Below => value < target,
        Bound::Above => value > target,
        Bound::Near => false,
    };
    !is_safe && zone(value, target, sigma) == Zone::Z
}

/// How much closer a move of one CPU brings both sets to their shares, divided by twice the machine size. The pairs are (share, size).
pub(super) fn wt_load(source: (usize, usize), target: (usize, usize), total: usize) -> f64 {
    let gap = |share: usize, size: usize| real(share.abs_diff(size));
    let source = gap(source.0, source.1) - gap(source.0, source.1.saturating_sub(1));
    let target = gap(target.0, target.1) - gap(target.0, target.1 + 1);
    if total == 0 { 0.0 } else { (source + target) / (2.0 * real(total)) }
}

/// The value of a move for the objective of the donor; `other_has` says whether the receiver has objectives.
pub(super) fn as_donor(value: f64, target: f64, other_has: bool) -> f64 {
    let gap = ((value - target) / 100.0).clamp(-1.0, 1.0);
    match () {
        () if other_has => -gap,
        () if gap < 0.0 => -1.0 - gap,
        () => -1.0,
    }
}

/// The value of a move for the objective of the receiver.
pub(super) fn as_receiver(value: f64, target: f64, other_has: bool) -> f64 {
    let gap = ((value - target) / 100.0).clamp(-1.0, 1.0);
    match () {
        () if other_has => gap,
        () if gap < 0.0 => -gap,
        () => 1.0,
    }
}

/// The tightness of a set: the mean, over the locality groups that it has CPUs in, of `n(n+1) / N(N+1)`, where it has `n` of the group's `N`
/// CPUs.
pub(super) fn tightness(groups: impl Iterator<Item = (usize, usize)>) -> f64 {
    let (mut sum, mut touched) = (0.0, 0.0);
    for (own, all) in groups {
        if own > 0 {
            sum += real(own) * real(own + 1) / (real(all) * real(all + 1));
            touched += 1.0;
        }
    }
    if touched > 0.0 { sum / touched } else { 0.0 }
}

/// The value of a change of tightness.
pub(super) fn locality(wanted: Locality, change: f64) -> f64 {
    match wanted {
        Locality::Tight => change,
        Locality::Loose => -change,
        Locality::None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn shares_are_in_proportion_to_use() {
        // 4 busy and 1 busy of 8: 6.4 and 1.6.
        assert_eq!((share(4.0, 5.0, 8), share(1.0, 5.0, 8)), (6, 2));
        // 2.5 of 5 of 5 is 2.5, which rounds up.
        assert_eq!(share(2.5, 5.0, 5), 3);
        assert_eq!((share(0.0, 5.0, 8), share(0.0, 0.0, 8)), (0, 0));
    }

    #[test]
    fn targets_are_on_the_safe_side() {
        assert!(near(target(Bound::Near, 50, 4.0), 50.0));
        assert!(near(target(Bound::Below, 80, 4.0), 68.0));
        assert!(near(target(Bound::Above, 30, 4.0), 42.0));
    }

    #[test]
    fn zones_are_one_two_and_three_standard_deviations() {
        assert_eq!(zone(54.0, 50.0, 4.0), Zone::C);
        assert_eq!(zone(42.0, 50.0, 4.0), Zone::B);
        assert_eq!(zone(62.0, 50.0, 4.0), Zone::A);
        assert_eq!(zone(62.5, 50.0, 4.0), Zone::Z);
        assert_eq!((zone(50.0, 50.0, 0.0), zone(50.1, 50.0, 0.0)), (Zone::C, Zone::Z));
    }

    #[test]
    fn objectives_complain_on_their_side_only() {
        // `< 80` with sigma 4 has the target 68 and is violated above 80: 68 + 3 * 4.
        assert!(!is_violated(Bound::Below, 80, 80.0, 4.0));
        assert!(is_violated(Bound::Below, 80, 80.1, 4.0));
        assert!(!is_violated(Bound::Below, 80, 5.0, 4.0));
        // `> 30` is violated below 30.
        assert!(!is_violated(Bound::Above, 30, 30.0, 4.0));
        assert!(is_violated(Bound::Above, 30, 29.9, 4.0));
        assert!(!is_violated(Bound::Above, 30, 99.0, 4.0));
        // `~ 50` is violated on both sides, beyond a distance of 12.
        assert!(!is_violated(Bound::Near, 50, 62.0, 4.0));
        assert!(is_violated(Bound::Near, 50, 62.5, 4.0));
        assert!(is_violated(Bound::Near, 50, 37.5, 4.0));
    }

    #[test]
    fn wt_load_counts_how_much_nearer_both_come() {
        // Of 8: the source has 4 and its share is 2, the target has 4 and its share is 6: both one closer, 2 / 16.
        assert!(near(wt_load((2, 4), (6, 4), 8), 0.125));
        // The reverse move.
        assert!(near(wt_load((6, 4), (2, 4), 8), -0.125));
        // One set closer, one farther away.
        assert!(near(wt_load((2, 4), (4, 4), 8), 0.0));
    }

    #[test]
    fn who_gives_and_who_gets_score_by_their_gap() {
        // 91.2 with a target of 80: a gap of 0.112.
        assert!(near(as_receiver(91.2, 80.0, true), 0.112));
        assert!(near(as_receiver(91.2, 80.0, false), 1.0));
        assert!(near(as_donor(91.2, 80.0, true), -0.112));
        assert!(near(as_donor(91.2, 80.0, false), -1.0));
        // 50 with a target of 80: a gap of -0.3.
        assert!(near(as_receiver(50.0, 80.0, true), -0.3));
        assert!(near(as_receiver(50.0, 80.0, false), 0.3));
        assert!(near(as_donor(50.0, 80.0, true), 0.3));
        assert!(near(as_donor(50.0, 80.0, false), -0.7));
        // Never beyond one.
        assert!(near(as_receiver(300.0, 80.0, true), 1.0));
    }

    #[test]
    fn tightness_is_the_mean_over_groups_that_are_touched() {
        // 2 of 4: 2*3 / 4*5 = 0.3; 1 of 4: 0.1; all of 4: 1.
        assert!(near(tightness([(2, 4)].into_iter()), 0.3));
        assert!(near(tightness([(2, 4), (1, 4), (0, 4)].into_iter()), 0.2));
        assert!(near(tightness([(4, 4)].into_iter()), 1.0));
        assert!(near(tightness([(0, 4)].into_iter()), 0.0));
        assert!(near(locality(Locality::Tight, 0.2), 0.2));
        assert!(near(locality(Locality::Loose, 0.2), -0.2));
        assert!(near(locality(Locality::None, 0.2), 0.0));
    }
}
