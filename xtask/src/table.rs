//! The final table: executed and skipped tests, with reasons.

use crate::tally::Tally;
use std::time::Duration;

/// The result of a group.
#[derive(Debug, Clone)]
pub struct Row {
    /// The group.
    pub name: &'static str,
    /// Its counts.
    pub tally: Tally,
    /// Its duration.
    pub time: Duration,
}

impl Row {
    /// Its counts, as printed after its name while other groups still run.
    #[must_use]
    pub fn counts(&self) -> String {
        counts(&self.tally, self.time)
    }
}

/// Counts and a time, in columns.
#[must_use]
pub fn counts(tally: &Tally, time: Duration) -> String {
    let Tally { passed, failed, skipped, .. } = tally;
    format!("{passed:>6} passed {failed:>4} failed {skipped:>4} skipped {:>9}", seconds(time))
}

/// A duration, as rows show it.
#[must_use]
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The sum of all rows' counts.
#[must_use]
pub fn total(rows: &[Row]) -> Tally {
    let mut total = Tally::default();
    for row in rows {
        total.add(&row.tally);
    }
    total
}

/// The table: executed tests, skipped tests, and the reasons.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text =
        format!("\n{:<10}{:>8}{:>8}{:>9}{:>11}  why skipped\n", "group", "ran", "failed", "skipped", "time");
    for row in rows {
        let Tally { passed, failed, skipped, reasons, note, .. } = &row.tally;
        let why = match (*skipped, reasons.as_slice()) {
            (0, _) => String::new(),
            (_, []) => "not said".into(),
            (_, [only]) => only.clone(),
            (_, [..]) => "see below".into(),
        };
        let between = if note.is_empty() || why.is_empty() { "" } else { "; skipped: " };
        let line = format!(
            "{:<10}{:>8}{failed:>8}{skipped:>9}{:>11}  {note}{between}{why}",
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
    // Repeat the failures at the end, because often only the end of a long output is kept.
    for row in rows {
        for failure in &row.tally.failures {
            text += &format!("failed in {}: {}\n", row.name, failure.test);
            text.extend(failure.said.lines().map(|line| format!("    {line}\n")));
        }
    }
    text.push('\n');
    text
}

/// The last line, for use by programs.
#[must_use]
pub fn last_line(total: &Tally) -> String {
    format!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Failure;

    fn row(name: &'static str, passed: u64, failed: u64, reasons: &[&str]) -> Row {
        let reasons: Vec<String> = reasons.iter().map(|&r| r.to_owned()).collect();
        let skipped = u64::try_from(reasons.len()).unwrap();
        let failures =
            (0..failed).map(|_| Failure { test: "a".into(), said: "left: 1\nright: 2\n".into() }).collect();
        Row {
            name,
            tally: Tally { passed, failed, skipped, reasons, failures, note: String::new() },
            time: Duration::from_millis(1250),
        }
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
failed in machines: a
    left: 1
    right: 2

";
        assert_eq!(table(&rows), expected);
        assert_eq!(last_line(&total(&rows)), "304 passed, 1 failed, 3 skipped");
    }

    #[test]
    fn a_score_is_in_the_row_with_and_without_skips() {
        let [mut all, mut some] = [row("mutants", 2, 0, &[]), row("mutants", 1, 0, &["b: no shard"])];
        all.tally.note = "a 9 of 10 (90.0 %); goal 90 %".into();
        some.tally.note.clone_from(&all.tally.note);
        let expected = "
group          ran  failed  skipped       time  why skipped
mutants          2       0        0      1.2 s  a 9 of 10 (90.0 %); goal 90 %
mutants          1       0        1      1.2 s  a 9 of 10 (90.0 %); goal 90 %; skipped: b: no shard

";
        assert_eq!(table(&[all, some]), expected);
    }
}
