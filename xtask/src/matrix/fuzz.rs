//! Fuzzing: runs every test with the prefix `fuzz_` for a given time, to find inputs that break a parser.
//!
//! With a C++ compiler libFuzzer runs the searches, guided by coverage; the stable compiler instruments the code. Without one
//! they run as in `cargo test`, for a longer time.
//!
//! A run is a slice of the search. The corpus stays in `target/matrix/fuzz-inputs/NAME`, together with a ledger of executions and
//! time over all slices. `MILLPOND_FUZZ_SECONDS` sets the length of a slice.

use super::ledger::{Ledger, grouped};
use super::outcome::Outcome;
use super::tools::{
    self, Metadata, Toolchain, cpus, limited_build, limited_by, metadata, rt_metadata, target_dir,
    with_flags, words,
};
use crate::cargo::{Built, TestBinary, cargo, parse_messages, rt_manifest};
use crate::run::{as_test, run_one};
use crate::table::seconds;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Duration of a search in seconds: a minute for files written by people or sent by others, less for the rest.
const SECONDS: u64 = 20;
const MINUTE: u64 = 60;

/// The environment variable with the seconds of a slice, for this program and for each search.
const ASKED: &str = "MILLPOND_FUZZ_SECONDS";
/// A search with fewer inputs per second is not extended, because it would use the time of the others.
const SLOW_RATE: u64 = 500;
/// Additional time of a search: to start, to read its corpus, and to end.
const BESIDE_SECONDS: u64 = 840;

/// The goal for the total executions of all searches over all slices.
const GOAL: u64 = 100_000_000;

/// The prefix of tests that run for a minute.
const LONG: &str = "fuzz_minute_";

/// The prefix of all such tests.
const PREFIX: &str = "fuzz_";

/// The fuzzing harness.
const INSTRUMENT: &str = "millpond-fuzz";

/// Compiler flags for libFuzzer's coverage and comparison tracing.
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

/// A search.
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

/// Runs the searches, one per CPU.
fn run_all(searches: Vec<Search>, outcome: Outcome) -> Outcome {
    let sum = (outcome, Ledger::default(), Ledger::default());
    let (waiting, sum) = (Mutex::new(searches.into_iter()), Mutex::new(sum));
    let asked = std::env::var(ASKED).ok().and_then(|text| text.parse().ok());
    thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(|| {
                while let Some(search) = waiting.lock().ok().and_then(|mut waiting| waiting.next()) {
                    let done = run_search(&search, asked);
                    println!("{}", done.lines);
                    if let Ok(mut sum) = sum.lock() {
                        let (outcome, slice, all) = &mut *sum;
                        (*slice, *all) = (slice.plus(done.slice), all.plus(done.all));
                        outcome.tally.failed += u64::from(done.failure.is_some());
                        outcome.tally.passed += u64::from(done.failure.is_none());
                        outcome.failures.extend(done.failure.map(|words| (search.test.clone(), words)));
                    }
                }
            });
        }
    });
    let (outcome, slice, all) = sum.into_inner().unwrap_or_default();
    println!("{}", last_line(&slice, &all));
    outcome
}

/// The result of a slice.
struct Done {
    /// The lines to print.
    lines: String,
    /// The figures of this slice.
    slice: Ledger,
    /// The figures of all slices.
    all: Ledger,
    /// The complete output if the search found something.
    failure: Option<String>,
}

fn run_search(search: &Search, asked: Option<u64>) -> Done {
    let start = Instant::now();
    let dir = target_dir("fuzz-inputs").join(dir_name(search));
    let (before, damage) = Ledger::read(&dir);
    let slice_seconds = seconds_of(&search.test, asked, before.rate());
    let mut command = as_test(&search.binary, &Built::default());
    command.args(["--exact", &search.test, "--nocapture", "--test-threads=1"]);
    command.env(ASKED, slice_seconds.to_string()).env("MILLPOND_FUZZ_DIR", &dir);
    let told = run_one(limited_by(slice_seconds + BESIDE_SECONDS, &command), false);
    let executions = executions(&told.output).unwrap_or(0);
    let all = before.after(executions, start.elapsed().as_secs(), &dir);
    let loss =
        all.write(&dir).err().map(|error| format!("{}: the ledger is not kept: {error}", dir.display()));
    let title = format!("{} {}", search.binary.package, last_part(&search.test));
    let mut lines = format!("  {title:<48}{}", told_of(executions, seconds(start.elapsed()), &all));
    for note in [damage, loss].into_iter().flatten() {
        lines.push_str(&format!("\n    {note}"));
    }
    let slice = Ledger { executions, seconds: all.seconds - before.seconds, corpus: all.corpus, slices: 1 };
    Done { lines, slice, all, failure: (!told.ended_well).then_some(told.output) }
}

fn told_of(executions: u64, time: String, all: &Ledger) -> String {
    format!(
        "{:>12} executions {time:>9}; in all {:>13} in {} s and {} {}, corpus {}",
        grouped(executions),
        grouped(all.executions),
        grouped(all.seconds),
        all.slices,
        if all.slices == 1 { "slice" } else { "slices" },
        grouped(all.corpus),
    )
}

/// The summary of all searches.
fn last_line(slice: &Ledger, all: &Ledger) -> String {
    format!(
        "  {} searches: {} executions in this slice, {} in all; the goal is {}; corpora of {} inputs",
        slice.slices,
        grouped(slice.executions),
        grouped(all.executions),
        grouped(GOAL),
        grouped(all.corpus),
    )
}

/// The directory of a search, with its corpus, its ledger and failing inputs.
fn dir_name(search: &Search) -> String {
    format!("{}-{}", search.binary.package, search.test.replace("::", "-"))
}

fn last_part(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or_default()
}

/// The length of a test's slice: the default, or as requested, except for a slow search.
fn seconds_of(test: &str, asked: Option<u64>, rate: Option<u64>) -> u64 {
    let usual = if last_part(test).starts_with(LONG) { MINUTE } else { SECONDS };
    match asked {
        Some(asked) if rate.is_some_and(|rate| rate < SLOW_RATE) => usual.min(asked),
        Some(asked) => asked,
        None => usual,
    }
}

/// The number of executions, from the output of a search.
fn executions(output: &str) -> Option<u64> {
    let guided = |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    let plain = |line: &str| line.split_once("fuzz: ")?.1.split(' ').nth(1)?.parse().ok();
    output.lines().find_map(|line| guided(line).or_else(|| plain(line)))
}

/// Builds the searched crates of both workspaces with these flags. The error is cargo's output.
fn build(flags: &[&str]) -> Result<Vec<TestBinary>, String> {
    let mut binaries = build_workspace(flags, metadata(), None)?;
    binaries.extend(build_workspace(flags, rt_metadata(), Some(rt_manifest()))?);
    Ok(binaries)
}

fn build_workspace(
    flags: &[&str],
    metadata: &Metadata,
    manifest: Option<&Path>,
) -> Result<Vec<TestBinary>, String> {
    let toolchain = Toolchain::usual().ok_or("there is no rustc")?;
    let mut command = cargo();
    with_flags(&mut command, flags);
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
    command.args(["test", "--no-run", "--lib", "--message-format=json-render-diagnostics"]);
    // With an explicit target, build scripts are not instrumented.
    command.args(["--target", &toolchain.host]).arg("--target-dir").arg(target_dir("fuzz"));
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    for package in &metadata.packages {
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

/// The searches in an executable.
fn searches_in(binary: &TestBinary) -> Vec<Search> {
    let mut command = as_test(binary, &Built::default());
    let list = words(command.args(["--list", "--format", "terse"])).unwrap_or_default();
    fuzz_tests(&list).map(|test| Search { binary: binary.clone(), test: test.to_owned() }).collect()
}

fn fuzz_tests(list: &str) -> impl Iterator<Item = &str> {
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.filter(|test| last_part(test).starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_told_by_their_names() {
        let list = "a::tests::fuzz_lists: test\nfuzz::tests::lists: test\nfuzz_journal: test\nb::fuzz_x: benchmark\n";
        assert_eq!(fuzz_tests(list).collect::<Vec<_>>(), ["a::tests::fuzz_lists", "fuzz_journal"]);
    }

    #[test]
    fn a_slice_is_as_long_as_asked_unless_its_search_is_slow() {
        assert_eq!(seconds_of("a::fuzz_lists", None, None), 20);
        assert_eq!(seconds_of("xml::tests::fuzz_minute_files", None, Some(9000)), 60);
        assert_eq!(seconds_of("a::fuzz_lists", Some(600), None), 600);
        assert_eq!(seconds_of("a::fuzz_lists", Some(600), Some(500)), 600);
        assert_eq!(seconds_of("a::fuzz_lists", Some(600), Some(499)), 20);
        assert_eq!(seconds_of("a::fuzz_lists", Some(3), Some(499)), 3);
    }

    #[test]
    fn each_search_tells_this_slice_and_all() {
        let one = Ledger { executions: 1_234_567, seconds: 21, corpus: 300, slices: 1 };
        assert_eq!(
            told_of(1_234_567, "20.3 s".into(), &one),
            "   1,234,567 executions    20.3 s; in all     1,234,567 in 21 s and 1 slice, corpus 300"
        );
        let two = Ledger { executions: 2_000_000, seconds: 1_041, corpus: 1_301, slices: 2 };
        assert_eq!(
            told_of(765_433, "20.1 s".into(), &two),
            "     765,433 executions    20.1 s; in all     2,000,000 in 1,041 s and 2 slices, corpus 1,301"
        );
        assert_eq!(
            last_line(&Ledger { slices: 43, ..one }, &two),
            "  43 searches: 1,234,567 executions in this slice, 2,000,000 in all; the goal is 100,000,000; corpora of 1,301 inputs"
        );
    }

    #[test]
    fn both_searches_say_how_many_executions_there_were() {
        assert_eq!(executions("INFO: x\nstat::number_of_executed_units: 123456\n"), Some(123_456));
        assert_eq!(
            executions("test a ... fuzz: model-cpus: 1007 inputs, 0.1 s, without guidance\n"),
            Some(1007)
        );
        assert_eq!(executions("nothing\n"), None);
    }
}
