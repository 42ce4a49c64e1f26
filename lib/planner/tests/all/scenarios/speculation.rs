//! Programs that run one thread per CPU, programs that only look like them, and the other sets.

use super::world::{self, Counted, MALLEABLE, Noise, Step, World, batches, set, unmet, wanting};
use super::{below, halves, turns};
use millpond_model::Nanos;
use millpond_model::pools::{Bound, Objective};
use millpond_planner::{Costs, SetFrame};

/// A set of one CPU, and one that has all others.
fn corner() -> Vec<SetFrame> {
    vec![set(0, "0-62"), set(1, "63")]
}

/// Indices of the frames in which CPUs moved.
fn when(steps: &[Step]) -> Vec<usize> {
    steps.iter().enumerate().filter(|(_, step)| step.moves > 0).map(|(at, _)| at).collect()
}

#[test]
fn one_stops_and_the_malleable_other_has_all_and_when_it_starts_again_they_share() {
    // The published experiment: two sets of 32, each fully busy. It ran for an hour.
    let mut world = World::new("millpond", halves());
    assert_eq!(batches(&world.run(20, |_| vec![MALLEABLE; 2])), 0, "nothing is idle");
    let alone = world.run(600, |_| vec![0.0, MALLEABLE]);
    assert_eq!(alone[0].sizes, [1, 63]);
    assert_eq!(
        alone[0].decision.plan.reason,
        "set1 32 -> 63 (it uses all of its 32 and no other set needs 31: they may be of use to it); \
         pset_default 32 -> 1 (0.0 of 32 used)"
    );
    assert_eq!(batches(&alone), 1);
    // It restarts with 32 threads.
    let again = world.run(1, |_| vec![32.0, MALLEABLE]);
    assert_eq!(again[0].sizes, [32, 32], "what came by hope goes before needs are shared");
    assert_eq!(batches(&world.run(600, |_| vec![MALLEABLE; 2])), 0);
    // The same again.
    assert_eq!(world.run(1, |_| vec![0.0, MALLEABLE])[0].sizes, [1, 63]);
}

#[test]
fn who_starts_again_with_one_thread_on_one_processor_comes_to_its_share() {
    for (importance, shares) in [(1, [32, 32]), (3, [48, 16])] {
        let first = SetFrame { importance, ..set(0, "0-31") };
        let mut world = World::new("millpond", vec![first, set(1, "32-63")]);
        world.run(20, |_| vec![MALLEABLE; 2]);
        assert_eq!(world.run(100, |_| vec![0.0, MALLEABLE])[0].sizes, [1, 63]);
        let again = world.run(600, |_| vec![MALLEABLE; 2]);
        // Of set1, the 31 speculative CPUs are shared; the earlier ones are its own.
        let most = shares[0].min(32);
        let climb: Vec<usize> = when(&again).into_iter().map(|at| again[at].sizes[0]).collect();
        assert_eq!(climb, [2, 4, 8, 16, most], "importance {importance}");
        assert_eq!(when(&again), [0, 1, 2, 3, 4], "importance {importance}");
        // The same again.
        assert_eq!(world.run(20, |_| vec![0.0, MALLEABLE])[0].sizes, [1, 63]);
        assert_eq!(world.run(20, |_| vec![MALLEABLE; 2])[19].sizes[0], most);
    }
}

#[test]
fn a_program_that_is_slow_to_run_fewer_threads_does_not_take_back_what_others_claim() {
    let mut world = World::new("millpond", halves());
    world.run(20, |_| vec![MALLEABLE; 2]);
    world.run(100, |_| vec![0.0, MALLEABLE]);
    // It runs as many threads as it had CPUs half a second ago.
    let mut had = vec![63usize; 5];
    let again = world.live(100, |_, sizes| {
        had.push(sizes[1]);
        vec![MALLEABLE, world::real(had.remove(0))]
    });
    assert_eq!(again[99].sizes, [32, 32]);
    assert!(again.windows(2).all(|pair| pair[0].sizes[0] <= pair[1].sizes[0]), "never back");
    assert_eq!(batches(&again[50..]), 0);
}

#[test]
fn several_that_want_everything_come_to_equal_shares_and_stay_there() {
    for (count, wide) in [(2, 32), (3, 21), (4, 16), (8, 8)] {
        for stopped in 1..count {
            let sets: Vec<SetFrame> =
                (0..count).map(|id| set(id, &format!("{}-{}", id * wide, (id + 1) * wide - 1))).collect();
            let mut world = World::new("millpond", sets);
            let all = || vec![MALLEABLE; count as usize];
            assert_eq!(batches(&world.run(20, |_| all())), 0);
            let mut some = all();
            some[..stopped as usize].fill(0.0);
            world.run(100, |_| some.clone());
            let again = world.run(600, |_| all());
            let sizes = &again[599].sizes;
            let told = format!("{stopped} of {count} stopped: {sizes:?}");
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(world::real(*most) <= 1.1 * world::real(*least) + 1.0, "{told}");
            assert_eq!(batches(&again[100..]), 0, "{told}");
        }
    }
}

#[test]
fn who_starts_again_with_one_thread_that_spins_is_asked_once() {
    let mut world = World::new("millpond", halves());
    world.run(20, |_| vec![MALLEABLE; 2]);
    world.run(100, |_| vec![0.0, MALLEABLE]);
    let again = world.run(5000, |_| vec![1.0, MALLEABLE]);
    // It gets one more, does not use it for a second, and gives it back.
    assert_eq!(when(&again), [0, 10]);
    assert_eq!(again[4999].sizes, [1, 63]);
}

#[test]
fn who_starts_again_with_threads_that_wait_has_what_it_lent_whoever_else_claims() {
    let thirds = || vec![set(0, "0-20"), set(1, "21-41"), set(2, "42-62")];
    let mut world = World::new("millpond", thirds());
    world.run(20, |_| vec![MALLEABLE; 3]);
    assert_eq!(world.run(50, |_| vec![0.0, 0.0, MALLEABLE])[49].sizes, [1, 1, 61]);
    // One restarts with 21 waiting threads, one with one thread.
    let again = world.run(200, |_| vec![21.0, MALLEABLE, MALLEABLE]);
    assert_eq!(again[0].sizes[0], 21);
    assert_eq!(again[199].sizes, [21, 21, 21]);
    assert_eq!(batches(&again[50..]), 0);
}

#[test]
fn a_stop_within_a_frame_and_a_start_of_which_only_pressure_tells() {
    let mut world = World::new("millpond", halves());
    world.counted = Counted::Any;
    world.run(20, |_| vec![MALLEABLE; 2]);
    // Half of the frame was still used.
    assert_eq!(world.step(&[16.0, MALLEABLE]).sizes, [16, 48]);
    assert_eq!(world.step(&[0.0, MALLEABLE]).sizes, [1, 63]);
    // 32 threads on 1, then 2, 4, 8 and 16 CPUs: pressure doubles the size each time.
    let again = world.run(5, |_| vec![32.0, MALLEABLE]);
    let sizes: Vec<usize> = again.iter().map(|step| step.sizes[0]).collect();
    assert_eq!(sizes, [2, 4, 8, 16, 32]);
    assert_eq!(batches(&world.run(100, |_| vec![MALLEABLE; 2])), 0);
}

#[test]
fn a_program_may_be_slow_to_run_fewer_threads() {
    let mut world = World::new("millpond", halves());
    world.run(5, |_| vec![MALLEABLE; 2]);
    world.run(5, |_| vec![0.0, MALLEABLE]);
    assert_eq!(world.step(&[32.0, MALLEABLE]).sizes, [32, 32]);
    // For half a second there are 63 threads on 32 CPUs. They are not a need that others should give CPUs for.
    assert_eq!(batches(&world.run(5, |_| vec![32.0, 63.0])), 0);
    assert_eq!(batches(&world.run(50, |_| vec![32.0, MALLEABLE])), 0);
}

#[test]
fn threads_that_go_on_waiting_after_a_second_are_a_need() {
    let mut world = World::new("millpond", halves());
    world.run(5, |_| vec![MALLEABLE; 2]);
    world.run(5, |_| vec![0.0, MALLEABLE]);
    world.step(&[32.0, MALLEABLE]);
    let slow = world.run(20, |_| vec![32.0, 63.0]);
    assert_eq!(when(&slow), [9]);
    // 63 and 32 of 95 are 42.4 and 21.6 of 64.
    assert_eq!(slow[9].sizes, [22, 42]);
}

#[test]
fn a_program_may_be_slow_to_run_more_threads() {
    let mut world = World::new("millpond", halves());
    world.run(5, |_| vec![MALLEABLE; 2]);
    world.run(1, |_| vec![0.0, MALLEABLE]);
    // It does so after three seconds: the trial has failed by then, but the set keeps its CPUs.
    assert_eq!(batches(&world.run(30, |_| vec![0.0, 32.0])), 0);
    assert_eq!(batches(&world.run(10, |_| vec![0.0, MALLEABLE])), 0);
    // Its usage rose by itself, so it may get a speculative grant within the ten seconds.
    assert_eq!(world.step(&[32.0, MALLEABLE]).sizes, [32, 32]);
    assert_eq!(world.step(&[0.0, MALLEABLE]).sizes, [1, 63]);
}

#[test]
fn one_spinning_thread_is_asked_once_and_nothing_moves_after_it() {
    let mut world = World::new("millpond", corner());
    let steps = world.run(1800, |_| vec![0.3, 1.0]);
    assert_eq!(steps[0].sizes, [1, 63]);
    assert_eq!(when(&steps), [0], "what is not used stays where it is");
}

#[test]
fn two_that_spin_do_not_pass_processors_to_and_fro() {
    let mut world = World::new("millpond", corner());
    let steps = world.run(7000, |_| vec![1.0, 1.0]);
    // The donor gets no speculative grant for ten minutes: it had these CPUs and did not use them.
    assert_eq!(when(&steps), [0, 6000]);
}

#[test]
fn one_spinning_thread_is_asked_at_most_once_in_ten_seconds_then_twenty_and_so_on() {
    let mut world = World::new("millpond", vec![set(0, "0-2"), set(1, "3")]);
    // Half a second after it got its second CPU, the other set needs the CPUs back for a moment.
    let mut had = 0;
    let steps = world.live(20_000, |_, sizes| {
        had = if sizes[1] > 1 { had + 1 } else { 0 };
        vec![if had >= 15 { 3.0 } else { 0.0 }, 1.0]
    });
    let given: Vec<usize> = when(&steps).into_iter().filter(|at| steps[*at].sizes[1] == 3).collect();
    // One second for the trial, then a backoff of 10 s, 20 s, … and at most 600 s.
    let gaps: Vec<usize> = given.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [110, 210, 410, 810, 1610, 3210, 6010, 6010]);
    assert!(steps.windows(2).all(|pair| pair[0].unmet.min(pair[1].unmet) < 1e-9), "back in one frame");
    let told = &steps[20].decision.plan.reason;
    assert_eq!(
        told,
        "no set lacks anything; set1 uses all of its 1, but it had more before and did not use it: it is asked again in 9.0 s"
    );
}

#[test]
fn a_neighbour_that_comes_and_goes_lacks_for_one_frame_at_most() {
    // One alternates between 63 and 2. The other has one CPU and would use all, or one thread that spins.
    for (period, spinner) in [(1.0, 26), (5.0, 10), (30.0, 10)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let swings = (240.0 / period) as usize;
        for (load, most) in [(MALLEABLE, swings + 2), (1.0, spinner)] {
            let mut world = World::new("millpond", corner());
            let mut turn = turns(period);
            // It takes back all that it gave.
            let steps = world.run(1200, |end| vec![if turn(end)[0] > 2.0 { 63.0 } else { 2.0 }, load]);
            let told = format!("{period} s, {load}: {} batches", batches(&steps));
            assert!(batches(&steps) <= most, "{told}");
            assert!(steps.windows(2).all(|pair| pair[0].unmet.min(pair[1].unmet) < 1e-9), "{told}");
            let frames = steps.iter().filter(|step| step.unmet > 1e-9).count();
            assert!(frames <= batches(&steps).div_ceil(2), "{told}, {frames} frames lacking");
            assert!(batches(&steps) > 1, "{told}");
        }
    }
}

#[test]
fn swings_that_are_too_quick_are_no_idle_time() {
    for period in [0.2, 0.4] {
        for load in [MALLEABLE, 1.0] {
            let mut world = World::new("millpond", corner());
            let mut turn = turns(period);
            let steps = world.run(1200, |end| vec![turn(end)[0], load]);
            assert!(batches(&steps[..100]) <= 20, "{period} s, {load}: {:?}", when(&steps));
            assert!(batches(&steps[100..]) <= 60, "{period} s, {load}: {:?}", when(&steps));
        }
    }
}

#[test]
fn noise_of_a_tenth_is_nothing_to_hope_for() {
    let thirds = || vec![set(0, "0-20"), set(1, "21-41"), set(2, "42-63")];
    let roomy = || vec![wanting(set(0, "0-31"), below(80)), set(1, "32-63")];
    let cases: Vec<(&str, Vec<SetFrame>, Vec<f64>)> = vec![
        ("malleable beside a quarter", halves(), vec![16.0, MALLEABLE]),
        ("malleable beside a little", halves(), vec![3.0, MALLEABLE]),
        ("malleable beside much", vec![set(0, "0-54"), set(1, "55-63")], vec![50.0, MALLEABLE]),
        ("malleable beside a ceiling", roomy(), vec![25.0, MALLEABLE]),
        ("two malleable ones", thirds(), vec![MALLEABLE, 10.0, MALLEABLE]),
        ("one malleable one and two others", thirds(), vec![15.0, 10.0, MALLEABLE]),
        ("full at times", halves(), vec![10.0, 30.0]),
        ("full mostly", halves(), vec![10.0, 33.0]),
        ("a spinner", corner(), vec![20.0, 1.0]),
        ("spinners", thirds(), vec![21.0, 5.0, 20.0]),
    ];
    for (name, sets, loads) in cases {
        for seed in 1..=5 {
            let mut noise = Noise::new(seed);
            let mut world = World::new("millpond", sets.clone());
            let mut noisy = |_| loads.iter().map(|load| load * noise.around(0.1)).collect::<Vec<f64>>();
            world.run(600, &mut noisy);
            let minute = world.run(1200, &mut noisy);
            let told: Vec<(usize, &str)> =
                when(&minute).iter().map(|at| (*at, minute[*at].decision.plan.reason.as_str())).collect();
            assert!(told.is_empty(), "{name}, seed {seed}: {told:?}");
            assert!(unmet(&minute) < 0.1, "{name}, seed {seed}: {:.2} lacking", unmet(&minute));
        }
    }
}

#[test]
fn a_third_that_needs_processors_has_them_from_who_only_hoped() {
    let mut world = World::new("millpond", vec![set(0, "0-31"), set(1, "32-55"), set(2, "56-63")]);
    assert_eq!(world.step(&[0.0, MALLEABLE, 5.0]).sizes, [1, 58, 5]);
    // 20 threads on 5 CPUs: they get CPUs although the malleable program uses them.
    assert_eq!(world.step(&[0.0, MALLEABLE, 20.0]).sizes, [1, 43, 20]);
    // Its earlier size, 24, counts when needs do not fit: 30, 24 and 20 of 74 are 25.9, 20.8 and 17.3 of 64.
    assert_eq!(world.step(&[30.0, MALLEABLE, 20.0]).sizes, [26, 21, 17]);
}

#[test]
fn what_came_by_hope_and_is_used_is_not_idle_for_another_that_hopes() {
    let important = SetFrame { importance: 100, min: 4, ..set(2, "60-63") };
    let mut world = World::new("millpond", vec![set(0, "0-55"), set(1, "56-59"), important]);
    assert_eq!(world.step(&[30.0, MALLEABLE, 1.0]).sizes, [30, 30, 4]);
    // A recently served set is allotted a tenth more than its 40. These CPUs exist, but are in use.
    assert_eq!(world.step(&[40.0, MALLEABLE, 1.0]).sizes, [40, 20, 4]);
    // A more important set claims as many as it has of the speculative CPUs of set1, which had 4 before.
    assert_eq!(world.step(&[40.0, MALLEABLE, MALLEABLE]).sizes, [40, 16, 8]);
    assert_eq!(world.step(&[40.0, MALLEABLE, MALLEABLE]).sizes, [40, 8, 16]);
    assert_eq!(world.step(&[40.0, MALLEABLE, MALLEABLE]).sizes, [40, 4, 20]);
}

#[test]
fn who_lent_is_not_doubted() {
    // Needs of two intervals: CPUs that arrive for the second are unused in the third, which would lengthen a hold.
    let mut world = World::new("millpond", corner());
    let mut tenth = 0;
    let steps = world.run(600, |_| {
        tenth += 1;
        vec![if tenth % 12 >= 10 { 60.0 } else { 0.0 }, MALLEABLE]
    });
    assert!(steps.windows(2).all(|pair| pair[0].unmet.min(pair[1].unmet) < 1e-9), "back in one frame");
    assert!(batches(&steps) > 50, "{} batches", batches(&steps));
}

#[test]
fn one_grant_is_on_trial_at_a_time() {
    let mut world = World::new("millpond", vec![set(0, "0-59"), set(1, "60-63"), set(2, "64-67")]);
    assert_eq!(world.step(&[60.0, 3.0, 3.9]).sizes, [61, 3, 4]);
    // 60 of 61 are more than 98 %, and two more are idle now; but the first grant is still on trial.
    let steps = world.run(50, |_| vec![60.0, 3.0, 2.0]);
    assert_eq!(when(&steps), [0usize; 0]);
}

#[test]
fn objectives_and_bounds_hold_for_hope_too() {
    let above = |percent| Objective::Utilization(Bound::Above, percent);
    let near = |percent| Objective::Utilization(Bound::Near, percent);
    // 32 / 0.8 are 40; with half of them used, 64 of which one stays.
    for (set1, size) in [
        (wanting(set(1, "32-63"), above(80)), 40),
        (wanting(set(1, "32-63"), near(80)), 40),
        (wanting(set(1, "32-63"), near(100)), 32),
        (wanting(set(1, "32-63"), above(100)), 32),
        (wanting(set(1, "32-63"), below(80)), 63),
        (SetFrame { max: 48, ..set(1, "32-63") }, 48),
        (SetFrame { max: 32, ..set(1, "32-63") }, 32),
    ] {
        let mut world = World::new("millpond", vec![set(0, "0-31"), set1.clone()]);
        world.run(20, |_| vec![0.0, 32.0]);
        assert_eq!(world.sizes()[1], size, "{:?}, {}", set1.objectives, set1.max);
    }
    let pinned = SetFrame { pinned: "0-9".parse().unwrap(), ..set(0, "0-31") };
    let mut world = World::new("millpond", vec![pinned, set(1, "32-63")]);
    assert_eq!(world.step(&[0.0, MALLEABLE]).sizes, [10, 54]);
    let least = SetFrame { min: 7, ..set(0, "0-31") };
    let mut world = World::new("millpond", vec![least, set(1, "32-63")]);
    assert_eq!(world.step(&[0.0, MALLEABLE]).sizes, [7, 57]);
}

#[test]
fn several_that_hope_share_by_importance_and_use() {
    let three = |importance| vec![SetFrame { importance, ..set(0, "0-9") }, set(1, "10-29"), set(2, "30-63")];
    // 33 are idle: 10 to 20, then 40 to 20.
    for (importance, sizes) in [(1, [21, 42, 1]), (4, [32, 31, 1])] {
        let mut world = World::new("millpond", three(importance));
        assert_eq!(world.step(&[MALLEABLE, MALLEABLE, 0.0]).sizes, sizes);
    }
}

#[test]
fn where_writing_is_dear_what_was_given_for_hope_comes_back_all_the_same() {
    let mut world = World::new("millpond", corner());
    world.costs = Costs { batch: Nanos::from_millis(5), ..Costs::default() };
    let mut turn = turns(1.0);
    let steps = world.run(600, |end| vec![turn(end)[0], MALLEABLE]);
    assert!(steps.windows(2).all(|pair| pair[0].unmet.min(pair[1].unmet) < 1e-9));
    assert!(batches(&steps) <= 62, "one in a second, taken together: {}", batches(&steps));
}
