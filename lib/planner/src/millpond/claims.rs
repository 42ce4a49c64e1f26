//! Sizes: from demands and objectives to the target size of each set.
//!
//! A set *needs* enough CPUs for its level. If all needs do not fit, the water-fill divides the CPUs. The part of its speculative grants
//! that a set uses is *held*; it ranks after needs. A set that was served recently gets a little *room*; it ranks after held CPUs.
//!
//! A utilization objective is a *preference*. `< V` and `~ V` prefer `level / V` CPUs. `> V` prefers at most that number: it limits what
//! the set gets and never takes CPUs away. A preferred CPU does no work, so preferences rank last: they share CPUs that no set needs,
//! holds, or used recently (`preference`).

use super::fill::{Claim, pour_whole};
use crate::convert::{down, real, up, weight};
use crate::demand::CRUMB;
use crate::{Frame, SetFrame};
use millpond_model::pools::{Bound, Objective};

/// The smallest weight: a set without importance gets something before CPUs are idle.
const LIGHTEST: f64 = 0.1;

/// To take a fractionally used CPU from its set, another set must use at least this much more of it.
const PART: f64 = 0.25;

/// The number of CPUs that a level uses fully.
fn whole(level: f64) -> usize {
    down(level + CRUMB)
}

/// The sizes that one set asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ask {
    /// The number of CPUs that it must keep.
    pub low: usize,
    /// The need of its threads.
    pub need: usize,
    /// The need of its threads, with some room.
    pub room: usize,
    /// The size for its objectives; not below its need.
    pub preferred: usize,
    /// The largest size that it accepts: its maximum, or the limit by `> V`.
    pub high: usize,
}

/// The sizes that a set asks for if it would use `level` CPUs.
pub(super) fn ask(set: &SetFrame, level: f64, total: usize) -> Ask {
    let pinned = (&set.pinned & &set.cpus).len();
    let low = set.floor().min(set.max).max(pinned);
    let high = set.max.min(total).max(low);
    let need = up(level - CRUMB).clamp(low, high);
    let (mut want, mut most) = (need, high);
    for weighted in &set.objectives {
        let Objective::Utilization(bound, percent) = weighted.objective else { continue };
        let at = if percent == 0 { real(total) } else { level * 100.0 / f64::from(percent) };
        match bound {
            Bound::Below => want = want.max(up(at - CRUMB)),
            Bound::Near => {
                want = want.max(up(at - 0.5));
                most = most.min(up(at - 0.5));
            }
            Bound::Above if percent > 0 => most = most.min(down(at + CRUMB)),
            Bound::Above => {}
        }
    }
    let most = most.max(need);
    Ask { low, need, room: need, preferred: want.clamp(need, most), high: most }
}

/// The weight of a set by its importance.
pub(super) fn standing(set: &SetFrame) -> f64 {
    weight(set.importance).max(LIGHTEST)
}

/// The target size of each set for its threads; `held` is the number of CPUs held beyond the need. The sum is at most the total,
/// unless the minima do not fit.
pub(super) fn allot(frame: &Frame, asks: &[Ask], levels: &[f64], held: &[usize]) -> Vec<usize> {
    let total = frame.total();
    let sizes: Vec<usize> = frame.sets.iter().map(SetFrame::size).collect();
    let by_use = frame.wt_load().is_some_and(|importance| importance > 0);
    let needs: usize = asks.iter().map(|ask| ask.need).sum();
    if needs > total {
        // No set can consume more than the machine, independent of the number of waiting threads.
        let claim = |at: usize| {
            let (set, ask) = (&frame.sets[at], asks[at]);
            let used = levels[at].min(real(total));
            let weight = standing(set) * if by_use { used } else { 1.0 };
            Claim { low: ask.low, high: whole(levels[at]).clamp(ask.low, ask.need), weight }
        };
        let claims: Vec<Claim> = (0..asks.len()).map(claim).collect();
        let mut allotted = pour_whole(total, &claims, &sizes);
        // A fractionally used CPU goes to the set with the largest fraction, or stays.
        let mut parts: Vec<usize> = (0..asks.len()).filter(|at| allotted[*at] < asks[*at].need).collect();
        let part =
            |at: usize| levels[at] - real(allotted[at]) + if sizes[at] > allotted[at] { PART } else { 0.0 };
        parts.sort_by(|a, b| part(*b).total_cmp(&part(*a)));
        let left = total.saturating_sub(allotted.iter().sum());
        parts.into_iter().take(left).for_each(|at| allotted[at] += 1);
        return allotted;
    }
    // By importance alone: the set with most speculative CPUs has the highest usage.
    let more = |low: &[usize], high: &dyn Fn(usize) -> usize| {
        let claim = |at: usize| Claim {
            low: low[at],
            high: high(at).max(low[at]),
            weight: standing(&frame.sets[at]),
        };
        pour_whole(total, &(0..asks.len()).map(claim).collect::<Vec<_>>(), &sizes)
    };
    let needed: Vec<usize> = asks.iter().map(|ask| ask.need).collect();
    let used = more(&needed, &|at| needed[at] + held[at]);
    more(&used, &|at| asks[at].room)
}

/// The target size of each set for its objectives; never less than its entry in `keeps`.
pub(super) fn prefer(frame: &Frame, asks: &[Ask], keeps: &[usize]) -> Vec<usize> {
    let claim = |(at, (set, ask)): (usize, (&SetFrame, &Ask))| {
        let utilization = |o: &Objective| matches!(o, Objective::Utilization(..));
        let counts = set.objectives.iter().filter(|w| utilization(&w.objective)).map(|w| w.importance).max();
        let weight = standing(set) * f64::from(counts.unwrap_or(0)).max(LIGHTEST);
        Claim { low: 0, high: ask.preferred.saturating_sub(keeps[at]), weight }
    };
    let claims: Vec<Claim> = frame.sets.iter().zip(asks).enumerate().map(claim).collect();
    let beyond: Vec<usize> =
        frame.sets.iter().zip(keeps).map(|(set, keeps)| set.size().saturating_sub(*keeps)).collect();
    let rest = frame.total().saturating_sub(keeps.iter().sum());
    keeps.iter().zip(pour_whole(rest, &claims, &beyond)).map(|(keeps, more)| keeps + more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{above, below, frame, near, set, wanting};

    fn wants(objective: Objective, level: f64) -> (usize, usize) {
        let ask = ask(&wanting(set(1, "0-3"), 1, objective), level, 64);
        (ask.need, ask.preferred)
    }

    #[test]
    fn objectives_turn_demand_into_sizes() {
        assert_eq!(wants(below(80), 8.0), (8, 10));
        assert_eq!(wants(below(80), 8.1), (9, 11));
        assert_eq!(wants(near(50), 8.0), (8, 16));
        assert_eq!(wants(near(75), 8.0), (8, 11), "10.67");
        assert_eq!(wants(above(30), 8.0), (8, 8));
        assert_eq!(wants(below(0), 8.0), (8, 64), "all there are");
        assert_eq!(wants(below(100), 8.04), (8, 8), "a crumb");
    }

    #[test]
    fn a_floor_under_utilization_limits_what_a_ceiling_wants() {
        // `< 50` wants 16 for 8; `> 80` at most 10.
        let both = wanting(wanting(set(1, "0-3"), 1, below(50)), 1, above(80));
        assert_eq!(ask(&both, 8.0, 64), Ask { low: 1, need: 8, room: 8, preferred: 10, high: 10 });
    }

    #[test]
    fn bounds_come_before_demand() {
        let narrow = SetFrame { min: 2, max: 3, ..set(1, "0-3") };
        assert_eq!(ask(&narrow, 9.0, 64), Ask { low: 2, need: 3, room: 3, preferred: 3, high: 3 });
        assert_eq!(ask(&narrow, 0.0, 64).need, 2);
        assert_eq!(ask(&SetFrame { max: 0, min: 0, ..set(1, "") }, 9.0, 64).preferred, 0);
        let pinned = SetFrame { max: 1, pinned: "0-2".parse().unwrap(), ..set(1, "0-3") };
        assert_eq!(ask(&pinned, 0.0, 64), Ask { low: 3, need: 3, room: 3, preferred: 3, high: 3 });
    }

    /// Two sets, each with half of 64 CPUs, with these levels.
    fn halves(first: SetFrame, second: SetFrame, levels: [f64; 2]) -> Vec<usize> {
        let asks = [ask(&first, levels[0], 64), ask(&second, levels[1], 64)];
        allot(&frame(vec![first, second]), &asks, &levels, &[0, 0])
    }

    #[test]
    fn when_all_is_used_shares_are_in_proportion_to_consumption() {
        let (a, b) = (|| set(0, "0-31"), || set(1, "32-63"));
        // 64 : 30 of 64 are 43.6 and 20.4. Demand beyond the machine counts as the machine.
        assert_eq!(halves(a(), b(), [90.0, 30.0]), [44, 20]);
        assert_eq!(halves(a(), b(), [500.0, 64.0]), [32, 32]);
        assert_eq!(halves(SetFrame { max: 10, ..a() }, b(), [90.0, 90.0]), [10, 54]);
        assert_eq!(halves(SetFrame { importance: 3, ..a() }, b(), [90.0, 90.0]), [48, 16]);
    }

    #[test]
    fn objectives_share_what_is_kept_by_no_set() {
        let roomy = || wanting(set(0, "0-31"), 1, below(50));
        let preferred = |levels: [f64; 2], keeps: [usize; 2]| {
            let sets = vec![roomy(), wanting(set(1, "32-63"), 3, below(80))];
            let asks: Vec<Ask> = sets.iter().zip(levels).map(|(set, level)| ask(set, level, 64)).collect();
            assert_eq!(
                allot(&frame(sets.clone()), &asks, &levels, &[0, 0]),
                levels.map(up),
                "they are no needs"
            );
            prefer(&frame(sets), &asks, &keeps)
        };
        assert_eq!(preferred([10.0, 16.0], [10, 16]), [20, 20], "what is left is in no share");
        // 40 and 30 / 0.8 = 38 do not fit: 14 are left, 1 : 3 of them are 3.5 and 10.5, of which only 8 are requested.
        assert_eq!(preferred([20.0, 30.0], [20, 30]), [26, 38]);
        assert_eq!(preferred([20.0, 30.0], [20, 44]), [20, 44], "what was used recently is kept");
        assert_eq!(preferred([20.0, 30.0], [40, 44]), [40, 44], "more than there is");
    }

    #[test]
    fn without_wt_load_importance_alone_counts() {
        let (a, b) = (set(0, "0-31"), set(1, "32-63"));
        let asks = [ask(&a, 60.0, 64), ask(&b, 40.0, 64)];
        let frame = Frame { objectives: Vec::new(), ..frame(vec![a, b]) };
        assert_eq!(allot(&frame, &asks, &[60.0, 40.0], &[0, 0]), [32, 32]);
    }

    #[test]
    fn what_is_held_comes_after_needs_and_before_room() {
        let kept = |need, held, room| {
            let sets = vec![set(0, "0-31"), set(1, "32-63")];
            let levels = [20.0, need];
            let mut asks = [ask(&sets[0], 20.0, 64), ask(&sets[1], need, 64)];
            asks[1].room = room;
            allot(&frame(sets), &asks, &levels, &[held, 0])
        };
        assert_eq!(kept(20.0, 12, 20), [32, 20]);
        assert_eq!(kept(20.0, 30, 20), [44, 20]);
        assert_eq!(kept(20.0, 20, 22), [40, 22]);
        assert_eq!(kept(20.0, 30, 22), [44, 20], "room takes nothing that is used");
        assert_eq!(kept(60.0, 30, 66), [16, 48], "20 to 60");
    }
}
