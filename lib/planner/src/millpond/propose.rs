//! From target sizes to moves: receivers, donors, gain and cost.

use super::placement::{Left, Placement};
use super::reasons::Phrase;
use super::share;
use super::view::{SPECULATIVE_WORTH, SetView};
use crate::convert::real;
use crate::{Alternative, Frame};
use millpond_model::{CpuId, Move};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The value of a CPU beyond the demand of a set, given as room.
const ROOM_WORTH: f64 = 0.1;

/// The number of CPUs to give to each set, by index of the set.
pub(super) struct Grants<'a> {
    /// For minima.
    pub must: &'a [usize],
    /// For needs.
    pub needs: &'a [usize],
    /// Speculative, from idle CPUs.
    pub speculative: &'a [usize],
    /// Speculative, from CPUs that other sets hold.
    pub claims: &'a [usize],
    /// For preferences.
    pub preferences: &'a [usize],
}

/// Moves with their gain and cost.
#[derive(Debug, Clone, Default)]
pub(super) struct Proposal {
    pub moves: Vec<Move>,
    /// CPU time, in seconds, that threads gain.
    pub gain: f64,
    /// CPU time, in seconds, that the moves cost.
    pub cost: f64,
    /// The number of CPUs that each set gets, by index of the set.
    pub gets: Vec<usize>,
    /// The number of CPUs that each set gives.
    pub gives: Vec<usize>,
    /// The part of `gets` that is speculative.
    pub speculative: Vec<usize>,
    /// The part of `gets` that is for preferences.
    pub preferred: Vec<usize>,
    /// The part of `gives` that is given speculatively or for a preference.
    pub lends: Vec<usize>,
    /// The part of `gets` that other sets held.
    pub claims: Vec<usize>,
    /// The number of held CPUs that each set gives to sets that claim them.
    pub yields: Vec<usize>,
    /// The number of moves that bounds require.
    forced: usize,
}

impl Proposal {
    /// Whether bounds require some of the moves. If so, the score is irrelevant.
    pub fn is_forced(&self) -> bool {
        self.forced > 0
    }

    /// The net gain in seconds of CPU time.
    pub fn score(&self) -> f64 {
        self.gain - self.cost
    }

    /// The proposal as an alternative.
    pub fn alternative(&self, why_not: Phrase) -> Alternative {
        Alternative { moves: self.moves.clone(), score: self.score(), why_not: why_not.to_string() }
    }
}

/// The number of CPUs that each set lacks to its minimum.
pub(super) fn must(frame: &Frame, views: &[SetView]) -> Vec<usize> {
    let sets = frame.sets.iter().zip(views);
    sets.map(|(set, view)| view.ask.low.saturating_sub(set.size())).collect()
}

/// The number of CPUs that each set lacks beyond its minimum and that are worth a move. Lent CPUs are always worth it.
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

/// The fraction of the `count`th further CPU that will be used.
fn use_of(view: &SetView, size: usize, count: usize) -> f64 {
    let beyond = view.demand.map_or(0.0, |demand| demand.wanted - real(size + count - 1));
    beyond.clamp(ROOM_WORTH, 1.0)
}

/// The CPUs that a set could give: the number above its maximum, and the total.
struct Spare {
    forced: usize,
    all: usize,
    /// The number that can be given speculatively.
    idle: usize,
    /// The number above the largest size that it accepts.
    unwanted: usize,
    /// The number that can be given for a preference.
    unkept: usize,
    /// The number held beyond its share.
    held: usize,
}

/// The reason of a grant.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    Minimum,
    Need,
    Speculation,
    Claim,
    Preference,
    /// A donor is above its maximum, and this set has room.
    Room,
}

/// Draws up moves: first minima, then needs, then speculative grants, as far as donors allow. CPUs above maxima go
/// to sets with room.
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
