//! The laws of machines again, with many more random scripts than the other groups have time for.

use super::{Outcome, tools};
use crate::cargo::{Built, TestBinary};
use crate::table::seconds;
use crate::test::{Told, as_test, run_one};
use std::thread;
use std::time::Instant;

/// How many times more scripts.
const TIMES: u32 = 5;

/// Every executable of this name holds a machine to its laws.
const TARGET: &str = "laws";

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    // Each of them is busy with a few tests at a time: two at once leave no processor idle at the end.
    thread::scope(|scope| {
        let binaries = built.tests.iter().filter(|test| test.target == TARGET);
        let running: Vec<_> =
            binaries.map(|binary| (binary, scope.spawn(move || run_more(binary, built)))).collect();
        if running.is_empty() {
            outcome.fail(TARGET, "there is no such test executable\n".into());
        }
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
    let start = Instant::now();
    let mut command = as_test(binary, built);
    command.env("MILLPOND_LAWS", TIMES.to_string());
    let told = run_one(tools::limited(&command), false);
    println!(
        "  {:<24}{:>6} passed {:>4} failed {:>9}",
        binary.package,
        told.tally.passed,
        told.tally.failed,
        seconds(start.elapsed())
    );
    told
}
