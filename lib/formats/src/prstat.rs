//! The tables of `prstat`. Lines have no trailing blanks.

use millpond_model::{Doing, GroupId, MICROSTATES};
use std::borrow::Cow;
use std::fmt::Write;

/// The text for an unknown figure.
const UNKNOWN: &str = "-";
/// The maximum length of a process name.
const NAME_LETTERS: usize = 16;

/// A line of the table of processes or threads.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessRow {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub user: String,
    /// Address space in KiB.
    pub size: Option<u64>,
    /// Resident memory in KiB.
    pub rss: Option<u64>,
    /// Its state.
    pub doing: Doing,
    /// Global priority.
    pub priority: i16,
    /// Nice value.
    pub nice: Option<i8>,
    /// CPU time in seconds.
    pub seconds: u64,
    /// Recent use, in percent.
    pub cpu: f64,
    /// Its home, if that column is requested.
    pub home: Option<Option<GroupId>>,
    /// Its name.
    pub name: String,
    /// The number of its threads, or the number of this thread.
    pub number: u32,
}

/// A line of the table of microstates.
#[derive(Debug, Clone, PartialEq)]
pub struct MicrostateRow {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub user: String,
    /// Percent by microstate.
    pub parts: [Option<f64>; MICROSTATES.len()],
    /// Voluntary and involuntary switches, system calls, signals.
    pub counts: [Option<u64>; 4],
    /// Its name.
    pub name: String,
    /// The number of its threads, or the number of this thread.
    pub number: u32,
}

/// A line of the table of users, projects, tasks or zones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupRow {
    /// Its number; unused for users.
    pub id: u64,
    /// The number of processes.
    pub processes: u32,
    /// The sum of their address spaces in KiB.
    pub size: Option<u64>,
    /// Resident memory in KiB.
    pub rss: Option<u64>,
    /// Resident memory in percent of all memory.
    pub memory: Option<f64>,
    /// CPU time in seconds.
    pub seconds: u64,
    /// Recent use, in percent.
    pub cpu: f64,
    /// Its name.
    pub name: String,
    /// Its shares and its cap in percent of one CPU, if set; `None` for a table without these columns.
    pub controls: Option<(Option<u32>, Option<u32>)>,
}

/// The criterion by which processes are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Their users.
    Users,
    /// Their projects.
    Projects,
    /// Their tasks.
    Tasks,
    /// Their zones.
    Zones,
}

/// The heading of the table of processes.
#[must_use]
pub fn process_head(threads: bool, home: bool) -> String {
    let home = if home { "LGRP " } else { "" };
    format!("   PID USERNAME  SIZE   RSS STATE  PRI NICE      TIME  CPU {home}{}", what(threads))
}

/// The heading of the table of microstates.
#[must_use]
pub fn microstate_head(threads: bool) -> String {
    format!("   PID USERNAME USR SYS TRP TFL DFL LCK SLP LAT VCX ICX SCL SIG {}", what(threads))
}

fn what(threads: bool) -> &'static str {
    if threads { "PROCESS/LWP" } else { "PROCESS/NLWP" }
}

/// The heading of a table of groups; `controls` adds columns for shares and caps.
#[must_use]
pub fn group_head(grouping: Grouping, controls: bool) -> String {
    let controls = if controls { " SHARES   CAP%" } else { "" };
    let (number, name) = match grouping {
        Grouping::Users => return " NPROC USERNAME  SWAP   RSS MEMORY      TIME  CPU".to_owned(),
        Grouping::Projects => ("PROJID", "PROJECT"),
        Grouping::Tasks => ("TASKID", "PROJECT"),
        Grouping::Zones => ("ZONEID", "ZONE"),
    };
    format!("{number}    NPROC  SWAP   RSS MEMORY      TIME  CPU{controls} {name}")
}

impl ProcessRow {
    /// The line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!(
            "{:>6} {:<8} {:>5} {:>5} {:<6} {:>3}  {:>3} {:>9} {:>3.3}% ",
            self.pid,
            self.user,
            size(self.size),
            size(self.rss),
            state(self.doing),
            self.priority,
            nice(self.nice),
            time(self.seconds),
            percent(self.cpu),
        );
        if let Some(home) = self.home {
            let home = home.map_or_else(|| UNKNOWN.to_owned(), |home| home.to_string());
            let _ = write!(line, "{home:>4} ");
        }
        line + &called(&self.name, self.number)
    }
}

impl MicrostateRow {
    /// The line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{:>6} {:<8}", self.pid, self.user);
        let parts = self.parts.iter().map(|part| part.map_or_else(|| UNKNOWN.to_owned(), percent));
        let counts = self.counts.iter().map(|count| count.map_or_else(|| UNKNOWN.to_owned(), self::count));
        for figure in parts.chain(counts) {
            let _ = write!(line, " {figure:>3.3}");
        }
        line + " " + &called(&self.name, self.number)
    }
}

impl GroupRow {
    fn shown_controls(&self) -> String {
        let number = |value: Option<u32>| value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
        self.controls
            .map_or_else(String::new, |(shares, cap)| format!(" {:>6} {:>6}", number(shares), number(cap)))
    }

    /// The line.
    #[must_use]
    pub fn line(&self, grouping: Grouping) -> String {
        let memory = self.memory.map_or_else(|| UNKNOWN.to_owned(), percent);
        let figures = format!(
            "{:>5.5} {:>5.5}   {memory:>3.3}% {:>9} {:>3.3}%",
            size(self.size),
            size(self.rss),
            time(self.seconds),
            percent(self.cpu)
        );
        match grouping {
            Grouping::Users => format!("{:>6} {:<8} {figures}", self.processes, self.name),
            _ => format!(
                "{:>6} {:>8} {figures}{} {}",
                self.id,
                self.processes,
                self.shown_controls(),
                self.name
            ),
        }
    }
}

/// The last line.
#[must_use]
pub fn total(processes: usize, lwps: usize, load: Option<[f64; 3]>) -> String {
    let load = load.map_or_else(
        || [UNKNOWN; 3].join(", "),
        |load| load.map(|average| format!("{average:3.2}")).join(", "),
    );
    format!("Total: {processes} processes, {lwps} lwps, load averages: {load}")
}

fn called(name: &str, number: u32) -> String {
    let name: String = name.chars().take(NAME_LETTERS).collect();
    format!("{name}/{number}")
}

/// `0.0`, `9.9`, `10`, `100`.
#[must_use]
pub fn percent(part: f64) -> String {
    let part = part.clamp(0.0, 100.0);
    if part < 9.95 { format!("{part:.1}") } else { format!("{part:.0}") }
}

/// ` 12`, ` 2K`, and `.1M` from a hundred thousand on.
#[must_use]
pub fn count(count: u64) -> String {
    match count {
        100_000.. => format!(".{}M", count / 100_000),
        1000.. => format!("{:>2}K", count / 1000),
        _ => format!("{count:>3}"),
    }
}

/// KiB: `4488K`, `  12M`.
#[must_use]
pub fn size(kib: Option<u64>) -> String {
    const MOST: u64 = 10_000;
    let Some(kib) = kib else { return UNKNOWN.to_owned() };
    let (mut size, mut letter) = (kib, 'K');
    for larger in ['M', 'G'] {
        if size >= MOST {
            (size, letter) = (size / 1024, larger);
        }
    }
    format!("{size:>4}{letter}")
}

/// Hours, minutes and seconds.
#[must_use]
pub fn time(seconds: u64) -> String {
    format!("{:>3}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// `sleep`, `run`, `cpu3`.
#[must_use]
pub fn state(doing: Doing) -> Cow<'static, str> {
    let word = match doing {
        Doing::OnCpu(cpu) => return Cow::Owned(format!("cpu{:<3}", cpu.0)),
        Doing::Runnable => "run",
        Doing::Capped => "wait",
        Doing::Asleep => "sleep",
        Doing::Stopped => "stop",
        Doing::Idle => "idle",
        Doing::Zombie => "zombie",
    };
    Cow::Borrowed(word)
}

fn nice(nice: Option<i8>) -> String {
    nice.map_or_else(|| UNKNOWN.to_owned(), |nice| format!("{nice:>3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuId;

    fn row() -> ProcessRow {
        ProcessRow {
            pid: 1974,
            user: "user1".into(),
            size: Some(4488),
            rss: Some(3640),
            doing: Doing::OnCpu(CpuId(2)),
            priority: 59,
            nice: Some(0),
            seconds: 0,
            cpu: 0.1,
            home: None,
            name: "prstat".into(),
            number: 1,
        }
    }

    #[test]
    fn a_process_is_a_line_of_the_reference() {
        assert_eq!(
            process_head(false, false),
            "   PID USERNAME  SIZE   RSS STATE  PRI NICE      TIME  CPU PROCESS/NLWP"
        );
        assert_eq!(row().line(), "  1974 user1    4488K 3640K cpu2    59    0   0:00:00 0.1% prstat/1");
        let at_home = ProcessRow { home: Some(Some(GroupId(1))), nice: None, doing: Doing::Zombie, ..row() };
        assert_eq!(
            at_home.line(),
            "  1974 user1    4488K 3640K zombie  59    -   0:00:00 0.1%    1 prstat/1"
        );
        assert_eq!(
            process_head(true, true),
            "   PID USERNAME  SIZE   RSS STATE  PRI NICE      TIME  CPU LGRP PROCESS/LWP"
        );
    }

    #[test]
    fn microstates_are_a_line_of_the_reference() {
        let row = MicrostateRow {
            pid: 1974,
            user: "user1".into(),
            parts: [Some(0.14), Some(12.4), None, Some(0.0), Some(0.0), Some(100.0), Some(9.94), Some(9.96)],
            counts: [Some(12), Some(2345), Some(123_456), None],
            name: "a-name-that-is-too-long".into(),
            number: 3,
        };
        assert_eq!(
            microstate_head(true),
            "   PID USERNAME USR SYS TRP TFL DFL LCK SLP LAT VCX ICX SCL SIG PROCESS/LWP"
        );
        assert_eq!(
            row.line(),
            "  1974 user1    0.1  12   - 0.0 0.0 100 9.9  10  12  2K .1M   - a-name-that-is-t/3"
        );
    }

    #[test]
    fn groups_are_lines_of_the_reference() {
        let row = GroupRow {
            id: 1,
            processes: 37,
            size: Some(113_664),
            rss: Some(129_024),
            memory: Some(3.1),
            seconds: 24,
            cpu: 0.3,
            name: "global".into(),
            controls: None,
        };
        let zones = |controls| group_head(Grouping::Zones, controls);
        assert_eq!(zones(false), "ZONEID    NPROC  SWAP   RSS MEMORY      TIME  CPU ZONE");
        assert_eq!(row.line(Grouping::Zones), "     1       37  111M  126M   3.1%   0:00:24 0.3% global");
        assert_eq!(group_head(Grouping::Users, true), " NPROC USERNAME  SWAP   RSS MEMORY      TIME  CPU");
        assert_eq!(row.line(Grouping::Users), "    37 global    111M  126M   3.1%   0:00:24 0.3%");
        // If requested, shares and a cap precede the name.
        assert_eq!(zones(true), "ZONEID    NPROC  SWAP   RSS MEMORY      TIME  CPU SHARES   CAP% ZONE");
        let row = GroupRow { controls: Some((Some(20), None)), ..row };
        assert_eq!(
            row.line(Grouping::Zones),
            "     1       37  111M  126M   3.1%   0:00:24 0.3%     20      - global"
        );
    }

    #[test]
    fn figures_have_three_letters_or_four_and_a_unit() {
        assert_eq!([0.0, 9.94, 9.95, 99.6, 400.0].map(percent), ["0.0", "9.9", "10", "100", "100"]);
        assert_eq!(
            [0, 999, 1000, 99_999, 100_000, 950_000].map(count),
            ["  0", "999", " 1K", "99K", ".1M", ".9M"]
        );
        let sizes = [0, 9999, 10_000, 10_239_999, 10_240_000].map(|kib| size(Some(kib)));
        assert_eq!(sizes, ["   0K", "9999K", "   9M", "9999M", "   9G"]);
        assert_eq!([0, 59, 3661, 360_000].map(time), ["  0:00:00", "  0:00:59", "  1:01:01", "100:00:00"]);
        assert_eq!(size(None), "-");
    }

    #[test]
    fn the_last_line_counts_everything() {
        let line = "Total: 37 processes, 98 lwps, load averages: 0.02, 0.10, 12.30";
        assert_eq!(total(37, 98, Some([0.02, 0.1, 12.3])), line);
        assert_eq!(total(1, 2, None), "Total: 1 processes, 2 lwps, load averages: -, -, -");
    }
}
