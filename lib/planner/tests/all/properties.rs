//! Properties of every policy for any frames.

use millpond_model::pools::{Bound, Locality, Objective, Weighted};
use millpond_model::{CpuId, CpuSet, Lgroup, LgrpId, Nanos, PsetId};
use millpond_planner::{Costs, Frame, POLICIES, Places, SetFrame, Waiting, check, demand, policy};
use proptest::prelude::*;
use std::sync::Arc;

fn objective() -> impl Strategy<Value = Weighted> {
    let bound = prop_oneof![Just(Bound::Below), Just(Bound::Above), Just(Bound::Near)];
    let locality = prop_oneof![Just(Locality::Tight), Just(Locality::Loose), Just(Locality::None)];
    let objective = prop_oneof![
        (bound, 0u8..=100).prop_map(|(bound, percent)| Objective::Utilization(bound, percent)),
        locality.prop_map(Objective::Locality),
    ];
    (0u32..5, objective).prop_map(|(importance, objective)| Weighted { importance, objective })
}

fn waiting() -> impl Strategy<Value = Waiting> {
    let time = (0u64..3_000).prop_map(Nanos::from_millis);
    prop_oneof![
        3 => time.clone().prop_map(Waiting::Threads),
        1 => time.prop_map(Waiting::Any),
        1 => Just(Waiting::Unknown),
    ]
}

prop_compose! {
    /// A set without CPUs.
    fn bare()(
        min in 0usize..4,
        max in prop_oneof![0usize..6, Just(65_536)],
        importance in -1i64..6,
        objectives in prop::collection::vec(objective(), 0..3),
        has_processes in any::<bool>(),
    ) -> SetFrame {
        SetFrame {
            id: PsetId(0), name: String::new(), cpus: CpuSet::new(), pinned: CpuSet::new(), idle: CpuSet::new(),
            min, max, importance, objectives, has_processes, busy: Nanos(0), waiting: Waiting::Unknown, is_reset: false,
        }
    }
}

/// The activity of a set in a frame: utilization, waiting, and whether counters were reset.
type Did = (f64, Waiting, bool);

prop_compose! {
    fn machine()(
        sets in prop::collection::vec(bare(), 1..6),
        cpus in prop::collection::vec((0usize..6, any::<bool>(), any::<bool>()), 1..40),
        wt_load in any::<bool>(),
        strands in 1u32..4,
        groups in 1u32..4,
        costs in (0u64..20, 0u64..20),
    ) -> Frame {
        let count = sets.len();
        let mut sets: Vec<SetFrame> = sets;
        for (at, set) in sets.iter_mut().enumerate() {
            set.id = PsetId(u32::try_from(at).expect("few"));
            set.name = format!("set{at}");
        }
        let width = u32::try_from(cpus.len()).expect("few");
        for (cpu, (set, is_pinned, is_idle)) in (0..).zip(cpus) {
            let set = &mut sets[set % count];
            set.cpus.insert(CpuId(cpu));
            if is_pinned && cpu % 3 == 0 { set.pinned.insert(CpuId(cpu)); }
            if is_idle { set.idle.insert(CpuId(cpu)); }
        }
        let core = |first: u32| (first..(first + strands).min(width)).map(CpuId).collect();
        let cores = (0..width).step_by(strands as usize).map(core).collect();
        let group = |id: u32| Lgroup {
            id: LgrpId(id),
            cpus: (0..width).filter(|cpu| cpu % groups == id).map(CpuId).collect(),
            distances: Lgroup::even_distances(id as usize, groups as usize),
            memory_kib: None,
        };
        let lgroups = (0..groups).map(group).collect();
        let wt = Weighted { importance: 1, objective: Objective::WtLoad };
        Frame {
            at: Nanos(0),
            elapsed: Nanos::from_millis(100),
            objectives: if wt_load { vec![wt] } else { Vec::new() },
            sets,
            places: Arc::new(Places { cores, lgroups }),
            costs: Costs { cpu: Nanos::from_millis(costs.0), batch: Nanos::from_millis(costs.1), is_measured: true },
        }
    }
}

fn story() -> impl Strategy<Value = (Frame, Vec<Vec<Did>>)> {
    let did = (0.0f64..=1.0, waiting(), prop::bool::weighted(0.05));
    (machine(), prop::collection::vec(prop::collection::vec(did, 6), 1..20))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small"
)]
fn live(frame: &mut Frame, did: &[Did]) {
    frame.at = frame.at + frame.elapsed;
    for (set, (share, waiting, is_reset)) in frame.sets.iter_mut().zip(did) {
        // More often full than by chance.
        let share = (share * 1.3).min(1.0);
        set.busy = Nanos((share * set.size() as f64 * frame.elapsed.0 as f64) as u64);
        set.waiting = *waiting;
        set.is_reset = *is_reset;
    }
}

fn carry_out(frame: &mut Frame, moves: &[millpond_model::Move]) {
    for one in moves {
        for set in &mut frame.sets {
            if set.id == one.from {
                set.cpus.remove(one.cpu);
            } else if set.id == one.to {
                set.cpus.insert(one.cpu);
            }
        }
    }
}

/// A machine with all sets within their bounds and without utilization objectives.
fn at_ease(mut frame: Frame) -> Frame {
    for set in &mut frame.sets {
        set.objectives.retain(|weighted| !matches!(weighted.objective, Objective::Utilization(..)));
        set.min = set.min.min(set.size());
        set.max = set.max.max(set.size());
    }
    frame
}

fn is_able(set: &SetFrame) -> bool {
    !set.cpus.is_empty() || !(set.has_processes || set.id.is_default())
}

/// The demand in whole CPUs, less a small fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
fn needs(frame: &Frame, set: &SetFrame) -> usize {
    demand(set, frame.elapsed).map_or(set.size(), |need| (need.wanted - 0.05).ceil() as usize)
}

proptest! {
    #[test]
    fn every_plan_passes_the_checker_and_is_the_same_twice((frame, story) in story()) {
        for name in POLICIES {
            let (mut frame, mut one, mut other) = (frame.clone(), policy(name).unwrap(), policy(name).unwrap());
            for did in &story {
                live(&mut frame, did);
                let decision = one.decide(&frame);
                prop_assert_eq!(check(&frame, &decision.plan.moves), []);
                prop_assert!(!decision.plan.reason.starts_with("nothing is moved, because"), "{}", decision.plan.reason);
                prop_assert!(!decision.plan.reason.is_empty());
                prop_assert!(decision.score.is_finite());
                // The reason agrees with the figures.
                let lacks = |set: &SetFrame| {
                    let needs = demand(set, frame.elapsed).map_or(0, |need| need.cpus());
                    set.size() < needs.max(set.floor().min(set.max))
                };
                let says_none = decision.plan.reason.starts_with("no set lacks anything");
                prop_assert!(!says_none || !frame.sets.iter().any(lacks), "{}", decision.plan.reason);
                prop_assert_eq!(&other.decide(&frame), &decision);
                let text = serde_json::to_string(&decision).unwrap();
                prop_assert_eq!(&serde_json::from_str::<millpond_planner::Decision>(&text).unwrap(), &decision);
                // Some plans are not applied.
                if did[0].0 < 0.9 {
                    carry_out(&mut frame, &decision.plan.moves);
                }
                let state = one.state();
                other.restore(&state).unwrap();
                prop_assert_eq!(other.state(), state);
            }
        }
    }

    #[test]
    fn nothing_is_moved_while_every_demand_is_met_and_nobody_hopes((frame, story) in story()) {
        let mut policy = policy("millpond").unwrap();
        let mut frame = at_ease(frame);
        prop_assume!(frame.sets.iter().all(is_able));
        for did in &story {
            live(&mut frame, did);
            for set in &mut frame.sets {
                // A full set may get speculative grants.
                let most = u64::try_from(set.size()).unwrap() * frame.elapsed.0 / 100 * 97;
                set.busy = Nanos(set.busy.0.min(most));
                set.waiting = Waiting::Threads(Nanos(0));
            }
            prop_assert!(frame.sets.iter().all(|set| needs(&frame, set) <= set.size()));
            prop_assert_eq!(policy.decide(&frame).plan.moves, []);
        }
    }

    #[test]
    fn only_what_is_idle_or_came_by_hope_is_given_for_hope_and_only_to_who_is_full((frame, story) in story()) {
        let mut policy = policy("millpond").unwrap();
        let mut frame = at_ease(frame);
        prop_assume!(frame.sets.iter().all(is_able));
        // The smallest size so far was not speculative.
        let mut least: Vec<usize> = frame.sets.iter().map(SetFrame::size).collect();
        for did in &story {
            live(&mut frame, did);
            frame.sets.iter_mut().for_each(|set| set.waiting = Waiting::Threads(Nanos(0)));
            let before = frame.clone();
            let moves = policy.decide(&frame).plan.moves;
            carry_out(&mut frame, &moves);
            for ((was, is), least) in before.sets.iter().zip(&frame.sets).zip(&mut least) {
                let is_full = was.busy.0 / 98 * 100 + 100 >= u64::try_from(was.size()).unwrap() * frame.elapsed.0;
                prop_assert!(is.size() <= was.size() || (is_full && !was.is_reset));
                let kept = was.floor().max(needs(&before, was)).min(was.floor().max(*least));
                prop_assert!(is.size() >= was.size() || is.size() >= kept);
                *least = (*least).min(is.size());
            }
        }
    }
}
