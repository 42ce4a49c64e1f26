//! `cargo xtask test`: builds, runs group by group, and ends with what ran, what was skipped and why.

use crate::cargo::{BuildError, Built, TestBinary, build_tests, cargo};
use crate::group::{Group, grouped};
use crate::tally::Tally;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Set for every test: how many random cases a property gets when everything is to be run.
const CASES_ALL: &str = "2048";

/// One row of the last table.
struct Row {
    name: &'static str,
    tally: Tally,
    time: Duration,
}

/// Runs everything; true when nothing failed.
///
/// # Errors
/// [`BuildError`] when the tests cannot be built.
pub fn run(all: bool) -> Result<bool, BuildError> {
    println!("building the tests");
    let start = Instant::now();
    let built = build_tests()?;
    println!("built in {}\n", seconds(start.elapsed()));
    let mut rows = Vec::new();
    let programs = built.clone();
    for (group, binaries) in grouped(built.tests, |test| &test.package) {
        rows.push(run_group(group, &binaries, &programs, all));
    }
    rows.push(run_documents(all));
    print!("{}", table(&rows));
    let total = total(&rows);
    println!("{}", last_line(&total));
    Ok(total.failed == 0)
}

fn run_group(group: Group, binaries: &[TestBinary], built: &Built, all: bool) -> Row {
    let start = Instant::now();
    begin(group.name, group.is_shown);
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for binary in binaries {
        let mut command = Command::new(&binary.path);
        command.current_dir(&binary.dir).env("CARGO_MANIFEST_DIR", &binary.dir);
        for (name, path) in &built.programs {
            command.env(format!("CARGO_BIN_EXE_{name}"), path);
        }
        // So that a test that skips itself is heard.
        command.arg("--show-output");
        let told = run_one(command, all, group.is_shown);
        if told.tally.failed > 0 {
            failures.push((format!("{} of {}", binary.target, place(&binary.dir)), told.output));
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
    begin("documents", false);
    let mut command = cargo();
    command.args(["test", "--quiet", "--workspace", "--doc"]);
    let told = run_one(command, all, false);
    let row = Row { name: "documents", tally: told.tally, time: start.elapsed() };
    let failed = row.tally.failed > 0;
    end(&row, false, &failed.then(|| ("documents".to_owned(), told.output)).into_iter().collect::<Vec<_>>());
    row
}

/// What one executable said and how it counts.
struct Told {
    output: String,
    tally: Tally,
}

fn run_one(mut command: Command, all: bool, is_shown: bool) -> Told {
    if all {
        command.env("MILLPOND_VM", "all").env("PROPTEST_CASES", CASES_ALL);
    }
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
    Told { tally: Tally::of(&output, ended_well), output }
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

fn begin(name: &str, is_shown: bool) {
    print!("{name:<10}{}", if is_shown { "\n" } else { "" });
    let _ = io::stdout().flush();
}

fn end(row: &Row, is_shown: bool, failures: &[(String, String)]) {
    let name = if is_shown { row.name } else { "" };
    println!("{}{}", if is_shown { format!("{name:<10}") } else { String::new() }, counts(row));
    for (name, output) in failures {
        println!("\n---- failed: {name}\n{output}----\n");
    }
}

fn counts(row: &Row) -> String {
    let Tally { passed, failed, skipped, .. } = row.tally;
    format!("{passed:>6} passed {failed:>4} failed {skipped:>4} skipped {:>9}", seconds(row.time))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The crate's directory, short.
fn place(dir: &Path) -> String {
    let mut parts: Vec<_> = dir.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.reverse();
    parts.join("/")
}

fn total(rows: &[Row]) -> Tally {
    let mut total = Tally::default();
    for row in rows {
        total.add(&row.tally);
    }
    total
}

/// What ran, what was skipped, and why.
fn table(rows: &[Row]) -> String {
    let mut text =
        format!("\n{:<10}{:>8}{:>8}{:>9}{:>11}  why skipped\n", "group", "ran", "failed", "skipped", "time");
    for row in rows {
        let Tally { passed, failed, skipped, reasons } = &row.tally;
        let why = match (*skipped, reasons.as_slice()) {
            (0, _) => String::new(),
            (_, []) => "not said".into(),
            (_, [only]) => only.clone(),
            (_, [..]) => "see below".into(),
        };
        let line = format!(
            "{:<10}{:>8}{failed:>8}{skipped:>9}{:>11}  {why}",
            row.name,
            passed + failed,
            seconds(row.time)
        );
        text += line.trim_end();
        text.push('\n');
    }
    for row in rows.iter().filter(|row| row.tally.reasons.len() > 1) {
        for reason in &row.tally.reasons {
            text += &format!("skipped in {}: {reason}\n", row.name);
        }
    }
    text.push('\n');
    text
}

/// The one line that machines read.
fn last_line(total: &Tally) -> String {
    format!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, passed: u64, failed: u64, reasons: &[&str]) -> Row {
        let reasons: Vec<String> = reasons.iter().map(|&r| r.to_owned()).collect();
        let skipped = u64::try_from(reasons.len()).unwrap();
        Row { name, tally: Tally { passed, failed, skipped, reasons }, time: Duration::from_millis(1250) }
    }

    #[test]
    fn the_table_says_what_ran_what_was_skipped_and_why() {
        let rows = [
            row("values", 214, 0, &[]),
            row("machines", 90, 1, &["v1: no cgroup v1 here"]),
            row("kernels", 0, 0, &["6.17: there is no qemu", "6.1: there is no qemu"]),
        ];
        let expected = "
group          ran  failed  skipped       time  why skipped
values         214       0        0      1.2 s
machines        91       1        1      1.2 s  v1: no cgroup v1 here
kernels          0       0        2      1.2 s  see below
skipped in kernels: 6.17: there is no qemu
skipped in kernels: 6.1: there is no qemu

";
        assert_eq!(table(&rows), expected);
        assert_eq!(last_line(&total(&rows)), "304 passed, 1 failed, 3 skipped");
    }

    #[test]
    fn a_program_that_cannot_be_run_has_failed() {
        let told = run_one(Command::new("/nonexistent/test"), false, false);
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
        let told = run_one(command, false, false);
        assert_eq!((told.tally.passed, told.tally.failed, told.tally.skipped), (1, 1, 1));
    }
}
