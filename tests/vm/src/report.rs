//! The results of a guest.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::run::VmError;

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It ran to its end without a failure.
    Passed,
    /// It reported a failure, or its shell stopped at a failed command.
    Failed(String),
    /// It cannot run here, with the reason.
    Skipped(String),
    /// It was killed at its time limit.
    TimedOut,
    /// The guest died during or before it. [`Report::trouble`] has the reason.
    Lost,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Exit status of its shell; `None` when lost.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// The files that it wrote to `$OUT`, by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Settings that it left changed and the guest restored: `cpu 3 off-line`, `cgroup /sys/fs/cgroup/x`, `irq 24 …`.
    pub left: Vec<String>,
    /// Kernel messages during the case.
    pub kernel_log: String,
    /// Its duration in guest time, in milliseconds.
    pub guest_ms: u64,
}

/// The result of a boot.
#[derive(Debug)]
pub struct Report {
    /// One result per requested case, in order.
    pub cases: Vec<CaseResult>,
    /// How the guest died, if it did not power off itself.
    pub trouble: Option<VmError>,
    /// The kernel's log: complete after a regular end, else the console output.
    pub kernel_log: String,
    /// Host time to write the image.
    pub image_time: Duration,
    /// Host time from the emulator's start to the first case.
    pub boot_time: Duration,
    /// Total host time.
    pub total_time: Duration,
}

/// The starts of kernel messages about kernel bugs.
const COMPLAINTS: [&str; 8] = [
    "WARNING: ",
    "BUG: ",
    "Oops: ",
    "rcu: INFO: ",
    "soft lockup",
    "hard LOCKUP",
    "blocked for more than",
    "Call Trace:",
];

impl CaseResult {
    /// The result of a case that did not end.
    pub(crate) fn lost(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            verdict: Verdict::Lost,
            status: None,
            stdout: String::new(),
            stderr: String::new(),
            files: BTreeMap::new(),
            left: Vec::new(),
            kernel_log: String::new(),
            guest_ms: 0,
        }
    }

    /// A text file that the case wrote to `$OUT`.
    #[must_use]
    pub fn text(&self, file: &str) -> Option<String> {
        self.files.get(file).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Kernel messages about kernel bugs during the case.
    #[must_use]
    pub fn kernel_complaints(&self) -> Vec<String> {
        complaints(&self.kernel_log)
    }
}

impl Report {
    /// Kernel messages about kernel bugs.
    #[must_use]
    pub fn kernel_complaints(&self) -> Vec<String> {
        complaints(&self.kernel_log)
    }
}

fn complaints(log: &str) -> Vec<String> {
    log.lines().filter(|l| COMPLAINTS.iter().any(|c| l.contains(c))).map(str::to_owned).collect()
}

/// The line that the guest writes to the kernel's log at the start of a case.
const MARK: &str = "millpond-vm: begin ";

/// The part of a kernel log from the start of a case to that of the next one.
pub(crate) fn log_of(log: &str, case: &str) -> String {
    let is_mark = |line: &str| line.contains(MARK);
    let is_mine = |line: &str| line.split_once(MARK).is_some_and(|(_, name)| name.trim_end() == case);
    let mine = log.lines().skip_while(|l| !is_mine(l)).skip(1).take_while(|l| !is_mark(l));
    mine.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[    2.0] boot\n[    3.0] millpond-vm: begin a\n[    3.1] smpboot: CPU 3 is now offline\n\
                       [    4.0] millpond-vm: begin ab\n[    4.1] WARNING: CPU: 1 PID: 7 at kernel/x.c:1\n";

    #[test]
    fn a_case_gets_the_log_between_its_mark_and_the_next() {
        assert_eq!(log_of(LOG, "a"), "[    3.1] smpboot: CPU 3 is now offline\n");
        assert_eq!(log_of(LOG, "ab"), "[    4.1] WARNING: CPU: 1 PID: 7 at kernel/x.c:1\n");
        assert_eq!(log_of(LOG, "b"), "");
    }

    #[test]
    fn only_complaints_are_told_as_such() {
        assert_eq!(complaints(LOG), ["[    4.1] WARNING: CPU: 1 PID: 7 at kernel/x.c:1"]);
    }
}
