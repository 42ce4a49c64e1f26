//! Compares the rules for BPF (`lib/rules`) with the simulator's classes: both execute random events, and the whole state is compared after each.

mod bench;
mod defects;
mod events;
mod random;
mod subject;

use super::{extended, standard};
use bench::Bench;
use defects::{COLUMNS, DEFECTS};
use millpond_model::{DispatchTables, Quantum};
use millpond_rules::{FOREVER, host};
use random::Random;

/// Events per search. With all searches: a million.
const EVENTS: u64 = 50_000;
const SEARCHES: u64 = 20;

/// The tables of a search: those of machines, and random ones.
fn tables(seed: u64) -> DispatchTables {
    match seed % 5 {
        0 => standard(),
        1 => extended(),
        _ => Random::new(seed).tables(),
    }
}

#[test]
fn the_simulator_and_the_rules_agree_after_each_of_a_million_events() {
    let mut tally = bench::Tally::default();
    for seed in 0..SEARCHES {
        let mut bench = Bench::new(seed, tables(seed));
        if let Err(difference) = bench.run(EVENTS) {
            panic!("seed {seed}: {difference}");
        }
        tally.add(bench.tally());
    }
    assert_eq!(tally.events(), SEARCHES * EVENTS);
    // Fourteen events, each frequent in each of the three classes.
    assert_eq!(tally.kinds(), 14 * 3);
    assert!(tally.rarest() > 500, "{tally:?}");
}

#[test]
fn a_table_with_another_column_is_found() {
    for seed in 0..5 {
        for (name, alter) in COLUMNS {
            let mut bench = Bench::new(seed, tables(seed));
            bench.rules().tables.ts.iter_mut().for_each(alter);
            assert!(bench.run(EVENTS).is_err(), "seed {seed}: {name}");
        }
    }
}

#[test]
fn a_rule_with_a_defect_is_found() {
    for defect in &DEFECTS {
        let is_found = |seed: &u64| {
            let mut bench = Bench::new(*seed, tables(*seed));
            bench.rules().defect = Some(defect);
            bench.run(EVENTS).is_err()
        };
        // With tables where long waits change nothing, some defects have no effect.
        let found = (0..5).filter(is_found).count();
        assert!(found >= 4, "{}: found by {found} of 5", defect.name);
    }
}

#[test]
fn levels_of_fx_have_the_slices_of_the_table() {
    for seed in 0..5 {
        let tables = tables(seed);
        let rules = subject::rule_tables(&tables);
        for level in 0..61 {
            let expected = match tables.fx.row(level) {
                Quantum::Ticks(ticks) => i64::from(ticks),
                Quantum::Infinite => FOREVER,
            };
            assert_eq!(host::fx_quantum(&rules, i32::from(level)), expected, "seed {seed}, level {level}");
        }
    }
}
