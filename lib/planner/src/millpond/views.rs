//! The view of each set in one frame, from its demand and its history.

use super::advice::fresh;
use super::claims::{Ask, allot, ask, prefer};
use super::history::SetHistory;
use super::view::SetView;
use super::{share, speculation};
use crate::convert::{real, up};
use crate::demand::CRUMB;
use crate::{Demand, Frame, demand};
use millpond_model::{Nanos, PsetId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The histories of sets.
pub(super) type Histories = BTreeMap<PsetId, SetHistory>;

/// A recently served set gets this multiple of its request, if there are enough CPUs.
const ROOM: f64 = 1.1;

/// The request and the level of each set, and its usage including held CPUs.
fn asks(
    frame: &Frame,
    demands: &[Option<Demand>],
    histories: &mut Histories,
) -> (Vec<Ask>, Vec<f64>, Vec<usize>) {
    let total = frame.total();
    let (mut asks, mut levels, mut uses) = (Vec::new(), Vec::new(), Vec::new());
    let used = |id: PsetId| {
        let at = frame.sets.iter().position(|set| set.id == id);
        at.and_then(|at| demands[at]).map_or(0.0, |demand| demand.used)
    };
    for (set, demand) in frame.sets.iter().zip(demands) {
        let size = set.size();
        let history = histories.entry(set.id).or_default();
        let Some(demand) = *demand else {
            // A set without measurement is assumed to need its present CPUs.
            let ask = ask(set, history.level().unwrap_or(real(size)), total);
            let kept = size.clamp(ask.low, ask.high);
            asks.push(Ask { low: kept, need: kept, room: kept, preferred: kept, high: ask.high });
            levels.push(history.level().unwrap_or(real(size)));
            uses.push(kept);
            continue;
        };
        let now = ask(set, demand.wanted, total);
        history.follow_gift(frame, used);
        history.see(demand, size, now.need > size, frame);
        history.mean_used += fresh(frame) * (demand.used - history.mean_used);
        let level = history.level().unwrap_or(real(size));
        let all = ask(set, level, total);
        // The request is the one without speculative grants.
        let level = history.speculation.own().map_or(level, |own| level.min(real(own)));
        let mut ask = Ask { high: all.high, ..ask(set, level, total) };
        // A request from bounds needs no room.
        if history.was_served(frame) && ask.need > ask.low {
            ask.room = up(real(ask.need) * ROOM).min(ask.high);
        }
        levels.push(level);
        // CPUs that it had before and for which no thread waits are not used.
        let used = all.need.min(now.need.max(size));
        // CPUs on trial after a claim stay until the set had time to use them.
        let on_trial = if history.speculation.has_claim_on_trial() { size.min(all.high) } else { 0 };
        uses.push(used.max(on_trial));
        asks.push(ask);
    }
    (asks, levels, uses)
}

/// The demand of each set in a frame.
pub(super) fn demands(frame: &Frame) -> Vec<Option<Demand>> {
    frame.sets.iter().map(|set| demand(set, frame.elapsed)).collect()
}

/// The need and the target sizes of each set. Adds the frame to the histories.
pub(super) fn views(frame: &Frame, demands: &[Option<Demand>], histories: &mut Histories) -> Vec<SetView> {
    let total = frame.total();
    let wanted: Vec<Option<f64>> = demands.iter().map(|demand| demand.map(|d| d.wanted)).collect();
    let (asks, levels, uses) = asks(frame, demands, histories);
    let held: Vec<usize> = uses.iter().zip(&asks).map(|(uses, ask)| uses.saturating_sub(ask.need)).collect();
    let mut allotted = allot(frame, &asks, &levels, &held);
    let now = |at: usize| wanted[at].map_or(0, |wanted| ask(&frame.sets[at], wanted, total).need);
    lend_shares(frame, &mut allotted, now);
    let do_needs_fit = asks.iter().map(|ask| ask.need).sum::<usize>() <= total;
    // The CPUs that a set does not give for the objectives of others.
    let keeps = |at: usize| {
        let (set, history) = (&frame.sets[at], histories.get(&frame.sets[at].id));
        let is_on_trial = history.is_some_and(|history| history.speculation.is_on_trial());
        let peak = history.map_or(0, |history| up(history.peak() - CRUMB).min(asks[at].high));
        let kept = allotted[at].max(uses[at]).max(set.floor()).max(peak);
        if is_on_trial { kept.max(set.size()) } else { kept }
    };
    let keeps: Vec<usize> = (0..asks.len()).map(keeps).collect();
    let preferred = prefer(frame, &asks, &keeps);
    let view = |at: usize| {
        let set = &frame.sets[at];
        let history = histories.get(&set.id);
        SetView {
            demand: demands[at],
            ask: asks[at],
            allotted: allotted[at],
            preferred: preferred[at],
            uses: uses[at],
            now: {
                let now = now(at);
                let by_little = now > set.size() && real(now) <= real(set.size()) * ROOM;
                let again =
                    do_needs_fit && by_little && history.is_some_and(|history| history.was_served(frame));
                if again { up(real(now) * ROOM) } else { now }
            },
            lacked: history.map_or(0, |history| history.lacked),
            stay: history.map_or(Nanos(0), |history| history.stay(frame)),
            lent: history.map_or(0, |history| history.speculation.lent()),
            speculative: 0,
            without_backoff: 0,
            backoff: history.map_or(Nanos(0), |history| history.speculation.backoff(frame)),
            fair: 0,
            claim: 0,
        }
    };
    let mut views: Vec<SetView> = (0..frame.sets.len()).map(view).collect();
    speculate(frame, &mut views, histories);
    views
}

/// Unused and unneeded parts of the shares of sets go to sets that need more than their share, the most important first.
fn lend_shares(frame: &Frame, allotted: &mut [usize], now: impl Fn(usize) -> usize) {
    let unused = |at: usize| allotted[at].saturating_sub(frame.sets[at].size().max(now(at)));
    let mut left: usize = (0..allotted.len()).map(unused).sum();
    let mut order: Vec<usize> = (0..allotted.len()).filter(|at| now(*at) > allotted[*at]).collect();
    order.sort_by_key(|at| Reverse(frame.sets[*at].importance));
    for at in order {
        let more = left.min(now(at) - allotted[at]);
        allotted[at] += more;
        left -= more;
    }
}

/// The number of CPUs that full sets get speculatively, and the number of held CPUs that they claim.
fn speculate(frame: &Frame, views: &mut [SetView], histories: &Histories) {
    let is_full = |views: &[SetView], at: usize| {
        let set = &frame.sets[at];
        views[at].demand.is_some_and(|demand| speculation::is_full(demand, set.size()))
            && speculation::is_allowed(frame, set)
    };
    let is_ready = |at: usize| {
        let is_on_trial =
            histories.get(&frame.sets[at].id).is_none_or(|history| history.speculation.is_on_trial());
        is_full(views, at) && !is_on_trial
    };
    let ready: Vec<bool> = (0..views.len()).map(is_ready).collect();
    let all = share::idle_shares(frame, views, |at| ready[at]);
    let some = share::idle_shares(frame, views, |at| ready[at] && views[at].backoff.0 == 0);
    for (at, set) in frame.sets.iter().enumerate() {
        // A set whose threads waited recently has a known need.
        let was_served = histories.get(&set.id).is_some_and(|history| history.was_served(frame));
        let least = if was_served { speculation::NOISE * real(set.size()) } else { 0.0 };
        let view = &mut views[at];
        let is_worth = |share: &usize| real(*share) > least && view.is_worth_speculating(frame);
        let (all, some) = (Some(all[at]).filter(is_worth), Some(some[at]).filter(is_worth));
        (view.without_backoff, view.speculative) = (all.unwrap_or(0), some.unwrap_or(0));
    }
    let is_claiming = |views: &[SetView], at: usize| ready[at] && views[at].backoff.0 == 0;
    // A set on trial may come to use all its CPUs.
    let fair = share::fair_shares(frame, views, |at| is_claiming(views, at) || is_full(views, at));
    views.iter_mut().zip(fair).for_each(|(view, fair)| view.fair = fair);
    if views.iter().any(|view| view.speculative > 0) {
        return;
    }
    let claims = share::claims(frame, views, |at| is_claiming(views, at));
    for (view, claim) in views.iter_mut().zip(claims) {
        view.claim = if view.is_worth_speculating(frame) { claim } else { 0 };
    }
}
