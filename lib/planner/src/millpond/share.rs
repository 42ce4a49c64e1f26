//! How full sets share CPUs that are idle, or that others hold beyond their share (see `speculation`).

use super::claims::standing;
use super::fill::{Claim, pour_whole};
use super::speculation::NOISE;
use super::view::SetView;
use crate::convert::real;
use crate::{Frame, SetFrame};

/// The CPUs that a set keeps: the largest of its target size, its usage, and the number that it must keep.
fn kept(set: &SetFrame, view: &SetView) -> usize {
    view.allotted.max(view.uses).max(set.floor())
}

/// The number of idle CPUs that a set could give speculatively.
pub(super) fn idle(set: &SetFrame, view: &SetView) -> usize {
    let kept = kept(set, view);
    let spare = set.size().saturating_sub(kept);
    if real(spare) > NOISE * real(kept) { spare } else { 0 }
}

/// The number of further CPUs for each set if the `full` ones share the idle CPUs; none while needs do not fit.
pub(super) fn idle_shares(frame: &Frame, views: &[SetView], full: impl Fn(usize) -> bool) -> Vec<usize> {
    let nothing = vec![0; views.len()];
    let needs: usize = views.iter().map(|view| view.ask.need).sum();
    if needs > frame.total() || !(0..views.len()).any(&full) {
        return nothing;
    }
    // Its size, with the CPUs that it gets because it needs them.
    let has = |at: usize| {
        let (size, view) = (frame.sets[at].size(), &views[at]);
        size.max(view.ask.low).max(view.allotted.min(view.now))
    };
    let claim = |at: usize| {
        let (set, view) = (&frame.sets[at], &views[at]);
        let used = view.demand.map_or(0.0, |demand| demand.used);
        let high = if full(at) { view.ask.high.saturating_sub(has(at)) } else { 0 };
        Claim { low: 0, high, weight: standing(set) * used }
    };
    let claims: Vec<Claim> = (0..views.len()).map(claim).collect();
    let spare: usize = frame.sets.iter().zip(views).map(|(set, view)| idle(set, view)).sum();
    let lacking: usize = (0..views.len()).map(|at| has(at) - frame.sets[at].size()).sum();
    pour_whole(spare.saturating_sub(lacking), &claims, &nothing)
}

/// The size of each set if the `full` ones share the unneeded CPUs by importance; at least its need. A set that is not
/// full gets at most the CPUs that it holds.
pub(super) fn fair_shares(frame: &Frame, views: &[SetView], full: impl Fn(usize) -> bool) -> Vec<usize> {
    let claim = |at: usize| {
        let (set, view) = (&frame.sets[at], &views[at]);
        // A full set needs at most its present size, independent of earlier needs.
        let low = if full(at) { view.ask.need.min(set.size()).max(view.ask.low) } else { view.ask.room };
        let high = if full(at) { view.ask.high } else { view.uses.clamp(low, view.ask.high.max(low)) };
        Claim { low, high, weight: standing(set) }
    };
    let claims: Vec<Claim> = (0..views.len()).map(claim).collect();
    let sizes: Vec<usize> = frame.sets.iter().map(SetFrame::size).collect();
    pour_whole(frame.total(), &claims, &sizes)
}

/// The number of held CPUs that a set must yield to sets that claim them.
pub(super) fn beyond(set: &SetFrame, view: &SetView) -> usize {
    let kept = view.fair.max(view.ask.room).max(set.floor());
    let beyond = set.size().saturating_sub(kept);
    if real(beyond) > NOISE * real(kept) { beyond } else { 0 }
}

/// The number of held CPUs that each full set claims from others: as many as it has, up to its share. Less is noise.
pub(super) fn claims(frame: &Frame, views: &[SetView], full: impl Fn(usize) -> bool) -> Vec<usize> {
    let needs: usize = views.iter().map(|view| view.ask.need).sum();
    let held: usize = frame.sets.iter().zip(views).map(|(set, view)| beyond(set, view)).sum();
    let claim = |at: usize| {
        let size = frame.sets[at].size();
        let lacks = views[at].fair.saturating_sub(size);
        if !full(at) || needs > frame.total() || real(lacks) <= NOISE * real(size) {
            0
        } else {
            lacks.min(size.max(1))
        }
    };
    let mut left = held;
    (0..views.len())
        .map(|at| {
            let gets = claim(at).min(left);
            left -= gets;
            gets
        })
        .collect()
}
