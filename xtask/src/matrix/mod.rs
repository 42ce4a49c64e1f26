//! The slow matrix of `cargo xtask test --all`: what takes minutes, or tools that not every machine has.
//!
//! | group | what it shows | what it needs |
//! |---|---|---|
//! | laws | no script of changes breaks a law | nothing |
//! | fuzz | no input breaks a parser | nothing; with a C++ compiler the search is guided |
//! | loom | the barrier, and the exchange of stacks, are right in every order of their threads | nothing |
//! | arm | the libraries for real-time programs compile for aarch64 | that target of the compiler |
//! | c | programs in C use those libraries' memory rightly | gcc, valgrind |
//! | miri | code that is `unsafe` keeps the language's rules | a nightly toolchain with miri |
//! | address | no memory is used wrongly, or lost | the sanitizer's runtime, which comes with the compiler |
//! | thread | no two threads touch the same memory unordered | a nightly toolchain with rust-src |
//! | valgrind | as address, with the system calls that we make ourselves | valgrind |
//!
//! What a machine lacks is said before anything runs, and again in the table: a group that cannot run is skipped, never passed.

mod arm;
mod c;
mod fuzz;
mod laws;
mod loom;
mod miri;
mod sanitizers;
mod tools;
mod valgrind;

use crate::cargo::Built;
use crate::table::Row;
use crate::tally::Tally;
use crate::test::{Told, begin, end, run_one};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// One group of the matrix.
#[derive(Debug, Clone, Copy)]
pub struct Slow {
    /// Its name in the table.
    pub name: &'static str,
    /// Whether it runs the executables that the other groups run.
    pub needs_tests: bool,
    /// Why it cannot run here at all, if so: what is lacking, and how to get it.
    lacks: fn() -> Option<String>,
    run: fn(&Built) -> Outcome,
}

/// Every group, the cheapest first.
pub const GROUPS: [Slow; 9] = [
    Slow { name: "loom", needs_tests: false, lacks: || None, run: loom::run },
    Slow { name: "arm", needs_tests: false, lacks: arm::lacks, run: arm::run },
    Slow { name: "c", needs_tests: true, lacks: c::lacks, run: c::run },
    Slow { name: "laws", needs_tests: true, lacks: || None, run: laws::run },
    Slow { name: "fuzz", needs_tests: false, lacks: || None, run: fuzz::run },
    Slow { name: "address", needs_tests: false, lacks: sanitizers::lacks_address, run: sanitizers::address },
    Slow { name: "thread", needs_tests: false, lacks: sanitizers::lacks_thread, run: sanitizers::thread },
    Slow { name: "valgrind", needs_tests: true, lacks: valgrind::lacks, run: valgrind::run },
    Slow { name: "miri", needs_tests: false, lacks: miri::lacks, run: miri::run },
];

/// What came of a group: its counts, and the words of what failed.
#[derive(Debug, Default)]
struct Outcome {
    tally: Tally,
    failures: Vec<(String, String)>,
}

impl Outcome {
    /// It could not run.
    fn skipped(why: String) -> Outcome {
        Outcome { tally: Tally { skipped: 1, reasons: vec![why], ..Tally::default() }, failures: Vec::new() }
    }

    /// Something without tests of its own failed.
    fn fail(&mut self, name: &str, words: String) {
        self.tally.failed += 1;
        self.failures.push((name.to_owned(), words));
    }

    /// Adds what a harness said. One that ran no test at all has failed: it was called by a name that is no more.
    fn add(&mut self, name: &str, told: Told) {
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

/// Says aloud what cannot be done on this machine.
pub fn announce(groups: &[&Slow]) {
    let lacking: Vec<_> = groups.iter().filter_map(|group| Some((group.name, (group.lacks)()?))).collect();
    for (name, why) in &lacking {
        println!("NOT ON THIS MACHINE: {name}: {why}");
    }
    if !lacking.is_empty() {
        println!();
    }
}

/// Runs a group to its row.
pub fn run(group: &Slow, built: &Built) -> Row {
    let start = Instant::now();
    begin(group.name, true);
    let outcome = match (group.lacks)() {
        Some(why) => Outcome::skipped(format!("{}: {why}", group.name)),
        None => (group.run)(built),
    };
    let row = Row { name: group.name, tally: outcome.tally, time: start.elapsed() };
    end(&row, true, &outcome.failures);
    row
}

/// Tests of one crate that are built anew for a group: `cargo test -p PACKAGE --lib`.
struct Suite {
    package: &'static str,
    /// Parts of the names of the tests to run; all when there is none.
    only: &'static [&'static str],
    /// Parts of names that are left out.
    skip: &'static [&'static str],
}

impl Suite {
    /// Adds the suite's arguments to a `cargo … test`.
    fn arguments(&self, command: &mut Command) {
        command.args(["--package", self.package, "--lib", "--"]).args(self.only);
        for name in self.skip {
            command.args(["--skip", name]);
        }
    }
}

/// Runs suites one after the other, each with the command that `prepare` makes.
fn run_suites(suites: &[Suite], prepare: impl Fn(&Suite) -> Command) -> Outcome {
    let mut outcome = Outcome::default();
    for suite in suites {
        let start = Instant::now();
        let mut command = tools::limited(&prepare(suite));
        // What a test says of itself while it runs belongs to its harness; here only the end counts.
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        let told = run_one(command, false);
        let Tally { passed, failed, .. } = told.tally;
        println!(
            "  {:<24}{passed:>6} passed {failed:>4} failed {:>9}",
            suite.package,
            crate::table::seconds(start.elapsed())
        );
        outcome.add(suite.package, told);
    }
    outcome
}

/// Where cargo builds, as cargo says: from the environment, its configuration, or the workspace's place.
pub fn target_directory() -> &'static Path {
    &tools::metadata().target_directory
}

/// Where a group builds what only it can use.
fn target_dir(group: &str) -> PathBuf {
    target_directory().join("matrix").join(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_ran_nothing_has_failed() {
        let told =
            |output: &str| Told { output: output.into(), tally: Tally::of(output, true), ended_well: true };
        let mut outcome = Outcome::default();
        outcome.add("a", told("test result: ok. 2 passed; 0 failed; 0 ignored\n"));
        assert_eq!((outcome.tally.passed, outcome.tally.failed), (2, 0));
        outcome.add("b", told("test result: ok. 0 passed; 0 failed; 0 ignored\n"));
        assert_eq!((outcome.tally.passed, outcome.tally.failed), (2, 1));
        assert_eq!(outcome.failures[0].0, "b");
        assert!(outcome.failures[0].1.ends_with("it ran no test\n"));
    }

    #[test]
    fn what_is_lacking_is_a_skip_with_its_reason() {
        let lacks = || Some("there is no tool".to_owned());
        let group = Slow { name: "none", needs_tests: false, lacks, run: |_| unreachable!() };
        let row = run(&group, &Built::default());
        assert_eq!((row.tally.passed, row.tally.failed, row.tally.skipped), (0, 0, 1));
        assert_eq!(row.tally.reasons, ["none: there is no tool"]);
    }
}
