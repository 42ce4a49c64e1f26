//! poold never lets needed work wait for a preference: on simulated machines with played demand and any objectives, the work of the pools
//! is at least 0.99 of the work without poold. With `MILLPOND_LAWS` the number of machines is that of the slow matrix.

use crate::random::Dice;
use millpond_machine::facets::Member;
use millpond_machine::{Clock, Writer};
use millpond_model::Nanos;
use millpond_model::pools::{PoolsState, PropValue};
use millpond_planner::policy;
use millpond_pools::{DemandPlayer, Editor, Element, Manager, Place, Rhythm, Unserved, dynamic};
use millpond_sim::SimMachine;
use std::collections::BTreeMap;

/// The number of machines with random pools, usually and in the slow matrix.
const CASES: [u64; 2] = [12, 1_000];

/// The duration of the demand, in milliseconds.
const PLAYED_MS: u64 = 300_000;

const LEAST: f64 = 0.99;

/// A pool whose demand in CPUs alternates between two levels, each with a duration in milliseconds.
struct Pool {
    name: String,
    size: u64,
    importance: i64,
    objectives: Option<String>,
    wants: [(f64, u64); 2],
}

fn machine(name: &str, pools: &[Pool]) -> SimMachine {
    let machine = SimMachine::named(name).unwrap();
    let writer = Writer::open(&machine).unwrap();
    dynamic::enable(&writer, &machine, false).unwrap();
    let state = dynamic::read(&machine).unwrap();
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    for pool in pools {
        let (name, set) = (pool.name.as_str(), Element::Pset(pool.name.clone()));
        editor.create_pset(name).unwrap();
        editor.put(&set, "pset.max", PropValue::Uint(64)).unwrap();
        if let Some(objectives) = &pool.objectives {
            editor.put(&set, "pset.poold.objectives", PropValue::from(objectives.as_str())).unwrap();
        }
        editor.create_pool(name).unwrap();
        editor.put(&Element::Pool(name.into()), "pool.importance", PropValue::Int(pool.importance)).unwrap();
        editor.associate(name, Some(name)).unwrap();
        editor.transfer(pool.size, "pset_default", name).unwrap();
        editor.put(&set, "pset.min", PropValue::Uint(1)).unwrap();
    }
    let state = PoolsState { conf: editor.conf, ..state };
    dynamic::commit(&writer, &machine, Some(state)).unwrap();
    for pool in dynamic::read(&machine).unwrap().conf.pools.iter().filter(|pool| !pool.is_default) {
        let pid = machine.spawn(&pool.name, 1);
        dynamic::bind(&writer, &machine, &Member::Process(pid), pool.id.unwrap()).unwrap();
    }
    drop(writer);
    machine
}

/// The CPU time of each pool, in seconds, with a policy or without poold.
fn work(machine_name: &str, pools: &[Pool], policy_name: Option<&str>) -> BTreeMap<String, f64> {
    let machine = machine(machine_name, pools);
    let mut player = DemandPlayer::begin(&machine, Unserved::Lost);
    let mut manager = policy_name.map(|name| (Manager::new(policy(name).unwrap()), Rhythm::of(name, None)));
    let begin = machine.now();
    let mut passed = 0;
    while passed < PLAYED_MS {
        let now = pools.iter().map(|pool| {
            let [(first, length), (second, rest)] = pool.wants;
            let at = passed % (length + rest);
            let (wanted, left) =
                if at < length { (first, length - at) } else { (second, length + rest - at) };
            (pool.name.clone(), wanted, left)
        });
        let now: Vec<(String, f64, u64)> = now.collect();
        passed += now.iter().map(|(.., left)| *left).min().unwrap();
        player.want(now.into_iter().map(|(name, wanted, _)| (name, wanted)).collect()).unwrap();
        let end = begin + Nanos::from_millis(passed);
        match &mut manager {
            Some((manager, rhythm)) => player.manage(manager, *rhythm, end, &mut |_| {}).unwrap(),
            None => {
                machine.sleep_until(end);
                player.pass().unwrap();
            }
        }
    }
    player.served().iter().map(|(name, served)| (name.clone(), served.used)).collect()
}

#[test]
fn a_pool_that_would_like_to_be_less_busy_takes_nothing_from_one_that_needs_it() {
    // 1 + 2 + 1 CPUs of 4 are needed. The second pool runs 0.9 s of each 3 s: 180 s of 300.
    let pools = [
        Pool {
            name: "a".into(),
            size: 1,
            importance: 1,
            objectives: Some("utilization < 80".into()),
            wants: [(1.0, 3_000), (1.0, 3_000)],
        },
        Pool {
            name: "b".into(),
            size: 2,
            importance: 100,
            objectives: None,
            wants: [(2.0, 900), (0.0, 2_100)],
        },
    ];
    let with = work("x4200", &pools, Some("millpond"));
    assert!(with["b"] >= 178.0 && with["a"] >= 299.0, "{with:?}");
}

#[test]
fn bursts_of_fourteen_threads_lose_nothing_to_an_objective_of_half() {
    let pool = |name: &str, objectives: Option<&str>, wants| Pool {
        name: name.into(),
        size: 15,
        importance: 1,
        objectives: objectives.map(str::to_owned),
        wants,
    };
    let pools = [
        pool("a", Some("utilization < 50"), [(13.3, 3_000), (13.3, 3_000)]),
        pool("b", None, [(14.0, 900), (0.0, 2_100)]),
    ];
    let with = work("t2000", &pools, Some("millpond"));
    assert!(with["b"] >= LEAST * 1_260.0 && with["a"] >= LEAST * 3_990.0, "{with:?}");
}

fn random(seed: u64) -> (&'static str, Vec<Pool>) {
    let mut dice = Dice::new(seed);
    (0..8).for_each(|_| _ = dice.roll(2));
    let count = 2 + dice.roll(3);
    let pool = |at: u64| {
        let size = 1 + dice.roll(10);
        let part = |dice: &mut Dice| 0.3 + 0.1 * f64::from(u32::try_from(dice.roll(10)).unwrap());
        let wide = f64::from(u32::try_from(size).unwrap());
        let high = wide * part(&mut dice);
        let low = [0.0, 0.3, 0.9][usize::try_from(dice.roll(3)).unwrap()] * high;
        let length = |dice: &mut Dice| [300, 1_000, 3_000, 10_000][usize::try_from(dice.roll(4)).unwrap()];
        let bound = ["<", ">", "~"][usize::try_from(dice.roll(3)).unwrap()];
        let objectives = format!("utilization {bound} {}", 5 + dice.roll(91));
        Pool {
            name: format!("p{at}"),
            size,
            importance: [1, 1, 10, 1000][usize::try_from(dice.roll(4)).unwrap()],
            objectives: (dice.roll(4) > 0).then_some(objectives),
            wants: [(high, length(&mut dice) + dice.roll(300)), (low, length(&mut dice) + dice.roll(300))],
        }
    };
    ("t2-64", (0..count).map(pool).collect())
}

#[test]
fn whatever_objectives_say_pools_do_the_work_that_they_do_without_poold() {
    for seed in 0..CASES[usize::from(std::env::var_os("MILLPOND_LAWS").is_some())] {
        let (machine, pools) = random(seed);
        let sum = |policy| work(machine, &pools, policy).values().sum::<f64>();
        let (with, without) = (sum(Some("millpond")), sum(None));
        assert!(with >= LEAST * without, "machine {seed}: {with:.1} of {without:.1} s");
    }
}
