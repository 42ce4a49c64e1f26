//! The policy, frame by frame. Behaviour over time is in the scenarios.

use super::*;
use crate::testing::{below, frame, load, set, wanting};
use crate::{Costs, SetFrame};

fn sizes(decision: &Decision) -> Vec<usize> {
    decision.expected.iter().map(|set| set.size).collect()
}

fn decide(frame: &Frame) -> Decision {
    Millpond::default().decide(frame)
}

/// The frame 100 ms later, with the plan applied and these loads (used, waiting).
fn next(decision: &Decision, loads: &[(f64, f64)]) -> Frame {
    let mut frame = decision.frame.clone();
    frame.at = frame.at + frame.elapsed;
    for one in &decision.plan.moves {
        for set in &mut frame.sets {
            if set.id == one.from {
                set.cpus.remove(one.cpu);
            } else if set.id == one.to {
                set.cpus.insert(one.cpu);
            }
        }
    }
    let sets = frame.sets.into_iter().zip(loads);
    frame.sets = sets.map(|(set, (used, waiting))| load(set, *used, *waiting)).collect();
    frame
}

#[test]
fn a_pressed_set_gets_all_that_it_needs_at_once_and_it_is_said_why() {
    let decision = decide(&frame(vec![load(set(0, "0-31"), 1.0, 0.0), load(set(1, "32-63"), 32.0, 20.0)]));
    assert_eq!(sizes(&decision), [12, 52]);
    assert_eq!(
        decision.plan.reason,
        "set1 32 -> 52 (32.0 of 32 used, 20.0 more wanted); pset_default 32 -> 12 (1.0 of 32 used)"
    );
    // 20 CPUs for a second, less 20 * 0.5 ms and 1 ms for the batch.
    assert!((decision.score - 19.989).abs() < 1e-6, "{}", decision.score);
    assert_eq!(decision.alternatives[0].moves, []);
    assert_eq!(decision.advice, None);
}

#[test]
fn what_is_idle_stays_where_it_is() {
    let decision = decide(&frame(vec![load(set(0, "0-31"), 31.0, 0.0), load(set(1, "32-63"), 0.0, 0.0)]));
    assert_eq!(decision.plan.moves, []);
    assert_eq!(decision.plan.reason, "no set lacks anything");
}

#[test]
fn what_is_idle_goes_to_who_is_always_busy() {
    let decision = decide(&frame(vec![load(set(0, "0-31"), 32.0, 0.0), load(set(1, "32-63"), 0.0, 0.0)]));
    assert_eq!(sizes(&decision), [63, 1]);
    assert_eq!(
        decision.plan.reason,
        "pset_default 32 -> 63 (it uses all of its 32 and no other set needs 31: they may be of use to it); \
         set1 32 -> 1 (0.0 of 32 used)"
    );
    // Half of 31 for a second, less 31 * 0.5 ms and 1 ms for the batch.
    assert!((decision.score - 15.4835).abs() < 1e-6, "{}", decision.score);
    assert_eq!(decision.alternatives.len(), 1);
    assert_eq!(decision.alternatives[0].moves, []);
}

#[test]
fn needs_come_before_speculative_grants_in_one_batch() {
    let sets = vec![set(0, "0-31"), load(set(1, "32-47"), 16.0, 0.0), load(set(2, "48-63"), 16.0, 4.0)];
    let decision = decide(&frame(sets));
    assert_eq!(
        decision.plan.reason,
        "set1 16 -> 43 (it uses all of its 16 and no other set needs 27: they may be of use to it); \
         set2 16 -> 20 (16.0 of 16 used, 4.0 more wanted); pset_default 32 -> 1 (0.0 of 32 used)"
    );
    let others: Vec<(usize, &str)> =
        decision.alternatives.iter().map(|other| (other.moves.len(), other.why_not.as_str())).collect();
    assert_eq!(
        others,
        [(4, "idle CPUs may be of use to a set that is always busy"), (0, "to do nothing wins nothing")]
    );
    assert!((decision.alternatives[0].score - 3.997).abs() < 1e-6, "{}", decision.alternatives[0].score);
}

#[test]
fn there_is_no_speculative_grant_while_needs_do_not_fit_or_it_costs_more() {
    let full = |waiting| {
        vec![
            load(set(0, "0-31"), 32.0, 0.0),
            load(set(1, "32-33"), 0.0, 0.0),
            load(set(2, "34-37"), 4.0, waiting),
        ]
    };
    assert_eq!(sizes(&decide(&frame(full(0.0)))), [33, 1, 4], "one of 32, which has 8 times the use of 4");
    // 32 and 1 and 6 of 38: the idle one is needed.
    assert_eq!(sizes(&decide(&frame(full(2.0))))[0], 32);
    let dear = Costs { cpu: Nanos::from_millis(501), ..Costs::default() };
    assert_eq!(decide(&Frame { costs: dear, ..frame(full(0.0)) }).plan.reason, "no set lacks anything");
}

#[test]
fn without_wt_load_an_objective_that_limits_forbids_speculative_grants() {
    let sizes_of = |objective, objectives: &[millpond_model::pools::Weighted]| {
        let full = wanting(load(set(0, "0-31"), 32.0, 0.0), 1, objective);
        let objectives = objectives.to_vec();
        sizes(&decide(&Frame { objectives, ..frame(vec![full, load(set(1, "32-63"), 0.0, 0.0)]) }))
    };
    let by_load = frame(Vec::new()).objectives;
    assert_eq!(sizes_of(crate::testing::above(80), &by_load), [40, 24], "32 / 0.8");
    assert_eq!(sizes_of(crate::testing::above(80), &[]), [32, 32]);
    assert_eq!(sizes_of(crate::testing::TIGHT, &[]), [63, 1]);
}

/// A full set of one CPU, after it had four and did not use them.
fn in_backoff() -> Decision {
    let mut policy = Millpond::default();
    let mut decision =
        policy.decide(&frame(vec![load(set(0, "0-3"), 0.0, 0.0), load(set(1, "4"), 1.0, 0.0)]));
    assert_eq!(sizes(&decision), [1, 4]);
    for _ in 0..10 {
        decision = policy.decide(&next(&decision, &[(0.0, 0.0), (1.0, 0.0)]));
        assert_eq!((decision.plan.moves.len(), decision.plan.reason.as_str()), (0, "no set lacks anything"));
    }
    decision = policy.decide(&next(&decision, &[(1.0, 3.0), (1.0, 0.0)]));
    assert_eq!(sizes(&decision), [4, 1]);
    policy.decide(&next(&decision, &[(1.0, 0.0), (1.0, 0.0)]))
}

#[test]
fn a_set_in_its_backoff_is_told_with_what_could_be_done() {
    let decision = in_backoff();
    assert_eq!(decision.plan.moves, []);
    assert_eq!(
        decision.plan.reason,
        "no set lacks anything; set1 uses all of its 1, but it had more before and did not use it: it is asked again in 9.8 s"
    );
    assert_eq!(decision.alternatives[0].moves.len(), 3);
    assert_eq!(decision.alternatives[0].why_not, "idle CPUs were not used before");
}

/// A full set of one CPU, and another set that took all other CPUs when they were idle.
fn claiming() -> Decision {
    let mut policy = Millpond::default();
    let mut decision =
        policy.decide(&frame(vec![load(set(0, "0-31"), 32.0, 0.0), load(set(1, "32-63"), 0.0, 0.0)]));
    for _ in 0..3 {
        decision = policy.decide(&next(&decision, &[(63.0, 0.0), (0.0, 0.0)]));
    }
    policy.decide(&next(&decision, &[(63.0, 0.0), (1.0, 0.0)]))
}

/// The second of two expensive batches.
fn too_early() -> Decision {
    let dear = Costs { batch: Nanos::from_millis(2), ..Costs::default() };
    let two = frame(vec![load(set(0, "0-7"), 1.0, 0.0), load(set(1, "8-9"), 2.0, 1.0)]);
    let mut policy = Millpond::default();
    let first = policy.decide(&Frame { costs: dear, ..two });
    policy.decide(&next(&first, &[(1.0, 0.0), (3.0, 1.0)]))
}

#[test]
fn each_reason_has_a_case_with_its_figures() {
    let two = |a: (f64, f64), b: (f64, f64)| {
        frame(vec![load(set(0, "0-31"), a.0, a.1), load(set(1, "32-63"), b.0, b.1)])
    };
    let small = |a: SetFrame, b: SetFrame| decide(&frame(vec![a, b]));
    let pressed = || load(set(1, "4-7"), 4.0, 1.0);
    let costing = |cpu, batch| Costs { cpu, batch, is_measured: true };
    let dear = |costs| decide(&Frame { costs, ..frame(vec![set(0, "0-3"), pressed()]) });
    let narrow = |id: u32, cpus: &str| SetFrame { max: 1, ..load(set(id, cpus), 1.0, 2.0) };
    let many = ["1", "2", "3", "4", "5"].map(|cpus| narrow(cpus.parse().unwrap(), cpus));
    let unfit = vec![
        SetFrame { min: 6, ..set(0, "0-3") },
        SetFrame { min: 3, ..load(set(1, "4-6"), 3.0, 9.0) },
        SetFrame { min: 1, importance: 9, ..load(set(2, "7"), 1.0, 9.0) },
    ];
    let over = vec![set(0, "0-1"), set(1, "2-3"), SetFrame { max: 2, ..set(2, "4-7") }];
    let recent = prefers(100, |tenth| if tenth % 90 == 0 { 31.0 } else { 1.0 }).1;
    let lends = vec![set(0, "0-31"), load(set(1, "32-47"), 16.0, 0.0), load(set(2, "48-63"), 16.0, 4.0)];
    let cases = [
        (decide(&two((31.0, 0.0), (0.0, 0.0))), "no set lacks anything"),
        (
            small(SetFrame { min: 6, ..set(0, "0-3") }, SetFrame { min: 3, ..set(1, "4-6") }),
            "no set has anything to spare: pset_default has 4 of its minimum of 6",
        ),
        (
            decide(&frame(unfit)),
            "no set has anything to spare: pset_default has 4 of its minimum of 6; \
             set1 has its share (3.0 of 3 used, 9.0 more wanted); set2 has its share (1.0 of 1 used, 9.0 more wanted)",
        ),
        (
            small(set(0, "0-3"), SetFrame { max: 2, ..load(set(1, "4-5"), 2.0, 3.0) }),
            "set1 has its maximum (2.0 of 2 used, 3.0 more wanted)",
        ),
        (
            decide(&frame([vec![set(0, "0")], many.to_vec()].concat())),
            "set1 has its maximum (1.0 of 1 used, 2.0 more wanted); set2 has its maximum (1.0 of 1 used, 2.0 more wanted); \
             set3 has its maximum (1.0 of 1 used, 2.0 more wanted); set4 has its maximum (1.0 of 1 used, 2.0 more wanted); \
             and 1 more",
        ),
        (
            dear(costing(Nanos::from_secs(2), Nanos(0))),
            "set1 would hardly use more (4.0 of 4 used, 1.0 more wanted)",
        ),
        (
            in_backoff(),
            "no set lacks anything; set1 uses all of its 1, but it had more before and did not use it: it is asked again in 9.8 s",
        ),
        (
            prefers(44, |_| 1.0).1,
            "no set lacks anything; the objective of set1 asks for 38 and it has 32: \
             it gets more when that can cost no more than 0.5 % of the work that is done",
        ),
        (
            recent,
            "no set lacks anything; the objective of set1 asks for 38 and it has 32: other sets need the rest, or needed it recently",
        ),
        (
            prefers(45, |_| 1.0).1,
            "set1 32 -> 38 (26.0 of 32 used; its objective asks for 38, and no other set needed 6 recently); \
             pset_default 32 -> 26 (1.0 of 32 used)",
        ),
        (
            dear(costing(Nanos::from_millis(1), Nanos::from_secs(9))),
            "moving 1 would win 1.000 s of CPU time and cost 9.001 s",
        ),
        (
            too_early(),
            "writing a batch takes 2.0 ms, more than a hundredth of the interval: the next one in 0.9 s",
        ),
        (
            small(set(0, "0-3"), SetFrame { min: 3, ..set(1, "4-5") }),
            "set1 2 -> 3 (its minimum is 3); pset_default 4 -> 3 (0.0 of 4 used)",
        ),
        (
            decide(&frame(over)),
            "pset_default 2 -> 4 (others have more than their maximum); set2 4 -> 2 (its maximum is 2)",
        ),
        (
            decide(&two((1.0, 0.0), (32.0, 20.0))),
            "set1 32 -> 52 (32.0 of 32 used, 20.0 more wanted); pset_default 32 -> 12 (1.0 of 32 used)",
        ),
        (
            decide(&frame(lends)),
            "set1 16 -> 43 (it uses all of its 16 and no other set needs 27: they may be of use to it); \
             set2 16 -> 20 (16.0 of 16 used, 4.0 more wanted); pset_default 32 -> 1 (0.0 of 32 used)",
        ),
        (
            decide(&two((32.0, 0.6), (0.0, 0.0))),
            "pset_default 32 -> 63 (32.0 of 32 used, 0.6 more wanted; no other set needs 30 more: they may be of use to it); \
             set1 32 -> 1 (0.0 of 32 used)",
        ),
        (
            claiming(),
            "set1 1 -> 2 (it uses all of its 1 and others hold more than their share); pset_default 63 -> 62 (63.0 of 63 used)",
        ),
        (
            small(load(set(0, "0-62"), 63.0, 40.0), load(set(1, "63"), 1.0, 63.0)),
            "set1 1 -> 32 (1.0 of 1 used, 63.0 more wanted); pset_default 63 -> 32 (63.0 of 63 used, 40.0 more wanted); \
             all together need 128 of 64, shared by weight",
        ),
    ];
    let mut said = Vec::new();
    for (decision, expected) in cases {
        assert_eq!(decision.plan.reason, expected);
        said.push(decision.plan.reason);
        said.extend(decision.alternatives.into_iter().map(|other| other.why_not));
    }
    for phrase in Phrase::ALL {
        assert!(said.iter().any(|text| text.contains(phrase.word())), "no case for {phrase:?}");
    }
}

#[test]
fn a_state_from_before_speculative_grants_is_restored() {
    let mut policy = Millpond::default();
    policy.decide(&frame(vec![load(set(0, "0-31"), 32.0, 0.0), load(set(1, "32-63"), 0.0, 0.0)]));
    let mut state = policy.state();
    for set in state["sets"].as_object_mut().unwrap().values_mut() {
        assert!(set.as_object_mut().unwrap().remove("hope").is_some());
    }
    let mut other = Millpond::default();
    other.restore(&state).unwrap();
    assert_ne!(other.state(), policy.state());
    let again = other.decide(&frame(vec![load(set(0, "0-62"), 63.0, 0.0), load(set(1, "63"), 0.0, 0.0)]));
    assert_eq!(again.plan.moves, []);
}

/// After `tenths` intervals of 100 ms: a set of 32 CPUs with the objective `< 70` that uses 26 of them, 81 %, and another set. 26 / 0.7 are
/// 37.1.
fn prefers(tenths: u64, others: impl Fn(u64) -> f64) -> (Millpond, Decision) {
    let mut policy = Millpond::default();
    let roomy = wanting(load(set(1, "32-63"), 26.0, 0.0), 1, below(70));
    let mut decision = policy.decide(&frame(vec![load(set(0, "0-31"), others(0), 0.0), roomy]));
    for tenth in 1..tenths {
        decision = policy.decide(&next(&decision, &[(others(tenth), 0.0), (26.0, 0.0)]));
    }
    (policy, decision)
}

#[test]
fn a_preference_is_worth_no_cpu_time_and_waits_until_it_can_cost_next_to_nothing() {
    // 0.5 % of 27 CPUs are 0.0135 s in 100 ms. A batch (1 ms), six moves (3 ms) and 100 ms of waiting of six threads take 45 intervals.
    let (_, early) = prefers(44, |_| 1.0);
    assert_eq!(sizes(&early), [32, 32]);
    assert_eq!(
        early.plan.reason,
        "no set lacks anything; the objective of set1 asks for 38 and it has 32: \
         it gets more when that can cost no more than 0.5 % of the work that is done"
    );
    let (_, now) = prefers(45, |_| 1.0);
    assert_eq!(sizes(&now), [26, 38]);
    assert_eq!(
        now.plan.reason,
        "set1 32 -> 38 (26.0 of 32 used; its objective asks for 38, and no other set needed 6 recently); \
         pset_default 32 -> 26 (1.0 of 32 used)"
    );
    assert!((now.score + 0.004).abs() < 1e-9, "{}", now.score);
    assert_eq!(now.alternatives[0].why_not, "an objective would not be met");
}

#[test]
fn what_was_needed_recently_does_not_move_for_a_preference() {
    let (_, decision) = prefers(100, |tenth| if tenth % 90 == 0 { 31.0 } else { 1.0 });
    assert_eq!(sizes(&decision), [32, 32]);
    assert_eq!(
        decision.plan.reason,
        "no set lacks anything; the objective of set1 asks for 38 and it has 32: other sets need the rest, or needed it recently"
    );
}

#[test]
fn what_moved_for_a_preference_comes_back_in_the_decision_in_which_it_is_needed() {
    let (mut policy, decision) = prefers(45, |_| 1.0);
    let dear = Costs { batch: Nanos::from_millis(5), ..Costs::default() };
    let back = policy.decide(&Frame { costs: dear, ..next(&decision, &[(26.0, 4.0), (26.0, 0.0)]) });
    assert_eq!(sizes(&back), [30, 34], "no batch is too early for it");
}

#[test]
fn at_saturation_sets_share_by_consumption_and_importance() {
    let two = |importance| {
        vec![load(set(0, "0-62"), 63.0, 40.0), SetFrame { importance, ..load(set(1, "63"), 1.0, 63.0) }]
    };
    let equal = decide(&frame(two(1)));
    assert_eq!(sizes(&equal), [32, 32]);
    assert!(
        equal.plan.reason.ends_with("all together need 128 of 64, shared by weight"),
        "{}",
        equal.plan.reason
    );
    assert_eq!(sizes(&decide(&frame(two(3)))), [16, 48]);
}

#[test]
fn a_set_below_its_minimum_is_filled_without_any_demand() {
    let decision = decide(&frame(vec![set(0, "0-3"), SetFrame { min: 3, ..set(1, "4-5") }]));
    assert_eq!(sizes(&decision), [3, 3]);
    assert_eq!(decision.plan.reason, "set1 2 -> 3 (its minimum is 3); pset_default 4 -> 3 (0.0 of 4 used)");
}

#[test]
fn what_is_above_a_maximum_goes_to_the_default_set_or_to_who_needs_it() {
    let over = || SetFrame { max: 2, ..set(2, "4-7") };
    let decision = decide(&frame(vec![set(0, "0-1"), set(1, "2-3"), over()]));
    assert_eq!(sizes(&decision), [4, 2, 2]);
    assert_eq!(
        decision.plan.reason,
        "pset_default 2 -> 4 (others have more than their maximum); set2 4 -> 2 (its maximum is 2)"
    );
    let decision = decide(&frame(vec![set(0, "0-1"), load(set(1, "2-3"), 2.0, 1.0), over()]));
    assert_eq!(sizes(&decision), [3, 3, 2]);
}

#[test]
fn minima_that_do_not_fit_break_nothing() {
    let sets = vec![
        SetFrame { min: 6, ..set(0, "0-3") },
        SetFrame { min: 3, ..load(set(1, "4-6"), 3.0, 9.0) },
        SetFrame { min: 1, importance: 9, ..load(set(2, "7"), 1.0, 9.0) },
    ];
    let decision = decide(&frame(sets));
    assert_eq!(decision.plan.moves, []);
    assert!(decision.plan.reason.starts_with("no set has anything to spare"), "{}", decision.plan.reason);
}

#[test]
fn a_move_that_costs_more_than_it_wins_is_not_made() {
    let dear = Costs { cpu: Nanos::from_millis(1), batch: Nanos::from_secs(9), is_measured: true };
    let one = Frame { costs: dear, ..frame(vec![set(0, "0-3"), load(set(1, "4-7"), 4.0, 1.0)]) };
    let decision = decide(&one);
    assert_eq!(decision.plan.moves, []);
    assert_eq!(decision.plan.reason, "moving 1 would win 1.000 s of CPU time and cost 9.001 s");
    assert_eq!(decision.alternatives[0].moves.len(), 1);
    let cheap = Costs { batch: Nanos(0), ..dear };
    assert_eq!(decide(&Frame { costs: cheap, ..one.clone() }).plan.moves.len(), 1);
    let far = Costs { cpu: Nanos::from_secs(2), ..cheap };
    let decision = decide(&Frame { costs: far, ..one });
    assert_eq!(decision.plan.reason, "set1 would hardly use more (4.0 of 4 used, 1.0 more wanted)");
}

#[test]
fn where_writing_is_dear_there_is_one_batch_in_a_second() {
    let dear = Costs { batch: Nanos::from_millis(2), ..Costs::default() };
    let mut policy = Millpond::default();
    let first =
        Frame { costs: dear, ..frame(vec![load(set(0, "0-7"), 1.0, 0.0), load(set(1, "8-9"), 2.0, 1.0)]) };
    let mut decision = policy.decide(&first);
    assert_eq!(sizes(&decision), [7, 3]);
    let mut waited = 0;
    loop {
        decision = policy.decide(&next(&decision, &[(1.0, 0.0), (3.0, 1.0)]));
        if !decision.plan.moves.is_empty() {
            break;
        }
        waited += 1;
        if waited == 1 {
            assert_eq!(
                decision.plan.reason,
                "writing a batch takes 2.0 ms, more than a hundredth of the interval: the next one in 0.9 s"
            );
        }
    }
    assert_eq!(waited, 2, "no need waits for more decisions");
}

#[test]
fn a_need_is_served_however_often_it_was_over_before_processors_came() {
    let mut policy = Millpond::default();
    let one = policy.decide(&frame(vec![load(set(0, "0-7"), 8.0, 0.0), load(set(1, "8-9"), 2.0, 0.0)]));
    let given = policy.decide(&next(&one, &[(1.0, 0.0), (2.0, 2.0)]));
    assert_eq!(sizes(&given), [6, 4]);
    let over = policy.decide(&next(&given, &[(6.0, 3.0), (0.5, 0.0)]));
    assert_eq!(sizes(&over), [9, 1], "the other needs it more by now");
    let again = policy.decide(&next(&over, &[(1.0, 0.0), (1.0, 2.0)]));
    assert_eq!(sizes(&again), [7, 3]);
}

#[test]
fn a_set_that_holds_what_it_does_not_use_gives_it_when_another_lacked_it_in_three_decisions() {
    let mut policy = Millpond::default();
    // Two sets alternate too quickly to follow: each keeps the CPUs that it needed.
    let mut decision =
        policy.decide(&frame(vec![load(set(0, "0-7"), 1.0, 0.0), load(set(1, "8-15"), 8.0, 6.0)]));
    for tenth in 0..6 {
        let loads = |at: usize, has: usize| {
            if tenth % 2 == at { (real(has), 14.0 - real(has)) } else { (1.0, 0.0) }
        };
        let sizes = sizes(&decision);
        decision = policy.decide(&next(&decision, &[loads(0, sizes[0]), loads(1, sizes[1])]));
    }
    assert_eq!(sizes(&decision), [8, 8]);
    let taken: Vec<Vec<usize>> = (0..4)
        .map(|_| {
            let has = sizes(&decision)[1];
            decision = policy.decide(&next(&decision, &[(1.0, 0.0), (real(has), 14.0 - real(has))]));
            sizes(&decision)
        })
        .collect();
    assert!(taken[1..].contains(&vec![2, 14]) && taken[2][1] == 14, "{taken:?}");
}

#[test]
fn processors_that_did_not_move_are_left_alone_for_a_while() {
    let mut policy = Millpond::default();
    let frame = frame(vec![load(set(0, "0-3"), 0.5, 0.0), load(set(1, "4-5"), 2.0, 1.0)]);
    let asked = |at: u64, policy: &mut Millpond| {
        let decision = policy.decide(&Frame { at: Nanos::from_millis(at), ..frame.clone() });
        decision.plan.moves.iter().map(|one| one.cpu.0).collect::<Vec<u32>>()
    };
    let tried: Vec<Vec<u32>> = (1..=5).map(|tenth| asked(100 * tenth, &mut policy)).collect();
    assert_eq!(tried, [vec![0], vec![1], vec![2], vec![3], vec![]]);
    assert_eq!(asked(1100, &mut policy), [0u32; 0], "refused at 0.2 s, until 1.2 s");
    assert_eq!(asked(1200, &mut policy), [0]);
}

#[test]
fn counters_that_began_anew_neither_give_nor_take() {
    let anew = SetFrame { is_reset: true, ..set(0, "0-3") };
    let decision = decide(&frame(vec![anew, load(set(1, "4-5"), 2.0, 2.0)]));
    assert_eq!(decision.plan.moves, []);
    assert!(decision.plan.reason.contains("set1 has its share"), "{}", decision.plan.reason);
}

#[test]
fn a_set_that_may_have_nothing_stays_empty() {
    let nothing = SetFrame { min: 0, max: 0, ..load(set(1, ""), 0.0, 5.0) };
    assert_eq!(decide(&frame(vec![set(0, "0-3"), nothing])).plan.moves, []);
}

#[test]
fn a_frame_that_contradicts_itself_moves_nothing_wrong() {
    let twice = frame(vec![load(set(0, "0-3"), 0.0, 0.0), load(set(1, "3-4"), 2.0, 2.0)]);
    let decision = decide(&twice);
    assert_eq!(crate::check(&twice, &decision.plan.moves), []);
    assert_eq!(decide(&Frame::default()).plan.moves, []);
    let no_time = Frame { elapsed: Nanos(0), ..frame(vec![set(0, "0-3"), load(set(1, "4"), 1.0, 9.0)]) };
    assert_eq!(decide(&no_time).plan.moves, []);
}

#[test]
fn it_goes_on_where_it_was_stopped() {
    let mut first = Millpond::default();
    let mut decision =
        first.decide(&frame(vec![load(set(0, "0-7"), 0.3, 0.0), load(set(1, "8-9"), 2.0, 1.7)]));
    for loads in [[(1.0, 0.0), (0.1, 0.0)], [(5.3, 0.0), (2.0, 0.0)], [(1.1, 0.0), (4.0, 0.7)]] {
        let mut second = Millpond::default();
        second.restore(&serde_json::from_str(&first.state().to_string()).unwrap()).unwrap();
        assert_eq!(second.state(), first.state());
        let frame = next(&decision, &loads);
        decision = first.decide(&frame);
        assert_eq!(second.decide(&frame), decision);
    }
    assert!(first.restore(&Value::from(1)).is_err());
}

#[test]
fn bursts_in_idle_sets_are_advised_to_share() {
    // A set that wants 20 CPUs for 100 ms of each second, and two idle ones; they are never short at the same time.
    let mut policy = Millpond::default();
    let narrow = |id: u32, cpus: &str| SetFrame { max: 8, ..set(id, cpus) };
    let mut last = None;
    for tenth in 0..300u64 {
        let bursts = |phase: u64, of: SetFrame| {
            if tenth % 6 == phase { load(of, 8.0, 4.0) } else { load(of, 0.2, 0.0) }
        };
        let sets = vec![
            load(set(0, "0-15"), 0.1, 0.0),
            bursts(0, narrow(1, "16-23")),
            bursts(3, narrow(2, "24-31")),
        ];
        last = Some(policy.decide(&Frame { at: Nanos::from_millis(100 * tenth), ..frame(sets) }));
    }
    let advice = last.unwrap().advice.unwrap();
    // Each is busy for a sixth of the time: (8 + 5 * 0.2) / 6 = 1.5, twice, and 0.1; too small in a third of all intervals.
    assert!(
        advice.starts_with("one shared set would serve these loads better: 3.1 of 32 CPUs are used"),
        "{advice}"
    );
    assert!(
        advice.contains("in 33 % of all intervals")
            || advice.contains("in 34 %")
            || advice.contains("in 32 %"),
        "{advice}"
    );
}

/// The advice after `tenths` intervals of 100 ms with these loads (used, waiting), for a set of four CPUs and one of 28.
fn advised(tenths: u64, service: (f64, f64), batch: (f64, f64)) -> Option<String> {
    let mut policy = Millpond::default();
    let mut advice = None;
    for tenth in 0..tenths {
        let own = SetFrame { max: 4, ..set(1, "28-31") };
        let sets = vec![load(set(0, "0-27"), batch.0, batch.1), load(own, service.0, service.1)];
        advice = policy.decide(&Frame { at: Nanos::from_millis(100 * tenth), ..frame(sets) }).advice;
    }
    advice
}

#[test]
fn a_service_that_waits_in_a_set_of_its_own_beside_a_batch_job_is_advised_to_share_by_weights() {
    // A fifth of a thread waits while two run, though half of the set is idle.
    let expected = "sharing by weights (cpu.weight) would serve set1 better than a set of its own: it uses 2.0 of 4.0 CPUs on average, and yet its \
                    threads wait 10 % of the time that they run, while pset_default would use whatever is idle";
    assert_eq!(advised(150, (2.0, 0.2), (28.0, 4.0)).as_deref(), Some(expected));
    assert_eq!(advised(90, (2.0, 0.2), (28.0, 4.0)), None, "not enough was seen");
    assert_eq!(advised(150, (2.0, 0.05), (28.0, 4.0)), None, "it hardly waits");
    assert_eq!(advised(150, (3.0, 0.2), (28.0, 4.0)), None, "it needs its set");
    assert_eq!(advised(150, (2.0, 0.2), (20.0, 0.0)), None, "nobody would use what is idle");
}
