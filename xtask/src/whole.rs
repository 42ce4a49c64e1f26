//! `make test-all` in slices of at most two hours. A ledger records which part passed at which commit.
//!
//! A part is a group of tests or a group of the slow matrix. A slice runs as many parts that have not passed at the current
//! commit as are expected to end within the limit. When every part has passed at one commit, the last line of the table says so.

use crate::ledger;
use crate::table::Row;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Maximal duration of a slice.
pub const SLICE: Duration = Duration::from_secs(2 * 3600);

/// Expected seconds of parts that never ran and take longer than [`FIRST`].
const LONG: [(&str, u64); 4] = [("kernels", 3600), ("soak", 4500), ("fuzz", 1800), ("mutants", 3600)];
/// Expected seconds of any other part that never ran.
const FIRST: u64 = 900;

/// The ledger file, in the target directory.
const FILE: &str = "test-all.json";

/// The last run of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    commit: String,
    passed: u64,
    failed: u64,
    skipped: u64,
    seconds: u64,
}

/// The last run of each part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger(BTreeMap<String, Part>);

/// The commit of the working tree. `None` when the tree is modified, or without git: then no result is recorded.
#[must_use]
pub fn commit() -> Option<String> {
    let git = |words: &[&str]| {
        let output =
            Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    git(&["status", "--porcelain"]).filter(String::is_empty)?;
    git(&["rev-parse", "HEAD"])
}

fn file(target: &Path) -> PathBuf {
    target.join(FILE)
}

impl Ledger {
    /// The ledger of a target directory. A damaged one is replaced, with a message.
    #[must_use]
    pub fn read(target: &Path) -> (Ledger, Option<String>) {
        ledger::read(&file(target))
    }

    /// Writes the ledger.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn write(&self, target: &Path) -> io::Result<()> {
        ledger::write(&file(target), self)
    }

    /// The expected duration of a part.
    #[must_use]
    pub fn expected(&self, name: &str) -> Duration {
        let first = || LONG.iter().find(|(long, _)| *long == name).map_or(FIRST, |(_, seconds)| *seconds);
        Duration::from_secs(self.0.get(name).map_or_else(first, |part| part.seconds))
    }

    /// The parts of the next slice: those that have not passed at the commit, in order, as many as fit, and at least one if any
    /// is left.
    #[must_use]
    pub fn next<'n>(&self, names: &[&'n str], commit: Option<&str>) -> Vec<&'n str> {
        let has_passed = |name: &str| {
            let part = self.0.get(name);
            part.is_some_and(|part| {
                part.failed == 0 && part.passed > 0 && Some(part.commit.as_str()) == commit
            })
        };
        let (mut chosen, mut sum) = (Vec::new(), Duration::ZERO);
        for name in names.iter().filter(|name| !has_passed(name)) {
            sum += self.expected(name);
            if chosen.is_empty() || sum <= SLICE {
                chosen.push(*name);
            } else {
                sum -= self.expected(name);
            }
        }
        chosen
    }

    /// Records the rows of a slice.
    pub fn record(&mut self, rows: &[Row], commit: &str) {
        for row in rows {
            let part = Part {
                commit: commit.to_owned(),
                passed: row.tally.passed,
                failed: row.tally.failed,
                skipped: row.tally.skipped,
                // The duration of a skipped part is not representative.
                seconds: if row.tally.passed == 0 {
                    self.expected(row.name).as_secs()
                } else {
                    row.time.as_secs().max(1)
                },
            };
            self.0.insert(row.name.to_owned(), part);
        }
    }

    /// The table of parts with their last runs, and whether all passed at the commit.
    #[must_use]
    pub fn table(&self, names: &[&str], commit: Option<&str>) -> String {
        let short = |commit: &str| commit.chars().take(12).collect::<String>();
        let mut text = format!(
            "\n{:<12}{:<14}{:>8}{:>8}{:>9}  result\n",
            "part", "commit", "passed", "failed", "skipped"
        );
        let (mut open, mut skipped, mut never) = (Vec::new(), 0, Vec::new());
        for name in names {
            let Some(part) = self.0.get(*name) else {
                text += &format!("{name:<12}{:<14}{:>8}{:>8}{:>9}  did not run\n", "-", "-", "-", "-");
                open.push(*name);
                continue;
            };
            let result = match part {
                Part { failed: 1.., .. } => "FAILED",
                Part { passed: 1.., .. } => "passed",
                _ => "skipped",
            };
            text += &format!(
                "{name:<12}{:<14}{:>8}{:>8}{:>9}  {result}\n",
                short(&part.commit),
                part.passed,
                part.failed,
                part.skipped
            );
            if result == "FAILED" || Some(part.commit.as_str()) != commit {
                open.push(*name);
            }
            skipped += part.skipped;
            never.extend((result == "skipped").then_some(*name));
        }
        let Some(commit) = commit else {
            return text + "not recorded: the tree has changes that are not committed\n";
        };
        let commit = short(commit);
        if !open.is_empty() {
            return format!("{text}not passed as a whole at commit {commit}: {} left\n", open.join(", "));
        }
        text += &format!("passed as a whole at commit {commit}");
        if skipped > 0 {
            text += &format!("; {skipped} skipped");
        }
        if !never.is_empty() {
            text += &format!("; not possible on this machine: {}", never.join(", "));
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    fn row(name: &'static str, [passed, failed, skipped]: [u64; 3], seconds: u64) -> Row {
        let tally = Tally { passed, failed, skipped, ..Tally::default() };
        Row { name, tally, time: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_slice_holds_what_did_not_pass_and_fits() {
        let names = ["values", "kernels", "soak", "miri"];
        let mut ledger = Ledger::default();
        // 900 + 3600 s; soak with 4500 s does not fit into 7200 s, miri with 900 s does.
        assert_eq!(ledger.next(&names, Some("a")), ["values", "kernels", "miri"]);
        ledger.record(
            &[row("values", [5, 0, 0], 10), row("kernels", [5, 1, 0], 3000), row("miri", [0, 0, 1], 1)],
            "a",
        );
        // A failed and a skipped part run again. A skipped one keeps its expected duration.
        assert_eq!(ledger.next(&names, Some("a")), ["kernels", "miri"]);
        ledger.record(&[row("kernels", [6, 0, 0], 9000)], "a");
        assert_eq!(ledger.next(&names, Some("a")), ["soak", "miri"]);
        // A part that is longer than a slice runs alone.
        assert_eq!(ledger.next(&names[1..2], Some("b")), ["kernels"]);
        assert_eq!(ledger.next(&names[..2], None), ["values"]);
    }

    #[test]
    fn the_last_line_says_whether_one_commit_passed_as_a_whole() {
        let names = ["values", "arm"];
        let commit = "0123456789abcdef";
        let mut ledger = Ledger::default();
        ledger.record(&[row("values", [5, 0, 2], 10)], commit);
        let expected = "
part        commit          passed  failed  skipped  result
values      0123456789ab         5       0        2  passed
arm         -                    -       -        -  did not run
not passed as a whole at commit 0123456789ab: arm left
";
        assert_eq!(ledger.table(&names, Some(commit)), expected);
        ledger.record(&[row("arm", [0, 0, 1], 0)], commit);
        let text = ledger.table(&names, Some(commit));
        assert!(
            text.ends_with(
                "passed as a whole at commit 0123456789ab; 3 skipped; not possible on this machine: arm\n"
            ),
            "{text}"
        );
        let text = ledger.table(&names, Some("fedcba9876543210"));
        assert!(text.ends_with("not passed as a whole at commit fedcba987654: values, arm left\n"), "{text}");
        let text = ledger.table(&names, None);
        assert!(text.ends_with("not recorded: the tree has changes that are not committed\n"), "{text}");
        ledger.record(&[row("values", [5, 1, 2], 10)], commit);
        let text = ledger.table(&names, Some(commit));
        assert!(text.contains(" FAILED\n") && text.ends_with(": values left\n"), "{text}");
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Ledger::read(dir.path()), (Ledger::default(), None));
        let mut ledger = Ledger::default();
        ledger.record(&[row("values", [5, 0, 2], 10)], "a");
        ledger.write(dir.path()).unwrap();
        assert_eq!(Ledger::read(dir.path()), (ledger, None));
        std::fs::write(dir.path().join(FILE), "{\"values\":{}}").unwrap();
        let (ledger, damage) = Ledger::read(dir.path());
        assert_eq!(ledger, Ledger::default());
        assert!(damage.unwrap().contains("test-all.json: the ledger is damaged and begins anew: "));
    }
}
