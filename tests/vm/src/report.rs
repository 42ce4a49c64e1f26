//! What came back from a guest.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::run::VmError;

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It ran to its end and nothing was amiss.
    Passed,
    /// It said why, or its shell stopped at a command that failed.
    Failed(String),
    /// It found that it cannot be run here, and said why.
    Skipped(String),
    /// It was killed at its limit.
    TimedOut,
    /// The guest died in it, or before it: the reason is [`Report::trouble`].
    Lost,
}

/// One case, as it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Exit status of its shell; none when lost.
    pub status: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Files that it put into `$OUT`, by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What it left behind and the guest had to put back: `cpu 3 off-line`, `cgroup /sys/fs/cgroup/x`, `irq 24 …`.
    pub left: Vec<String>,
    /// What the kernel said meanwhile.
    pub kernel_log: String,
    /// Guest time that it took, in milliseconds.
    pub guest_ms: u64,
}

/// One boot, as it went.
#[derive(Debug)]
pub struct Report {
    /// One result for each case asked for, in order.
    pub cases: Vec<CaseResult>,
    /// How the guest died, if it did not power off by itself.
    pub trouble: Option<VmError>,
    /// The kernel's log: whole after a good end, else what its console showed.
    pub kernel_log: String,
    /// Host time for writing the image.
    pub image_time: Duration,
    /// Host time from starting the emulator to the first case.
    pub boot_time: Duration,
    /// Host time in all.
    pub total_time: Duration,
}

/// What a kernel says when it found itself in the wrong.
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
    /// A case that never ended.
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

    /// A text file that the case put into `$OUT`.
    #[must_use]
    pub fn text(&self, file: &str) -> Option<String> {
        self.files.get(file).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Lines in which the kernel complained about itself while the case ran.
    #[must_use]
    pub fn kernel_complaints(&self) -> Vec<String> {
        complaints(&self.kernel_log)
    }
}

impl Report {
    /// Lines in which the kernel complained about itself.
    #[must_use]
    pub fn kernel_complaints(&self) -> Vec<String> {
        complaints(&self.kernel_log)
    }
}

fn complaints(log: &str) -> Vec<String> {
    log.lines().filter(|l| COMPLAINTS.iter().any(|c| l.contains(c))).map(str::to_owned).collect()
}

/// The mark that the guest puts into the kernel's log where a case begins.
const MARK: &str = "millpond-vm: begin ";

/// The part of a kernel log between a case's mark and the next one.
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
