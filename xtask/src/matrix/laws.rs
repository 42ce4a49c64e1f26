//! The laws of machines again, with many more random scripts than the other groups have time for.

use super::outcome::{Outcome, run_harness};
use crate::cargo::{Built, TestBinary};
use crate::run::{Told, as_test};
use std::thread;

/// How many times more scripts.
const TIMES: u32 = 5;

/// Every executable of this name holds a machine to its laws.
const TARGET: &str = "laws";

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    // Each of them is busy with a few tests at a time: two at once leave no CPU idle at the end.
    thread::scope(|scope| {
        let binaries = outcome.executables(built, |test| test.target == TARGET, TARGET);
        let running: Vec<_> = binaries
            .into_iter()
            .map(|binary| (binary, scope.spawn(move || run_more(binary, built))))
            .collect();
        for (binary, thread) in running {
            match thread.join() {
                Ok(told) => outcome.add(&binary.package, told),
                Err(_) => outcome.tally.failed += 1,
            }
        }
    });
    outcome
}

fn run_more(binary: &TestBinary, built: &Built) -> Told {
    let mut command = as_test(binary, built);
    command.env("MILLPOND_LAWS", TIMES.to_string());
    run_harness(&binary.package, &command)
}
