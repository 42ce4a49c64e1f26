//! From the sizes that sets should have to moves: receivers, donors, gain and cost.

use super::placement::{Left, Placement};
use super::reasons::Phrase;
use super::share;
use super::view::{SPECULATIVE_WORTH, SetView};
use crate::convert::real;
use crate::{Alternative, Frame};
use millpond_model::{CpuId, Move};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a CPU is worth beyond what a set would use: room for a little more.
const ROOM_WORTH: f64 = 0.1;

/// How many CPUs sets should get, by place.
pub(super) struct Grants<'a> {
    /// For their minima.
    pub must: &'a [usize],
    /// For what they need.
    pub needs: &'a [usize],
    /// Speculatively, of what is idle.
    pub speculative: &'a [usize],
    /// Speculatively, of what others hold.
    pub claims: &'a [usize],
    /// For what they prefer.
    pub preferences: &'a [usize],
}

/// Moves with what they win and cost.
#[derive(Debug, Clone, Default)]
pub(super) struct Proposal {
    pub moves: Vec<Move>,
    /// CPU time, in seconds, that threads will have and would not have had.
    pub gain: f64,
    /// CPU time, in seconds, that moving takes.
    pub cost: f64,
    /// How many CPUs each set gets, by place.
    pub gets: Vec<usize>,
    /// How many each gives.
    pub gives: Vec<usize>,
    /// How many of those that each gets are speculative.
    pub speculative: Vec<usize>,
    /// How many of those that each gets it prefers to have.
    pub preferred: Vec<usize>,
    /// How many of those that each gives are given speculatively, or for a preference.
    pub lends: Vec<usize>,
    /// How many of those that each gets others held.
    pub claims: Vec<usize>,
    /// How many that each held it gives to others that claim them.
    pub yields: Vec<usize>,
    /// How many of the moves bounds ask for.
    forced: usize,
}

impl Proposal {
    /// Whether bounds ask for some of it: then it is not a question of worth.
    pub fn is_forced(&self) -> bool {
        self.forced > 0
    }

    /// Seconds of CPU time won.
    pub fn score(&self) -> f64 {
        self.gain - self.cost
    }

    /// As one that was not chosen.
    pub fn alternative(&self, why_not: Phrase) -> Alternative {
        Alternative { moves: self.moves.clone(), score: self.score(), why_not: why_not.to_string() }
    }
}

/// What sets lack of their minima.
pub(super) fn must(frame: &Frame, views: &[SetView]) -> Vec<usize> {
    let sets = frame.sets.iter().zip(views);
    sets.map(|(set, view)| view.ask.low.saturating_sub(set.size())).collect()
}

/// What sets lack beyond their minima that is worth bringing. What they lent is always worth it.
pub(super) fn lacking(frame: &Frame, views: &[SetView]) -> Vec<usize> {
    let lacks = |at: usize| {
        let (size, view) = (frame.sets[at].size(), &views[at]);
        let has = size.max(view.ask.low);
        let most = view.allotted.min(view.now);
        if most <= has {
            return 0;
        }
        let cost = frame.costs.cpu.as_secs_f64();
        let worth = |count: &usize| use_of(view, size, *count) * view.stay.as_secs_f64() > cost;
        let is_worth = |count: &usize| *count <= view.lent || worth(&(has - size + count));
        (1..=most - has).take_while(is_worth).count()
    };
    (0..views.len()).map(lacks).collect()
}

/// What part of the `count`th CPU more will be used.
fn use_of(view: &SetView, size: usize, count: usize) -> f64 {
    let beyond = view.demand.map_or(0.0, |demand| demand.wanted - real(size + count - 1));
    beyond.clamp(ROOM_WORTH, 1.0)
}

/// What sets could give: how many they must, being above their maxima, and how many they can.
struct Spare {
    forced: usize,
    all: usize,
    /// How many can be given speculatively.
    idle: usize,
    /// How many are more than it wants to have.
    unwanted: usize,
    /// How many can be given for a preference.
    unkept: usize,
    /// How many it holds beyond its share.
    held: usize,
}

/// Why a set gets CPUs.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    Minimum,
    Need,
    Speculation,
    Claim,
    Preference,
    /// It must go, and there is room here.
    Room,
}

/// Draws up moves: first what sets must have, then what they need, then speculative grants, as far as others can give them; then what is
/// above maxima goes where there is room.
pub(super) fn propose(
    frame: &Frame,
    views: &[SetView],
    grants: &Grants<'_>,
    mut placement: Placement<'_>,
    left: &BTreeMap<CpuId, Left>,
) -> Proposal {
    let mut spare: Vec<Spare> = frame
        .sets
        .iter()
        .zip(views)
        .enumerate()
        .map(|(at, (set, view))| {
            let size = set.size();
            let free = placement.free(at);
            let most = size.saturating_sub(set.floor()).min(free);
            let forced = size.saturating_sub(set.max).min(most);
            let all = size.saturating_sub(view.allotted).max(forced).min(most);
            let idle = share::idle(set, view).min(all);
            let held = share::beyond(set, view).min(most);
            let unkept = size.saturating_sub(view.preferred).min(all);
            Spare { forced, all, idle, unwanted: size.saturating_sub(view.ask.high), unkept, held }
        })
        .collect();
    let count = views.len();
    let none = || vec![0; count];
    let mut proposal = Proposal {
        gets: none(),
        gives: none(),
        speculative: none(),
        lends: none(),
        claims: none(),
        preferred: none(),
        yields: none(),
        ..Proposal::default()
    };
    let mut far = 0.0;
    let mut bring = |to: usize, wanted: usize, why: Why, proposal: &mut Proposal| {
        let mut missing = wanted;
        let mut donors: Vec<usize> =
            (0..count).filter(|at| *at != to && spare[*at].all.max(spare[*at].held) > 0).collect();
        let key = |at: &usize| {
            let beside = if placement.lean(to) >= 1.0 { placement.beside(*at, to).min(wanted) } else { 0 };
            let spare = &spare[*at];
            Reverse((spare.forced, spare.unwanted.min(spare.all), beside, spare.all))
        };
        donors.sort_by_key(key);
        for from in donors {
            let most = match why {
                Why::Minimum | Why::Need => spare[from].all,
                Why::Speculation => spare[from].idle,
                Why::Claim => spare[from].held,
                Why::Preference => spare[from].unkept,
                Why::Room => spare[from].forced,
            };
            let asked = missing.min(most);
            if asked == 0 {
                continue;
            }
            let went = placement.take((from, to), asked, left, &mut proposal.moves, &mut far);
            let forced = went.min(spare[from].forced);
            spare[from].forced -= forced;
            spare[from].all = spare[from].all.saturating_sub(went);
            spare[from].held = spare[from].held.saturating_sub(went);
            spare[from].idle = spare[from].idle.saturating_sub(went);
            spare[from].unwanted = spare[from].unwanted.saturating_sub(went);
            spare[from].unkept = spare[from].unkept.saturating_sub(went);
            proposal.gives[from] += went;
            proposal.gets[to] += went;
            if why == Why::Speculation {
                proposal.lends[from] += went;
                proposal.speculative[to] += went;
            }
            if why == Why::Preference {
                proposal.lends[from] += went;
                proposal.preferred[to] += went;
            }
            if why == Why::Claim {
                proposal.yields[from] += went;
                proposal.claims[to] += went;
            }
            proposal.forced += if matches!(why, Why::Minimum | Why::Room) { went } else { forced };
            missing -= went;
        }
    };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|at| Reverse(frame.sets[*at].importance));
    for at in order.iter().copied().filter(|at| grants.must[*at] > 0) {
        bring(at, grants.must[at], Why::Minimum, &mut proposal);
    }
    for at in order.iter().copied().filter(|at| grants.needs[*at] > 0) {
        let size = frame.sets[at].size() + proposal.gets[at];
        let before = proposal.gets[at];
        bring(at, grants.needs[at], Why::Need, &mut proposal);
        let used = (1..=proposal.gets[at] - before).map(|count| use_of(&views[at], size, count)).sum::<f64>();
        proposal.gain += used * views[at].stay.as_secs_f64();
    }
    for at in order.iter().copied().filter(|at| grants.speculative[*at] > 0) {
        bring(at, grants.speculative[at], Why::Speculation, &mut proposal);
        proposal.gain += SPECULATIVE_WORTH * real(proposal.speculative[at]) * views[at].stay.as_secs_f64();
    }
    for at in order.iter().copied().filter(|at| grants.claims[*at] > 0) {
        bring(at, grants.claims[at], Why::Claim, &mut proposal);
        proposal.gain += SPECULATIVE_WORTH * real(proposal.claims[at]) * views[at].stay.as_secs_f64();
    }
    for at in order.iter().copied().filter(|at| grants.preferences[*at] > 0) {
        bring(at, grants.preferences[at], Why::Preference, &mut proposal);
    }
    // CPUs that no set asked for go to the default set.
    order.sort_by_key(|at| !frame.sets[*at].id.is_default());
    for at in order {
        let set = &frame.sets[at];
        let room = set.max.saturating_sub(set.size() + proposal.gets[at]);
        if room > 0 && proposal.gives[at] == 0 {
            bring(at, room, Why::Room, &mut proposal);
        }
    }
    if !proposal.moves.is_empty() {
        proposal.cost = far * frame.costs.cpu.as_secs_f64() + frame.costs.batch.as_secs_f64();
    }
    proposal
}
