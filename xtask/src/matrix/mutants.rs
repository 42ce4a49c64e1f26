//! Mutation tests: small changes of the code, one at a time, each of which a test of its crate should detect (`cargo-mutants`).
//!
//! The mutants of a crate are divided into shards. A run executes shards until its time is over: first those that never ran, then
//! those that ran longest ago. The ledger, `target/matrix/mutants/ledger.json`, has the last result of each shard, from which the
//! score of a crate is computed. `MILLPOND_MUTANTS_SECONDS` sets the length of a run; at least one shard runs.

use super::outcome::Outcome;
use super::tools::{self, has_program, limited_by, target_dir};
use crate::cargo::{Built, cargo};
use crate::ledger;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A mutated part of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Its name in the table.
    name: &'static str,
    package: &'static str,
    /// The files, if it is not the whole crate.
    files: Option<&'static str>,
    /// Further crates whose tests run.
    tests: &'static [&'static str],
    /// Number of shards. A shard takes about a quarter of an hour on two CPUs.
    shards: u64,
}

const PARTS: [Part; 5] = [
    Part { name: "planner", package: "millpond-planner", files: None, tests: &[], shards: 20 },
    Part { name: "pools", package: "millpond-pools", files: None, tests: &[], shards: 6 },
    Part { name: "formats", package: "millpond-formats", files: None, tests: &[], shards: 28 },
    // Its laws are tested on simulated machines that violate them.
    Part { name: "machine", package: "millpond-machine", files: None, tests: &["millpond-sim"], shards: 64 },
    Part {
        name: "linux",
        package: "millpond-linux",
        files: Some("lib/linux/src/plan/**"),
        tests: &[],
        shards: 30,
    },
];

/// Percentage of viable mutants that tests should detect.
const GOAL: u64 = 90;

/// Time in which a run starts shards, in seconds.
const SECONDS: u64 = 3600;

/// The environment variable that replaces it.
const ASKED: &str = "MILLPOND_MUTANTS_SECONDS";

/// Expected seconds of a shard in a crate without results.
const FIRST: u64 = 1200;

/// Time limit of a shard in seconds. A longer one is killed and has failed.
const LIMIT: u64 = 7200;

/// The results of all shards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    /// Total number of shard runs.
    runs: u64,
    /// Shards by the name of the part and their number.
    parts: BTreeMap<String, BTreeMap<u64, Shard>>,
}

/// The last run of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shard {
    /// Number of shards of the part at that time.
    of: u64,
    /// The number of the run.
    run: u64,
    seconds: u64,
    counts: Counts,
}

/// The outcomes of mutants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    caught: u64,
    /// The tests did not end, which also detects the mutant.
    timeout: u64,
    /// The mutant did not compile.
    unviable: u64,
    /// File, line and change of each undetected mutant.
    missed: Vec<String>,
}

/// The used parts of `outcomes.json`.
#[derive(Deserialize)]
struct Outcomes {
    outcomes: Vec<One>,
    /// Missing in a run that was stopped before its last mutant.
    end_time: Option<String>,
}

#[derive(Deserialize)]
struct One {
    scenario: Scenario,
    summary: String,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant { name: String },
}

impl Counts {
    /// Parses `outcomes.json`.
    fn of(text: &str) -> Result<Counts, String> {
        let outcomes: Outcomes = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (mut counts, is_whole) = (Counts::default(), outcomes.end_time.is_some());
        for One { scenario, summary } in outcomes.outcomes {
            match (scenario, summary.as_str()) {
                (Scenario::Baseline, "Success") => {}
                (Scenario::Baseline, other) => {
                    return Err(format!("the tests fail without a mutant, too: {other}"));
                }
                (_, "CaughtMutant") => counts.caught += 1,
                (_, "Timeout") => counts.timeout += 1,
                (_, "Unviable") => counts.unviable += 1,
                (Scenario::Mutant { name }, "MissedMutant") => counts.missed.push(name),
                (Scenario::Mutant { name }, other) => return Err(format!("{name}: {other}")),
            }
        }
        if is_whole { Ok(counts) } else { Err("the run ended before its last mutant".into()) }
    }

    fn plus(mut self, other: &Counts) -> Counts {
        self.caught += other.caught;
        self.timeout += other.timeout;
        self.unviable += other.unviable;
        self.missed.extend(other.missed.iter().cloned());
        self
    }

    /// Number of mutants that compiled.
    fn viable(&self) -> u64 {
        self.noticed() + self.missed.len() as u64
    }

    fn noticed(&self) -> u64 {
        self.caught + self.timeout
    }

    /// Whether the score reaches the goal.
    fn is_enough(&self) -> bool {
        self.noticed() * 100 >= GOAL * self.viable()
    }

    /// `171 of 184 (92.9 %)`.
    fn score(&self) -> String {
        let tenths = (self.noticed() * 1000).checked_div(self.viable()).unwrap_or(1000);
        format!("{} of {} ({}.{} %)", self.noticed(), self.viable(), tenths / 10, tenths % 10)
    }
}

impl Ledger {
    /// The finished shards of a part, as it is divided now.
    fn shards<'l>(&'l self, part: &Part) -> impl Iterator<Item = (u64, &'l Shard)> + use<'l> {
        let of = part.shards;
        let shards = self.parts.get(part.name).into_iter().flatten();
        shards.map(|(number, shard)| (*number, shard)).filter(move |(_, shard)| shard.of == of)
    }

    /// The part and shard to run next. Of shards that never ran, each part runs its first before any runs its second.
    fn next<'p>(&self, parts: &'p [Part], broken: &BTreeSet<&str>) -> Option<(&'p Part, u64)> {
        let all = parts.iter().filter(|part| !broken.contains(part.name));
        let all = all.flat_map(|part| (0..part.shards).map(move |shard| (part, shard)));
        all.min_by_key(|(part, shard)| {
            let run = self.shards(part).find(|(number, _)| number == shard).map_or(0, |(_, known)| known.run);
            (run, *shard)
        })
    }

    /// The expected duration of a shard: that of the longest one so far.
    fn expected(&self, part: &Part) -> Duration {
        Duration::from_secs(self.shards(part).map(|(_, shard)| shard.seconds).max().unwrap_or(FIRST))
    }

    /// Records a run.
    fn record(&mut self, part: &Part, number: u64, seconds: u64, counts: Counts) {
        self.runs += 1;
        let shards = self.parts.entry(part.name.to_owned()).or_default();
        shards.retain(|_, shard| shard.of == part.shards);
        shards.insert(number, Shard { of: part.shards, run: self.runs, seconds, counts });
    }

    /// Counts each part as a case: passed if its score reaches the goal, skipped if no shard ran.
    fn judge(&self, parts: &[Part], outcome: &mut Outcome) {
        let mut scores = Vec::new();
        for part in parts {
            let ran = self.shards(part).count();
            if ran == 0 {
                outcome.tally.skipped += 1;
                outcome.tally.reasons.push(format!("{}: no shard of {} has run", part.name, part.shards));
                continue;
            }
            let counts = self.shards(part).fold(Counts::default(), |sum, (_, shard)| sum.plus(&shard.counts));
            let shards = format!("{ran} of {} shards", part.shards);
            let survivors: String = counts.missed.iter().map(|name| format!("    {name}\n")).collect();
            println!("  {:<10}{} in {shards}, survivors:\n{survivors}", part.name, counts.score());
            scores.push(format!("{} {}", part.name, counts.score()));
            if counts.is_enough() {
                outcome.tally.passed += 1;
            } else {
                let why = format!("{} is less than {GOAL} %, in {shards}:\n{survivors}", counts.score());
                outcome.fail(part.name, why);
            }
        }
        if !scores.is_empty() {
            outcome.tally.note = format!("{}; goal {GOAL} %", scores.join(", "));
        }
    }
}

pub(super) fn lacks() -> Option<String> {
    (!has_program("cargo-mutants"))
        .then(|| "there is no cargo-mutants (cargo install cargo-mutants --locked)".to_owned())
}

pub(super) fn run(_: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    let dir = target_dir("mutants");
    let file = dir.join("ledger.json");
    let (mut ledger, damage) = ledger::read::<Ledger>(&file);
    if let Some(damage) = damage {
        println!("  {damage}");
    }
    let asked = std::env::var(ASKED).ok().and_then(|text| text.parse().ok());
    let (start, time) = (Instant::now(), Duration::from_secs(asked.unwrap_or(SECONDS)));
    let (mut left, mut broken) = (PARTS.iter().map(|part| part.shards).sum::<u64>(), BTreeSet::new());
    let mut is_first = true;
    while let Some((part, number)) = ledger.next(&PARTS, &broken).filter(|_| left > 0) {
        if !is_first && start.elapsed() + ledger.expected(part) > time {
            break;
        }
        (is_first, left) = (false, left - 1);
        let began = Instant::now();
        match run_shard(part, number, &dir) {
            Ok(counts) => {
                let seconds = began.elapsed().as_secs().max(1);
                println!("  {} shard {number}/{}: {} in {seconds} s", part.name, part.shards, counts.score());
                ledger.record(part, number, seconds, counts);
                if let Err(error) = ledger::write(&file, &ledger) {
                    println!("  {}: the ledger is not kept: {error}", file.display());
                }
            }
            Err(words) => {
                outcome.fail(&format!("{} shard {number}/{}", part.name, part.shards), words);
                broken.insert(part.name);
            }
        }
    }
    ledger.judge(&PARTS, &mut outcome);
    outcome
}

/// Runs one shard. Without a result, the error is the output of `cargo mutants`.
fn run_shard(part: &Part, number: u64, dir: &Path) -> Result<Counts, String> {
    let (results, copies) = (dir.join("mutants.out/outcomes.json"), dir.join("copies"));
    // Remove leftovers of a stopped run, so that they are not taken for results of this one.
    let _ = fs::remove_file(&results);
    let _ = fs::remove_dir_all(&copies);
    fs::create_dir_all(&copies).map_err(|error| format!("{}: {error}\n", copies.display()))?;
    let command = command(part, number, dir, &copies);
    let output = limited_by(LIMIT, &command).output().map_err(|error| format!("{error}\n"))?;
    let text = fs::read_to_string(&results).map_err(|error| format!("{}: {error}", results.display()));
    text.and_then(|text| Counts::of(&text)).map_err(|why| format!("{why}\n{}", tools::output(&output)))
}

/// The `cargo mutants` command for one shard. It mutates a copy of the tree, which it creates in `copies` and removes at its end.
fn command(part: &Part, number: u64, dir: &Path, copies: &PathBuf) -> std::process::Command {
    let mut command = cargo();
    command.args(["mutants", "--colors", "never", "--package", part.package]);
    if let Some(files) = part.files {
        command.args(["--file", files]);
    }
    if !part.tests.is_empty() {
        let packages = [part.package].into_iter().chain(part.tests.iter().copied());
        command.args(packages.flat_map(|package| ["--test-package", package]));
    }
    // Each shard has mutants of all files.
    command.args(["--sharding", "round-robin", "--shard", &format!("{number}/{}", part.shards)]);
    command.arg("--output").arg(dir);
    // The copy has its own target directory.
    command.env("TMPDIR", copies).env_remove("CARGO_TARGET_DIR");
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    if std::env::var_os("PROPTEST_CASES").is_none() {
        command.env("PROPTEST_CASES", crate::test::CASES);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Part; 2] = [
        Part { name: "a", package: "millpond-a", files: None, tests: &[], shards: 2 },
        Part {
            name: "b",
            package: "millpond-b",
            files: Some("lib/b/src/plan/**"),
            tests: &["millpond-c"],
            shards: 2,
        },
    ];

    fn counts(caught: u64, timeout: u64, missed: &[&str]) -> Counts {
        let missed = missed.iter().map(|&name| name.to_owned()).collect();
        Counts { caught, timeout, unviable: 0, missed }
    }

    fn outcomes(summaries: &[(&str, &str)]) -> String {
        let mutants = summaries.iter().map(|(name, summary)| {
            format!(r#",{{"scenario":{{"Mutant":{{"name":"{name}","file":"x.rs"}}}},"summary":"{summary}"}}"#)
        });
        let mutants: String = mutants.collect();
        format!(
            r#"{{"outcomes":[{{"scenario":"Baseline","summary":"Success"}}{mutants}],"total_mutants":9,"end_time":"2026-11-29T12:43:09Z"}}"#
        )
    }

    #[test]
    fn outcomes_are_counted_and_survivors_have_their_place() {
        let text = outcomes(&[
            ("x.rs:1:1: replace f -> bool with true", "CaughtMutant"),
            ("x.rs:2:5: replace < with == in f", "MissedMutant"),
            ("x.rs:3:5: replace g with ()", "Timeout"),
            ("x.rs:4:5: replace h -> T with Default::default()", "Unviable"),
            ("x.rs:5:5: replace + with - in i", "CaughtMutant"),
        ]);
        let found = Counts::of(&text).unwrap();
        assert_eq!(found, Counts { unviable: 1, ..counts(2, 1, &["x.rs:2:5: replace < with == in f"]) });
        assert_eq!((found.noticed(), found.viable()), (3, 4));
    }

    #[test]
    fn what_is_no_result_is_an_error() {
        let ended = outcomes(&[("x.rs:1:1: a", "CaughtMutant")]).replace("\"2026-11-29T12:43:09Z\"", "null");
        assert_eq!(Counts::of(&ended).unwrap_err(), "the run ended before its last mutant");
        let failed = r#"{"outcomes":[{"scenario":"Baseline","summary":"Failure"}]}"#;
        assert_eq!(Counts::of(failed).unwrap_err(), "the tests fail without a mutant, too: Failure");
        assert_eq!(Counts::of(&outcomes(&[("x.rs:1:1: a", "Odd")])).unwrap_err(), "x.rs:1:1: a: Odd");
        for damaged in ["", "{\"outcomes\":[{}]}", "[]"] {
            assert!(Counts::of(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn nine_of_ten_are_enough_and_none_is_not_divided_by() {
        assert!(counts(8, 1, &["m"]).is_enough() && counts(0, 0, &[]).is_enough());
        assert!(!counts(89, 0, &["m"; 11]).is_enough() && !counts(0, 0, &["m"]).is_enough());
        assert_eq!(counts(170, 1, &["m"; 13]).score(), "171 of 184 (92.9 %)");
        assert_eq!(counts(0, 0, &[]).score(), "0 of 0 (100.0 %)");
    }

    #[test]
    fn shards_that_never_ran_come_first_then_the_oldest() {
        let (mut ledger, none) = (Ledger::default(), BTreeSet::new());
        let mut order = Vec::new();
        for _ in 0..5 {
            let (part, number) = ledger.next(&TWO, &none).unwrap();
            order.push((part.name, number));
            ledger.record(part, number, 60 + number, Counts::default());
        }
        assert_eq!(order, [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 0)]);
        assert_eq!(ledger.next(&TWO, &BTreeSet::from(["b"])).unwrap().1, 1);
        assert_eq!(ledger.next(&TWO, &BTreeSet::from(["a", "b"])), None);
        assert_eq!(ledger.expected(&TWO[0]).as_secs(), 61);
        // After a different division there are no results.
        let more = Part { shards: 3, ..TWO[0] };
        assert_eq!((ledger.expected(&more).as_secs(), ledger.shards(&more).count()), (FIRST, 0));
        ledger.record(&more, 2, 5, Counts::default());
        assert_eq!((ledger.shards(&more).count(), ledger.shards(&TWO[0]).count()), (1, 0));
    }

    #[test]
    fn the_row_has_the_score_of_each_part() {
        let mut ledger = Ledger::default();
        ledger.record(&TWO[0], 0, 5, counts(9, 0, &[]));
        ledger.record(&TWO[0], 1, 5, counts(9, 0, &["x.rs:2:5: m", "x.rs:7:5: n"]));
        let mut outcome = Outcome::default();
        ledger.judge(&TWO, &mut outcome);
        assert_eq!((outcome.tally.passed, outcome.tally.failed, outcome.tally.skipped), (1, 0, 1));
        assert_eq!(outcome.tally.note, "a 18 of 20 (90.0 %); goal 90 %");
        assert_eq!(outcome.tally.reasons, ["b: no shard of 2 has run"]);
        ledger.record(&TWO[1], 0, 5, counts(1, 0, &["y.rs:4:1: o"]));
        let mut outcome = Outcome::default();
        ledger.judge(&TWO, &mut outcome);
        assert_eq!((outcome.tally.passed, outcome.tally.failed, outcome.tally.skipped), (1, 1, 0));
        assert_eq!(outcome.tally.note, "a 18 of 20 (90.0 %), b 1 of 2 (50.0 %); goal 90 %");
        let why = "1 of 2 (50.0 %) is less than 90 %, in 1 of 2 shards:\n    y.rs:4:1: o\n";
        assert_eq!(outcome.failures, [("b".to_owned(), why.to_owned())]);
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mutants/ledger.json");
        let mut ledger = Ledger::default();
        ledger.record(&TWO[0], 1, 5, counts(9, 1, &["x.rs:2:5: m"]));
        ledger::write(&file, &ledger).unwrap();
        let text = "{\"runs\":1,\"parts\":{\"a\":{\"1\":{\"of\":2,\"run\":1,\"seconds\":5,\
                    \"counts\":{\"caught\":9,\"timeout\":1,\"unviable\":0,\"missed\":[\"x.rs:2:5: m\"]}}}}}\n";
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(ledger::read::<Ledger>(&file), (ledger, None));
    }

    #[test]
    fn cargo_gets_the_crate_the_files_and_the_shard() {
        let words = |part: &Part| {
            let command = command(part, 1, Path::new("/t/mutants"), &"/t/mutants/copies".into());
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(&TWO[1]),
            "mutants --colors never --package millpond-b --file lib/b/src/plan/** --test-package millpond-b \
             --test-package millpond-c --sharding round-robin --shard 1/2 --output /t/mutants"
        );
        assert_eq!(
            words(&TWO[0]),
            "mutants --colors never --package millpond-a --sharding round-robin --shard 1/2 --output /t/mutants"
        );
    }

    #[test]
    fn every_part_is_a_crate_with_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for part in PARTS {
            for name in part.tests.iter().chain([&part.package]) {
                assert!(tools::metadata().packages.iter().any(|package| package.name == *name), "{name}");
            }
            if let Some(files) = part.files {
                assert!(root.join(files.strip_suffix("/**").unwrap()).is_dir(), "{files}");
            }
        }
    }
}
