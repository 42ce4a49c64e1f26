//! Pools for a long time: a simulated year of thirty pools on 1,024 CPUs, and a million random operations on pools.

use super::outcome::{Outcome, run_limited};
use super::tools::limited_soak;
use crate::cargo::Built;
use crate::run::as_test;

/// The tests of pools on simulated machines.
const PACKAGE: &str = "pools-tests";
/// The variables that say how much, by the test that hears of each.
const SOAKS: [(&str, &str, &str); 2] = [
    ("random::whatever_is_done_to_pools", "MILLPOND_POOL_OPERATIONS", "1000000"),
    ("year::pools_of_a_large_machine", "MILLPOND_POOL_DAYS", "365"),
];

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    let binaries =
        outcome.executables(built, |test| test.package == PACKAGE && test.target == "all", PACKAGE);
    std::thread::scope(|scope| {
        let one = |(binary, (test, variable, amount)): (_, (&'static str, &str, &str))| {
            let mut command = as_test(binary, built);
            command.arg(test).arg("--nocapture").env(variable, amount);
            (test, scope.spawn(move || run_limited(test, limited_soak(&command))))
        };
        let all = binaries.iter().flat_map(|binary| SOAKS.map(|soak| (*binary, soak)));
        for (test, thread) in all.map(one).collect::<Vec<_>>() {
            match thread.join() {
                Ok(told) => outcome.add(test, told),
                Err(_) => outcome.tally.failed += 1,
            }
        }
    });
    outcome
}
