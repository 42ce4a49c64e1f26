//! Set sizes when loads start and stop. Expected values are calculated by hand; where a policy is free, they are bounds.

mod speculation;
pub mod world;

use millpond_model::Nanos;
use millpond_model::pools::{Bound, Objective};
use millpond_planner::{Costs, SetFrame};
use world::{Counted, Noise, Step, World, batches, set, unmet, wanting};

const fn below(percent: u8) -> Objective {
    Objective::Utilization(Bound::Below, percent)
}

fn halves() -> Vec<SetFrame> {
    vec![set(0, "0-31"), set(1, "32-63")]
}

fn sizes(steps: &[Step]) -> Vec<Vec<usize>> {
    steps.iter().map(|step| step.sizes.clone()).collect()
}

#[test]
fn from_half_to_all_in_one_frame_or_two() {
    for (counted, first) in [(Counted::Threads, 63), (Counted::Any, 63), (Counted::Unknown, 48)] {
        let mut world = World::new("millpond", halves());
        world.counted = counted;
        let steps = world.run(50, |_| vec![0.0, 100.0]);
        assert_eq!(steps[0].sizes[1], first, "{counted:?}");
        assert_eq!(steps[1].sizes, [1, 63], "{counted:?}");
        assert_eq!(batches(&steps[2..]), 0, "{counted:?}");
    }
}

#[test]
fn from_half_to_all_as_solaris_did_it() {
    let mut world = World::new("solaris", halves());
    let steps = world.run(200, |_| vec![0.0, 100.0]);
    // A baseline and five samples before each of 31 moves: 186 intervals of 15 seconds, or 46 and a half minutes.
    let made: Vec<usize> = (1..).zip(&steps).filter(|(_, step)| step.moves > 0).map(|(at, _)| at).collect();
    let expected: Vec<usize> = (1..=31).map(|count| 6 * count).collect();
    assert_eq!(made, expected);
    assert_eq!(world.sizes(), [1, 63]);
}

#[test]
fn one_stops_and_the_other_grows_and_when_it_starts_again_they_share() {
    let mut world = World::new("millpond", halves());
    let both = world.run(20, |_| vec![100.0, 100.0]);
    assert_eq!(batches(&both), 0, "half is a fair share");
    let alone = world.run(20, |_| vec![0.0, 100.0]);
    assert_eq!(alone[0].sizes, [1, 63]);
    assert_eq!(batches(&alone), 1);
    let again = world.run(20, |_| vec![100.0, 100.0]);
    assert_eq!(again[0].sizes, [32, 32]);
    assert_eq!(batches(&again), 1);
}

#[test]
fn pressure_without_a_number_shares_in_the_end_too() {
    let mut world = World::new("millpond", vec![set(0, "0-62"), set(1, "63")]);
    world.counted = Counted::Any;
    let steps = world.run(50, |_| vec![100.0, 100.0]);
    let last = &steps[49].sizes;
    assert!(last[0].abs_diff(32) <= 1, "{:?}", sizes(&steps));
    assert!(batches(&steps) <= 12, "{:?}", sizes(&steps));
    assert_eq!(batches(&steps[25..]), 0);
}

#[test]
fn noise_of_a_tenth_moves_nothing() {
    let roomy = |id, cpus: &str| wanting(set(id, cpus), below(80));
    let thirds = || vec![set(0, "0-20"), set(1, "21-41"), set(2, "42-63")];
    let cases: Vec<(&str, Vec<SetFrame>, Vec<f64>)> = vec![
        ("at ease", halves(), vec![10.0, 20.0]),
        ("one just full", halves(), vec![10.0, 32.0]),
        ("all just full", halves(), vec![31.0, 32.0]),
        ("a little too much", halves(), vec![34.0, 34.0]),
        ("far too much", halves(), vec![90.0, 200.0]),
        ("one too large", halves(), vec![12.0, 70.0]),
        ("a third each", thirds(), vec![21.0, 22.0, 23.0]),
        ("a large and two small ones", thirds(), vec![60.0, 3.0, 9.0]),
        ("ceilings that fit", vec![roomy(0, "0-31"), roomy(1, "32-63")], vec![20.0, 25.0]),
        ("ceilings that do not fit", vec![roomy(0, "0-31"), roomy(1, "32-63")], vec![26.0, 30.0]),
    ];
    for (name, sets, loads) in cases {
        for seed in 1..=5 {
            let mut noise = Noise::new(seed);
            let mut world = World::new("millpond", sets.clone());
            let mut noisy = |_| loads.iter().map(|load| load * noise.around(0.1)).collect::<Vec<f64>>();
            world.run(200, &mut noisy);
            let minute = world.run(600, &mut noisy);
            let told: Vec<&str> =
                minute.iter().filter(|s| s.moves > 0).map(|s| s.decision.plan.reason.as_str()).collect();
            assert_eq!(told, [""; 0], "{name}, seed {seed}");
        }
    }
}

/// Two sets that alternate: each wants 60 for half of the period and 2 for the other half.
fn turns(period: f64) -> impl FnMut(f64) -> Vec<f64> {
    move |end| {
        let is_first = ((end - 0.05) / period).fract() < 0.5;
        if is_first { vec![60.0, 2.0] } else { vec![2.0, 60.0] }
    }
}

#[test]
fn swings_that_are_slow_enough_are_followed() {
    // Fixed halves would lack 28 on average. Each swing costs at most one interval in which 58 are lacking.
    for (period, frames, lacking) in [(1.0, 600, 12.0), (5.0, 600, 2.5), (30.0, 1200, 0.5)] {
        let mut world = World::new("millpond", halves());
        let steps = world.run(frames, turns(period));
        assert!(unmet(&steps) <= lacking, "{period} s: {:.2} lacking", unmet(&steps));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let swings = (world::real(frames) * 0.1 / period * 2.0).ceil() as usize;
        assert!(batches(&steps) <= swings + 2, "{period} s: {} batches for {swings} swings", batches(&steps));
    }
}

#[test]
fn swings_that_are_too_quick_are_let_be() {
    for period in [0.2, 0.4] {
        let mut world = World::new("millpond", halves());
        let steps = world.run(600, turns(period));
        assert!(batches(&steps[..100]) <= 20, "{period} s: {} at first", batches(&steps[..100]));
        assert!(batches(&steps[100..]) <= 20, "{period} s: {} in 50 s", batches(&steps[100..]));
    }
}

#[test]
fn swings_in_step_are_shared_and_move_nothing() {
    for period in [1.0, 5.0, 30.0] {
        let mut world = World::new("millpond", halves());
        let mut turn = turns(period);
        let steps = world.run(600, |end| vec![turn(end)[0]; 2]);
        assert_eq!(batches(&steps), 0, "{period} s");
    }
}

#[test]
fn dips_of_an_interval_do_not_cost_a_set_its_processors_for_ever() {
    // One set always lacks CPUs; the demand of the other drops in one interval of ten.
    let mut world = World::new("millpond", halves());
    let mut tenth = 0;
    let steps = world.run(600, |_| {
        tenth += 1;
        vec![100.0, if tenth % 10 == 0 { 4.0 } else { 60.0 }]
    });
    assert!(batches(&steps[100..]) <= 20, "{} batches in 50 s for 50 dips", batches(&steps[100..]));
}

#[test]
fn where_batches_are_dear_a_need_waits_for_two_decisions_and_no_longer() {
    let mut world = World::new("millpond", halves());
    world.costs = Costs { batch: Nanos::from_millis(5), ..Costs::default() };
    let steps = world.run(600, turns(1.0));
    let made: Vec<usize> = steps.iter().enumerate().filter(|(_, s)| s.moves > 0).map(|(at, _)| at).collect();
    assert!(made.windows(2).all(|pair| pair[1] - pair[0] >= 3), "{made:?}");
    let waits = steps.split(|step| step.unmet < 0.5).map(<[Step]>::len).max();
    assert_eq!(waits, Some(3), "{made:?}");
}

#[test]
fn objectives_that_contradict_each_other_come_to_rest() {
    let torn = wanting(wanting(set(1, "32-63"), below(20)), Objective::Utilization(Bound::Above, 80));
    for name in ["millpond", "solaris"] {
        let greedy = vec![wanting(set(0, "0-31"), below(10)), wanting(set(1, "32-63"), below(10))];
        for sets in [vec![set(0, "0-31"), torn.clone()], greedy] {
            let mut world = World::new(name, sets);
            let steps = world.run(300, |_| vec![20.0, 20.0]);
            if name == "millpond" {
                assert_eq!(batches(&steps[10..]), 0);
            }
        }
    }
}

#[test]
fn pinned_processors_stay_whatever_is_lacking() {
    let pinned = SetFrame { pinned: "0-9".parse().unwrap(), ..set(0, "0-31") };
    for name in ["millpond", "solaris"] {
        let mut world = World::new(name, vec![pinned.clone(), set(1, "32-63")]);
        world.run(400, |_| vec![0.0, 100.0]);
        let kept = &world.sets[0].cpus;
        assert!("0-9".parse::<millpond_model::CpuSet>().unwrap().is_subset(kept), "{name}: {kept}");
        if name == "millpond" {
            assert_eq!(world.sizes(), [10, 54]);
        }
    }
}

#[test]
fn minima_that_fill_the_machine_leave_nothing_to_move() {
    let full = |id, cpus: &str| SetFrame { min: 4, ..set(id, cpus) };
    for name in ["millpond", "solaris"] {
        let mut world = World::new(name, vec![full(0, "0-3"), full(1, "4-7")]);
        assert_eq!(batches(&world.run(50, |_| vec![0.0, 100.0])), 0, "{name}");
    }
    // More than there is: a short set stays short, and nothing breaks.
    let mut world = World::new("millpond", vec![full(0, "0-2"), full(1, "3-6")]);
    assert_eq!(batches(&world.run(50, |_| vec![9.0, 9.0])), 0);
}

#[test]
fn a_processor_that_vanishes_is_replaced_and_one_that_returns_is_used() {
    let mut world = World::new("millpond", vec![set(0, "0-3"), SetFrame { min: 4, ..set(1, "4-7") }]);
    world.run(5, |_| vec![1.0, 3.9]);
    world.unplug(5);
    assert_eq!(world.step(&[1.0, 3.9]).sizes, [3, 4]);
    world.unplug(6);
    assert_eq!(world.step(&[1.0, 3.9]).sizes, [2, 4]);
    world.sets[0].cpus.insert(millpond_model::CpuId(5));
    world.sets[0].cpus.insert(millpond_model::CpuId(6));
    assert_eq!(world.step(&[1.0, 7.0]).sizes, [1, 7]);
    for name in ["millpond", "solaris"] {
        let mut world = World::new(name, halves());
        for cpu in 0..31 {
            world.run(7, |_| vec![3.0, 90.0]);
            world.unplug(cpu);
        }
    }
}

#[test]
fn one_set_alone_keeps_everything() {
    for name in ["millpond", "solaris"] {
        let mut world = World::new(name, vec![set(0, "0-7")]);
        assert_eq!(batches(&world.run(50, |end| vec![end % 20.0])), 0, "{name}");
    }
}

#[test]
fn a_set_that_may_have_nothing_gets_nothing() {
    let nothing = SetFrame { min: 0, max: 0, has_processes: false, ..set(1, "") };
    for name in ["millpond", "solaris"] {
        let mut world = World::new(name, vec![set(0, "0-7"), nothing.clone()]);
        assert_eq!(batches(&world.run(50, |_| vec![1.0, 50.0])), 0, "{name}");
    }
}

#[test]
fn a_thousand_sets_come_to_rest() {
    let sets: Vec<SetFrame> = (0..1000).map(|id| set(id, &format!("{}-{}", 4 * id, 4 * id + 3))).collect();
    let loads: Vec<f64> = (0..1000).map(|id| if id % 10 == 0 { 20.0 } else { 1.5 }).collect();
    let mut world = World::new("millpond", sets);
    let steps = world.run(4, |_| loads.clone());
    // 100 sets want 16 more, 900 have 2 to spare: 1,600 of 1,800.
    assert_eq!(steps[0].moves, 1600);
    assert_eq!(batches(&steps), 1);
    assert!(unmet(&steps[1..]) < 1e-9);
}

#[test]
fn an_important_set_keeps_more_when_all_are_pressed() {
    let important = SetFrame { importance: 7, ..set(1, "32-63") };
    let mut world = World::new("millpond", vec![set(0, "0-31"), important]);
    world.run(5, |_| vec![100.0, 100.0]);
    assert_eq!(world.sizes(), [8, 56]);
}
