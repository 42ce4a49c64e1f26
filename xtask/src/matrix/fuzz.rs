//! Searches for inputs that break a parser: every test whose name begins with `fuzz_`, for as long as it is given.
//!
//! With a C++ compiler the searches are libFuzzer's, guided by what the code reaches; the instrumentation is that of the stable compiler.
//! Without one they run as they do in `cargo test`, only longer.

use super::outcome::Outcome;
use super::tools::{self, Toolchain, cpus, limited, limited_build, metadata, target_dir, with_flags, words};
use crate::cargo::{Built, TestBinary, cargo, parse_messages};
use crate::run::{as_test, run_one};
use crate::table::seconds;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// How long a search may take, in seconds: of what people write and others send, a minute; of the rest less.
const SECONDS: u64 = 20;
const MINUTE: u64 = 60;

/// What a test's name begins with that has a minute.
const LONG: &str = "fuzz_minute_";

/// What such a test's name begins with.
const PREFIX: &str = "fuzz_";

/// What crates are searched with.
const INSTRUMENT: &str = "millpond-fuzz";

/// How libFuzzer learns what an input reached, and what it was compared with.
const FLAGS: [&str; 8] = [
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// One search.
struct Search {
    binary: TestBinary,
    test: String,
}

pub(super) fn run(_: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    let guidance = if tools::has_program("c++") { &FLAGS[..] } else { &[] };
    if guidance.is_empty() {
        println!("  there is no C++ compiler: the searches are not guided by what the code reaches");
        outcome.tally.skipped += 1;
        outcome.tally.reasons.push("guidance: there is no C++ compiler (apt-get install g++)".into());
    }
    let start = Instant::now();
    match build(guidance) {
        Err(words) => outcome.fail("the build", words),
        Ok(binaries) => {
            println!("  built in {}", seconds(start.elapsed()));
            let searches: Vec<Search> = binaries.iter().flat_map(searches_in).collect();
            if searches.is_empty() {
                outcome.fail("the list", format!("no test begins with {PREFIX}\n"));
            }
            outcome = run_all(searches, outcome);
        }
    }
    outcome
}

/// Runs the searches, one on each CPU.
fn run_all(searches: Vec<Search>, outcome: Outcome) -> Outcome {
    let (waiting, outcome) = (Mutex::new(searches.into_iter()), Mutex::new(outcome));
    thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(|| {
                while let Some(search) = waiting.lock().ok().and_then(|mut waiting| waiting.next()) {
                    let (line, failure) = run_search(&search);
                    println!("{line}");
                    if let Ok(mut outcome) = outcome.lock() {
                        outcome.tally.failed += u64::from(failure.is_some());
                        outcome.tally.passed += u64::from(failure.is_none());
                        outcome.failures.extend(failure.map(|words| (search.test.clone(), words)));
                    }
                }
            });
        }
    });
    outcome.into_inner().unwrap_or_default()
}

/// A line to show, and all its words if the search found something.
fn run_search(search: &Search) -> (String, Option<String>) {
    let start = Instant::now();
    let mut command = as_test(&search.binary, &Built::default());
    command.args(["--exact", &search.test, "--nocapture", "--test-threads=1"]);
    command
        .env("MILLPOND_FUZZ_SECONDS", seconds_of(&search.test).to_string())
        .env("MILLPOND_FUZZ_DIR", target_dir("fuzz-inputs"));
    let told = run_one(limited(&command), false);
    let inputs = inputs(&told.output).map_or_else(|| "no".to_owned(), |inputs| inputs.to_string());
    let took = seconds(start.elapsed());
    let name = format!("{} {}", search.binary.package, search.test.rsplit("::").next().unwrap_or_default());
    let line = format!("  {name:<48}{inputs:>10} inputs {took:>9}");
    (line, (!told.ended_well).then_some(told.output))
}

fn seconds_of(test: &str) -> u64 {
    if test.rsplit("::").next().is_some_and(|name| name.starts_with(LONG)) { MINUTE } else { SECONDS }
}

/// How many inputs a search says that it gave.
fn inputs(output: &str) -> Option<u64> {
    let guided = |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    let plain = |line: &str| line.split_once("fuzz: ")?.1.split(' ').nth(1)?.parse().ok();
    output.lines().find_map(|line| guided(line).or_else(|| plain(line)))
}

/// Builds the crates that are searched, with these flags. What cargo says when it cannot is the error.
fn build(flags: &[&str]) -> Result<Vec<TestBinary>, String> {
    let toolchain = Toolchain::usual().ok_or("there is no rustc")?;
    let mut command = cargo();
    with_flags(&mut command, flags);
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
    command.args(["test", "--no-run", "--lib", "--message-format=json-render-diagnostics"]);
    // With a target, what runs while building is not instrumented.
    command.args(["--target", &toolchain.host]).arg("--target-dir").arg(target_dir("fuzz"));
    for package in &metadata().packages {
        if package.dependencies.iter().any(|dependency| dependency.name == INSTRUMENT) {
            command.args(["--package", &package.name]);
        }
    }
    let output = limited_build(&command).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(parse_messages(&String::from_utf8_lossy(&output.stdout)).tests);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The searches that an executable lists.
fn searches_in(binary: &TestBinary) -> Vec<Search> {
    let mut command = as_test(binary, &Built::default());
    let list = words(command.args(["--list", "--format", "terse"])).unwrap_or_default();
    fuzz_tests(&list).map(|test| Search { binary: binary.clone(), test: test.to_owned() }).collect()
}

fn fuzz_tests(list: &str) -> impl Iterator<Item = &str> {
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.filter(|test| test.rsplit("::").next().is_some_and(|name| name.starts_with(PREFIX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_told_by_their_names() {
        let list = "a::tests::fuzz_lists: test\nfuzz::tests::lists: test\nfuzz_journal: test\nb::fuzz_x: benchmark\n";
        assert_eq!(fuzz_tests(list).collect::<Vec<_>>(), ["a::tests::fuzz_lists", "fuzz_journal"]);
        assert_eq!(seconds_of("a::fuzz_lists"), 20);
        assert_eq!(seconds_of("xml::tests::fuzz_minute_files"), 60);
    }

    #[test]
    fn both_searches_say_how_many_inputs_they_gave() {
        assert_eq!(inputs("INFO: x\nstat::number_of_executed_units: 123456\n"), Some(123_456));
        assert_eq!(inputs("test a ... fuzz: model-cpus: 1007 inputs, 0.1 s, without guidance\n"), Some(1007));
        assert_eq!(inputs("nothing\n"), None);
    }
}
