//! Runs an executable: its environment, its output, and the messages at the start and end of a group.

use crate::cargo::{Built, TestBinary};
use crate::table::Row;
use crate::tally::Tally;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The command for the executable, as cargo runs it.
#[must_use]
pub fn as_test(binary: &TestBinary, built: &Built) -> Command {
    under(Command::new(&binary.path), binary, built)
}

/// Prepares a command that runs the executable: directory and environment are those that cargo sets.
#[must_use]
pub fn under(mut command: Command, binary: &TestBinary, built: &Built) -> Command {
    command.current_dir(&binary.dir).env("CARGO_MANIFEST_DIR", &binary.dir);
    for (name, path) in &built.programs {
        command.env(format!("CARGO_BIN_EXE_{name}"), path);
    }
    for (name, value) in built.variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        command.env(name, value);
    }
    command
}

/// Names of cases, with the time from the start of the executable to the end of the case.
pub type Ends = Vec<(String, Duration)>;

/// The output of an executable, and its counts.
#[derive(Debug)]
pub struct Told {
    /// Its output, with both streams combined.
    pub output: String,
    /// The output parsed as that of a test harness.
    pub tally: Tally,
    /// Whether its exit status was 0.
    pub ended_well: bool,
    /// Cases in the order of their ends, with the time since the start.
    pub ends: Ends,
}

/// Runs a program and waits for it.
#[must_use]
pub fn run_one(mut command: Command, is_shown: bool) -> Told {
    let (start, ends) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let (output, ended_well) = match spawned {
        Err(error) => (format!("cannot run {}: {error}\n", command.get_program().display()), false),
        Ok(mut child) => {
            let output = Arc::new(Mutex::new(String::new()));
            let errors = child.stderr.take().map(|pipe| follow(pipe, &output, is_shown, (start, &ends)));
            let words = child.stdout.take().map(|pipe| follow(pipe, &output, is_shown, (start, &ends)));
            for reader in [errors, words].into_iter().flatten() {
                let _ = reader.join();
            }
            let ended_well = child.wait().is_ok_and(|status| status.success());
            let output = output.lock().map(|text| text.clone()).unwrap_or_default();
            (output, ended_well)
        }
    };
    let ends = ends.lock().map(|ends| ends.clone()).unwrap_or_default();
    Told { tally: Tally::of(&output, ended_well), output, ended_well, ends }
}

/// Collects the output of a pipe line by line, and optionally shows it.
fn follow(
    pipe: impl Read + Send + 'static,
    output: &Arc<Mutex<String>>,
    is_shown: bool,
    (start, ends): (Instant, &Arc<Mutex<Ends>>),
) -> thread::JoinHandle<()> {
    let (output, ends) = (Arc::clone(output), Arc::clone(ends));
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line);
            if let Some(name) = ended_case(&text)
                && let Ok(mut ends) = ends.lock()
            {
                ends.push((name.to_owned(), start.elapsed()));
            }
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

/// The case whose end this line reports: `test NAME ... ok`.
fn ended_case(line: &str) -> Option<&str> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    ["ok", "FAILED", "ignored"].iter().any(|word| result.starts_with(word)).then(|| name.trim_end())
}

/// Prints the start of a group.
pub fn begin(name: &str, is_shown: bool) {
    print!("{name:<10}{}", if is_shown { "\n" } else { "" });
    let _ = io::stdout().flush();
}

/// Prints the counts of a group, and the complete output of its failures.
pub fn end(row: &Row, is_shown: bool, failures: &[(String, String)]) {
    let name = if is_shown { row.name } else { "" };
    println!("{}{}", if is_shown { format!("{name:<10}") } else { String::new() }, row.counts());
    for (name, output) in failures {
        print_failure(name, output);
    }
}

/// Prints the complete output of a failed executable.
pub fn print_failure(name: &str, output: &str) {
    println!("\n---- failed: {name}\n{output}----\n");
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
}
