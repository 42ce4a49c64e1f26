//! `cargo xtask test`: builds, runs group by group, and ends with what ran, what was skipped and why.

use crate::cargo::{BuildError, Built, TestBinary, build_tests, cargo};
use crate::group::{Group, grouped};
use crate::matrix;
use crate::slowest::{self, Timed};
use crate::table::{Row, last_line, seconds, table, total};
use crate::tally::Tally;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
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

    /// The first word of `only` that names no group.
    #[must_use]
    pub fn unknown(&self) -> Option<&String> {
        let is_known = |name: &str| {
            crate::group::ORDER.contains(&name)
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
    let slow: Vec<_> = matrix::GROUPS.iter().filter(|group| wish.all && wish.wants(group.name)).collect();
    if wish.all {
        matrix::announce(&slow);
    }
    let is_quick = |name: &&str| wish.wants(name);
    let needs_tests = crate::group::ORDER.iter().any(is_quick) || slow.iter().any(|group| group.needs_tests);
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
    let (start, since) = (Instant::now(), SystemTime::now());
    let built = build_tests()?;
    println!("built in {}\n", seconds(start.elapsed()));
    let times = slowest::build_times(matrix::target_directory(), since);
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

/// The executable as cargo would run it.
#[must_use]
pub fn as_test(binary: &TestBinary, built: &Built) -> Command {
    under(Command::new(&binary.path), binary, built)
}

/// A command that is to run the executable, in the place and with the variables that cargo gives it.
#[must_use]
pub fn under(mut command: Command, binary: &TestBinary, built: &Built) -> Command {
    command.current_dir(&binary.dir).env("CARGO_MANIFEST_DIR", &binary.dir);
    for (name, path) in &built.programs {
        command.env(format!("CARGO_BIN_EXE_{name}"), path);
    }
    command
}

/// The examples in the documentation.
fn run_documents(all: bool) -> Row {
    let start = Instant::now();
    begin(DOCUMENTS, false);
    let mut command = cargo();
    command.args(["test", "--quiet", "--workspace", "--doc"]);
    if all {
        command.env("PROPTEST_CASES", CASES_ALL);
    }
    let told = run_one(command, false);
    let row = Row { name: DOCUMENTS, tally: told.tally, time: start.elapsed() };
    let failed = row.tally.failed > 0;
    end(&row, false, &failed.then(|| (DOCUMENTS.to_owned(), told.output)).into_iter().collect::<Vec<_>>());
    row
}

/// What one executable said and how it counts.
#[derive(Debug)]
pub struct Told {
    /// Its words, both streams in one.
    pub output: String,
    /// What they say, read as those of a harness.
    pub tally: Tally,
    /// Whether it ended with status 0.
    pub ended_well: bool,
}

/// Runs one program to its end.
#[must_use]
pub fn run_one(mut command: Command, is_shown: bool) -> Told {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let (output, ended_well) = match spawned {
        Err(error) => (format!("cannot run {}: {error}\n", command.get_program().display()), false),
        Ok(mut child) => {
            let output = Arc::new(Mutex::new(String::new()));
            let errors = child.stderr.take().map(|pipe| follow(pipe, &output, is_shown));
            let words = child.stdout.take().map(|pipe| follow(pipe, &output, is_shown));
            for reader in [errors, words].into_iter().flatten() {
                let _ = reader.join();
            }
            let ended_well = child.wait().is_ok_and(|status| status.success());
            let output = output.lock().map(|text| text.clone()).unwrap_or_default();
            (output, ended_well)
        }
    };
    Told { tally: Tally::of(&output, ended_well), output, ended_well }
}

/// Collects what comes out of a pipe line by line, and shows it meanwhile if wanted.
fn follow(
    pipe: impl Read + Send + 'static,
    output: &Arc<Mutex<String>>,
    is_shown: bool,
) -> thread::JoinHandle<()> {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line);
            if is_shown {
                print!("  {text}");
                let _ = io::stdout().flush();
            }
            if let Ok(mut output) = output.lock() {
                output.push_str(&text);
            }
            line.clear();
        }
    })
}

/// Says that a group begins.
pub fn begin(name: &str, is_shown: bool) {
    print!("{name:<10}{}", if is_shown { "\n" } else { "" });
    let _ = io::stdout().flush();
}

/// Says what came of it, and everything that its failures said.
pub fn end(row: &Row, is_shown: bool, failures: &[(String, String)]) {
    let name = if is_shown { row.name } else { "" };
    println!("{}{}", if is_shown { format!("{name:<10}") } else { String::new() }, row.counts());
    for (name, output) in failures {
        println!("\n---- failed: {name}\n{output}----\n");
    }
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
    fn a_program_that_cannot_be_run_has_failed() {
        let told = run_one(Command::new("/nonexistent/test"), false);
        assert_eq!(told.tally.failed, 1);
        assert!(told.output.starts_with("cannot run /nonexistent/test: "), "{}", told.output);
    }

    #[test]
    fn both_streams_are_heard_and_the_end_is_seen() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'skipped: a: b' >&2; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 3",
        ]);
        let told = run_one(command, false);
        assert_eq!((told.tally.passed, told.tally.failed, told.tally.skipped), (1, 1, 1));
        assert!(!told.ended_well);
    }

    #[test]
    fn only_groups_that_there_are_can_be_wished_for() {
        let wish = |all, names: &[&str]| Wish { all, only: names.iter().map(|&n| n.to_owned()).collect() };
        assert_eq!(wish(true, &["values", "documents", "fuzz"]).unknown(), None);
        assert_eq!(wish(false, &["values", "fuzz"]).unknown().map(String::as_str), Some("fuzz"));
        assert!(wish(true, &[]).wants("fuzz") && !wish(true, &["miri"]).wants("fuzz"));
    }
}
