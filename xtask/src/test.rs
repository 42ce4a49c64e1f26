//! `cargo xtask test`: builds, runs group by group, and ends with what ran, what was skipped and why.

use crate::cargo::{BuildError, Built, TestBinary, build_tests, cargo, rt_manifest};
use crate::group::{Group, ORDER, grouped};
use crate::matrix;
use crate::run::{as_test, begin, end, run_one};
use crate::slowest::{self, Timed};
use crate::table::{Row, last_line, seconds, table, total};
use crate::tally::Tally;
use std::path::Path;
use std::time::{Instant, SystemTime};

/// Set for every test: how many random cases a property gets when everything is to be run.
const CASES_ALL: &str = "2048";

/// The group of the examples in the documentation.
const DOCUMENTS: &str = "documents";

/// What is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// The slow matrix as well, with more kernels and more random cases.
    pub all: bool,
    /// Only these groups; every one when it is empty.
    pub only: Vec<String>,
}

impl Wish {
    fn wants(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == group)
    }

    fn wants_slow(&self, group: &matrix::Slow) -> bool {
        self.all && self.wants(group.name) && !(group.is_asked_for && self.only.is_empty())
    }

    /// The first word of `only` that names no group.
    #[must_use]
    pub fn unknown(&self) -> Option<&String> {
        let is_known = |name: &str| {
            ORDER.contains(&name)
                || name == DOCUMENTS
                || (self.all && matrix::GROUPS.iter().any(|group| group.name == name))
        };
        self.only.iter().find(|name| !is_known(name))
    }
}

/// Runs everything that is wished for; true when nothing failed.
///
/// # Errors
/// [`BuildError`] when the tests cannot be built.
pub fn run(wish: &Wish) -> Result<bool, BuildError> {
    let slow: Vec<_> = matrix::GROUPS.iter().filter(|group| wish.wants_slow(group)).collect();
    if wish.all {
        matrix::announce(&slow);
    }
    let is_quick = |name: &&str| wish.wants(name);
    let needs_tests = ORDER.iter().any(is_quick) || slow.iter().any(|group| group.needs_tests);
    let (built, build_times) = if needs_tests { build()? } else { <_>::default() };
    let (mut rows, mut timed) = (Vec::new(), Vec::new());
    for (group, binaries) in grouped(built.tests.clone(), |test| &test.package) {
        if wish.wants(group.name) {
            rows.push(run_group(group, &binaries, &built, wish.all, &mut timed));
        }
    }
    if wish.wants(DOCUMENTS) {
        rows.push(run_documents(wish.all));
    }
    for group in slow {
        rows.push(matrix::run(group, &built));
    }
    println!("{}{}{build_times}", table(&rows), slowest::list(timed));
    let total = total(&rows);
    println!("{}", last_line(&total));
    Ok(total.failed == 0)
}

/// The tests, and one line that says how long each group built.
fn build() -> Result<(Built, String), BuildError> {
    println!("building the tests");
    let (start, mut built, mut times) = (Instant::now(), Built::default(), Vec::new());
    for manifest in [None, Some(rt_manifest())] {
        let since = SystemTime::now();
        built = built.with(build_tests(manifest)?);
        times = slowest::together(times, slowest::build_times(matrix::target_directory(), since));
    }
    println!("built in {}\n", seconds(start.elapsed()));
    Ok((built, slowest::built(&times)))
}

fn run_group(group: Group, binaries: &[TestBinary], built: &Built, all: bool, timed: &mut Vec<Timed>) -> Row {
    let start = Instant::now();
    begin(group.name, group.is_shown);
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for binary in binaries {
        let mut command = as_test(binary, built);
        // So that a test that skips itself is heard.
        command.arg("--show-output");
        if all {
            command.env("MILLPOND_VM", "all").env("PROPTEST_CASES", CASES_ALL);
        }
        let began = Instant::now();
        let told = run_one(command, group.is_shown);
        let name = format!("{} of {}", binary.target, place(&binary.dir));
        timed.push(Timed::of(name.clone(), told.tally.cases(), began.elapsed(), &told.output));
        if told.tally.failed > 0 {
            failures.push((name, told.output));
        }
        tally.add(&told.tally);
    }
    let row = Row { name: group.name, tally, time: start.elapsed() };
    end(&row, group.is_shown, &failures);
    row
}

/// The examples in the documentation.
fn run_documents(all: bool) -> Row {
    let start = Instant::now();
    begin(DOCUMENTS, false);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for manifest in [None, Some(rt_manifest())] {
        let mut command = cargo();
        command.args(["test", "--quiet", "--workspace", "--doc"]);
        if let Some(manifest) = manifest {
            command.arg("--manifest-path").arg(manifest);
        }
        if all {
            command.env("PROPTEST_CASES", CASES_ALL);
        }
        let told = run_one(command, false);
        if told.tally.failed > 0 {
            failures.push((DOCUMENTS.to_owned(), told.output));
        }
        tally.add(&told.tally);
    }
    let row = Row { name: DOCUMENTS, tally, time: start.elapsed() };
    end(&row, false, &failures);
    row
}

/// The crate's directory, short.
fn place(dir: &Path) -> String {
    let mut parts: Vec<_> = dir.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.reverse();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_there_are_can_be_wished_for() {
        let wish = |all, names: &[&str]| Wish { all, only: names.iter().map(|&n| n.to_owned()).collect() };
        assert_eq!(wish(true, &["values", "documents", "fuzz"]).unknown(), None);
        assert_eq!(wish(false, &["values", "fuzz"]).unknown().map(String::as_str), Some("fuzz"));
        let slow = |name: &str| matrix::GROUPS.iter().find(|group| group.name == name).unwrap();
        assert!(wish(true, &["kubernetes"]).wants_slow(slow("kubernetes")));
        assert!(!wish(true, &[]).wants_slow(slow("kubernetes")) && wish(true, &[]).wants_slow(slow("miri")));
        assert!(wish(true, &[]).wants("fuzz") && !wish(true, &["miri"]).wants("fuzz"));
    }
}
