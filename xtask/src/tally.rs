//! Parses the output of a test executable: the numbers of passed, failed and skipped tests, and reasons.
//!
//! Both harnesses end with `test result: ok. 5 passed; 0 failed; 1 ignored; …`, and report ignored tests with the reason. A test
//! that cannot run on this machine prints a line with `skipped: ` and the reason (`skipped: NAME: WHY`, or `NAME: skipped: WHY`)
//! and returns. Its harness counts it as passed; here it counts as skipped. The output of failed tests is between `failures:` and
//! the next such line, under `---- NAME ----` (or `---- NAME stdout ----`).

/// Counts, and the reasons of skips.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that failed, and executables that crashed.
    pub failed: u64,
    /// Tests that were skipped.
    pub skipped: u64,
    /// `NAME: WHY` of each skip with a reason.
    pub reasons: Vec<String>,
    /// The output of each failed test, shortened.
    pub failures: Vec<Failure>,
    /// A figure for the group's row, such as a score.
    pub note: String,
}

/// One failed test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub test: String,
    /// The beginning of its output: at most [`FAILURE_LINES`] lines of [`FAILURE_COLUMNS`] characters.
    pub said: String,
}

/// Number of lines of a failure that are repeated at the end.
pub const FAILURE_LINES: usize = 12;

/// Number of characters per line.
pub const FAILURE_COLUMNS: usize = 600;

impl Tally {
    /// Parses the output of an executable. `ended_well`: its exit status was 0.
    #[must_use]
    pub fn of(output: &str, ended_well: bool) -> Tally {
        let mut tally = Tally::default();
        let (mut ignored, mut told) = (0, 0);
        for line in output.lines() {
            if let Some(counts) = line.strip_prefix("test result: ") {
                tally.passed += count(counts, "passed");
                tally.failed += count(counts, "failed");
                ignored += count(counts, "ignored");
            } else if let Some(reason) = ignored_reason(line) {
                tally.reasons.push(reason);
            } else if let Some(reason) = skip_reason(line) {
                tally.reasons.push(reason);
                told += 1;
            }
        }
        // The harness counted tests that skipped themselves as passed.
        let seen_passing = tally.passed.min(told);
        tally.passed -= seen_passing;
        tally.skipped = ignored + seen_passing;
        if !ended_well && tally.failed == 0 {
            tally.failed = 1;
        }
        tally.failures = failures(output);
        tally
    }

    /// Number of cases.
    #[must_use]
    pub fn cases(&self) -> u64 {
        self.passed + self.failed + self.skipped
    }

    /// Adds the counts and reasons of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.reasons.extend(other.reasons.iter().cloned());
        self.failures.extend(other.failures.iter().cloned());
    }
}

/// The output of failed tests.
fn failures(output: &str) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    let mut is_among_them = false;
    for line in output.lines() {
        if line == "failures:" || line.starts_with("test result: ") {
            // The second such line begins the list of names.
            is_among_them = line == "failures:" && !is_among_them;
        } else if is_among_them {
            let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----"));
            match (name, failures.last_mut()) {
                (Some(name), _) => failures.push(Failure {
                    test: name.strip_suffix(" stdout").unwrap_or(name).to_owned(),
                    said: String::new(),
                }),
                (None, Some(last)) if !line.is_empty() && last.said.lines().count() < FAILURE_LINES => {
                    last.said.extend(line.chars().take(FAILURE_COLUMNS).chain(['\n']));
                }
                _ => {}
            }
        }
    }
    failures
}

/// `test NAME ... ignored, WHY` or `test NAME ... ignored (WHY)`, as `NAME: WHY`.
fn ignored_reason(line: &str) -> Option<String> {
    let (name, why) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let why = why.strip_prefix(", ").or_else(|| why.strip_prefix(" (")?.strip_suffix(')'))?;
    Some(format!("{}: {why}", name.trim_end()))
}

/// `skipped: NAME: WHY` or `NAME: skipped: WHY`, as `NAME: WHY`.
fn skip_reason(line: &str) -> Option<String> {
    let (name, why) = line.trim_start().split_once("skipped: ")?;
    (name.is_empty() || name.ends_with(": ")).then(|| format!("{name}{why}"))
}

/// The number before `word` in `ok. 5 passed; 0 failed`.
fn count(counts: &str, word: &str) -> u64 {
    counts
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(passed: u64, failed: u64, skipped: u64, reasons: &[&str]) -> Tally {
        let reasons = reasons.iter().map(|&r| r.to_owned()).collect();
        Tally { passed, failed, skipped, reasons, ..Tally::default() }
    }

    #[test]
    fn the_last_line_of_the_harness_is_counted() {
        let text = "running 7 tests\n\ntest result: ok. 6 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.05s\n";
        assert_eq!(Tally::of(text, true), tally(6, 0, 1, &[]));
    }

    #[test]
    fn several_results_are_summed() {
        let text = "test result: ok. 1 passed; 0 failed; 0 ignored\ntest result: FAILED. 2 passed; 3 failed; 0 ignored\n";
        assert_eq!(Tally::of(text, false), tally(3, 3, 0, &[]));
    }

    #[test]
    fn a_test_that_says_it_was_skipped_did_not_pass() {
        let text = "skipped: bind_on_v1: there is no cgroup v1 here\ntest result: ok. 4 passed; 0 failed; 0 ignored;\n";
        assert_eq!(Tally::of(text, true), tally(3, 0, 1, &["bind_on_v1: there is no cgroup v1 here"]));
    }

    #[test]
    fn an_ignored_test_says_why_in_the_words_of_either_harness() {
        let text = "test a ... ignored, slow\ntest 6.17::b   ... ignored (there is no qemu)\ntest c ... ignored\ntest d ... ok\n\
                    test result: ok. 1 passed; 0 failed; 3 ignored;\n";
        assert_eq!(Tally::of(text, true), tally(1, 0, 3, &["a: slow", "6.17::b: there is no qemu"]));
    }

    #[test]
    fn the_word_may_stand_behind_a_name_but_not_in_a_sentence() {
        let text = "vm: systemd: skipped: only with all\nit was skipped: no\ntest result: ok. 2 passed; 0 failed; 0 ignored;\n";
        assert_eq!(Tally::of(text, true), tally(1, 0, 1, &["vm: systemd: only with all"]));
    }

    #[test]
    fn an_executable_that_dies_without_a_word_has_failed() {
        assert_eq!(Tally::of("running 3 tests\n", false), tally(0, 1, 0, &[]));
    }

    #[test]
    fn what_failed_tests_said_is_kept_and_what_others_said_is_not() {
        let text = "successes:\n\n---- a stdout ----\nfine\n\nsuccesses:\n    a\n\nfailures:\n\n---- 6.17::b ----\nno\nwhy\n\n\
                    ---- c stdout ----\nleft: 1\n\nfailures:\n    6.17::b\n    c\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored;\n";
        let failure = |test: &str, said: &str| Failure { test: test.into(), said: said.into() };
        assert_eq!(
            Tally::of(text, false).failures,
            [failure("6.17::b", "no\nwhy\n"), failure("c", "left: 1\n")]
        );
    }

    #[test]
    fn of_a_long_failure_the_beginning_is_kept() {
        let text = format!("failures:\n\n---- a ----\n{}{}", "x\n".repeat(11), "y".repeat(5000));
        let said = format!("{}{}\n", "x\n".repeat(11), "y".repeat(600));
        assert_eq!(Tally::of(&format!("{text}\nz\n"), false).failures, [Failure { test: "a".into(), said }]);
    }

    proptest! {
        #[test]
        fn no_test_is_lost_or_made_up(passed in 0_u64..999, failed in 0_u64..999, ignored in 0_u64..99, told in 0_usize..99) {
            let text = format!(
                "{}test result: ?. {passed} passed; {failed} failed; {ignored} ignored; 0 measured\n",
                "skipped: a: b\n".repeat(told)
            );
            let tally = Tally::of(&text, failed == 0);
            prop_assert_eq!(tally.passed + tally.failed + tally.skipped, passed + failed + ignored);
        }
    }
}
