//! The result of a group, and test suites that are built for it.

use super::tools;
use crate::cargo::{Built, TestBinary};
use crate::run::{Told, run_one};
use crate::table::seconds;
use crate::tally::Tally;
use std::process::Command;
use std::time::Instant;

/// The result of a group: its counts, and the output of failures.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) failures: Vec<(String, String)>,
}

impl Outcome {
    /// The group could not run.
    pub(super) fn skipped(why: String) -> Outcome {
        Outcome { tally: Tally { skipped: 1, reasons: vec![why], ..Tally::default() }, failures: Vec::new() }
    }

    /// Counts a failure without a test.
    pub(super) fn fail(&mut self, name: &str, words: String) {
        self.tally.failed += 1;
        self.failures.push((name.to_owned(), words));
    }

    /// Runs a command without a harness: it passes with exit status 0, and otherwise its output is kept.
    pub(super) fn check(&mut self, name: &str, command: &Command) {
        match tools::limited(command).output() {
            Ok(out) if out.status.success() => self.tally.passed += 1,
            Ok(out) => self.fail(name, tools::output(&out)),
            Err(error) => self.fail(name, format!("{error}\n")),
        }
    }

    /// The test executables with this name. None is a failure.
    pub(super) fn executables<'b>(
        &mut self,
        built: &'b Built,
        is_wanted: impl Fn(&TestBinary) -> bool,
        name: &str,
    ) -> Vec<&'b TestBinary> {
        let found: Vec<_> = built.tests.iter().filter(|test| is_wanted(test)).collect();
        if found.is_empty() {
            self.fail(name, "there is no such test executable\n".into());
        }
        found
    }

    /// Prints the counts of a group without a harness.
    pub(super) fn print(&self, name: &str) {
        println!("  {name:<24}{:>6} passed {:>4} failed", self.tally.passed, self.tally.failed);
    }

    /// Adds the results of a harness. A harness without any test has failed, because its filter is outdated.
    pub(super) fn add(&mut self, name: &str, told: Told) {
        let mut tally = told.tally;
        let ran_none = tally.cases() == 0;
        if ran_none {
            tally.failed = 1;
        }
        if tally.failed > 0 {
            let note = if ran_none { "it ran no test\n" } else { "" };
            self.failures.push((name.to_owned(), format!("{}{note}", told.output)));
        }
        self.tally.add(&tally);
    }
}

/// Runs a harness and prints its counts. It is killed at the time limit.
pub(super) fn run_harness(name: &str, command: &Command) -> Told {
    run_limited(name, tools::limited(command))
}

/// The same for a command with its own time limit.
pub(super) fn run_limited(name: &str, command: Command) -> Told {
    let start = Instant::now();
    let told = run_one(command, false);
    let Tally { passed, failed, .. } = told.tally;
    println!("  {name:<24}{passed:>6} passed {failed:>4} failed {:>9}", seconds(start.elapsed()));
    told
}

/// Tests of a crate that are built for a group: `cargo test -p PACKAGE --lib`.
pub(super) struct Suite {
    pub(super) package: &'static str,
    /// Parts of names of the tests to run; all if it is empty.
    pub(super) only: &'static [&'static str],
    /// Parts of names of omitted tests.
    pub(super) skip: &'static [&'static str],
}

impl Suite {
    /// Adds the suite's arguments to a `cargo … test`.
    pub(super) fn arguments(&self, command: &mut Command) {
        tools::name_package(command, self.package);
        command.args(["--lib", "--"]).args(self.only);
        for name in self.skip {
            command.args(["--skip", name]);
        }
    }
}

/// Runs suites one after the other, each with the command from `prepare`.
pub(super) fn run_suites(suites: &[Suite], prepare: impl Fn(&Suite) -> Command) -> Outcome {
    let mut outcome = Outcome::default();
    for suite in suites {
        let mut command = prepare(suite);
        // Proptest must not write files into the tree.
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        outcome.add(suite.package, run_harness(suite.package, &command));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_ran_nothing_has_failed() {
        let told = |output: &str| Told {
            output: output.into(),
            tally: Tally::of(output, true),
            ended_well: true,
            ends: Vec::new(),
        };
        let mut outcome = Outcome::default();
        outcome.add("a", told("test result: ok. 2 passed; 0 failed; 0 ignored\n"));
        assert_eq!((outcome.tally.passed, outcome.tally.failed), (2, 0));
        outcome.add("b", told("test result: ok. 0 passed; 0 failed; 0 ignored\n"));
        assert_eq!((outcome.tally.passed, outcome.tally.failed), (2, 1));
        assert_eq!(outcome.failures[0].0, "b");
        assert!(outcome.failures[0].1.ends_with("it ran no test\n"));
    }
}
