//! The slowest parts of a run: test executables, cases, and the build by group.

use crate::group::{ORDER, group_of};
use crate::run::Told;
use crate::table::seconds;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Number of listed executables.
const LISTED: usize = 10;

/// Number of listed cases.
const CASES_LISTED: usize = 20;

/// The group of external crates.
const DEPENDENCIES: &str = "dependencies";

/// The run time of an executable.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// `laws of lib/linux`.
    pub name: String,
    /// Number of its cases.
    pub cases: u64,
    /// Total time.
    pub time: Duration,
    /// Time of each case.
    pub each: Vec<(String, Duration)>,
}

impl Timed {
    /// Derives the time of each case from the times at which cases ended.
    ///
    /// A harness starts cases in the order of their names, the first `threads` at once and another one whenever a case ends. So
    /// case number i, counted from 0, starts when number i - `threads` of the ended cases ends.
    #[must_use]
    pub fn of(name: String, told: &Told, time: Duration, threads: usize) -> Timed {
        let mut order: Vec<&str> = told.ends.iter().map(|(name, _)| name.as_str()).collect();
        order.sort_unstable();
        let each = told.ends.iter().map(|(case, end)| {
            let index = order.binary_search(&case.as_str()).unwrap_or(0);
            let start = index.checked_sub(threads).map_or(Duration::ZERO, |before| told.ends[before].1);
            (case.clone(), end.saturating_sub(start))
        });
        Timed { name, cases: told.tally.cases(), time, each: each.collect() }
    }
}

/// A case that takes longer than this must have a reason in [`REASONS`].
const SLOW: Duration = Duration::from_secs(5);

/// Reasons for slow cases, by prefixes of their names. Other slow cases should become faster, or get a reason.
const REASONS: [(&str, &str); 26] = [
    ("7.3-laws::", "a kernel boots on an emulated CPU"),
    ("6.", "a kernel boots on an emulated CPU"),
    ("7.", "a kernel boots on an emulated CPU"),
    ("an_openmp_program_", "compiles with gcc, then its pool is resized while it computes"),
    ("document::figures_of_e", "plays a published experiment on a simulated machine"),
    ("experiment::", "runs an experiment with real programs"),
    ("demo::", "runs the demo with real programs"),
    ("mutants::", "runs the laws once for each mutant"),
    ("laws::", "random scripts, each followed by all checks"),
    ("random::", "random scripts, each followed by all checks"),
    ("undo::", "random changes of hundreds of trees"),
    ("year::", "simulates days of a large machine"),
    ("diagnose::idle_threads_of_go", "compiles a Go program, and observes it for seconds"),
    ("diagnose::", "observes a program for seconds"),
    ("probe::", "measures caches and memory of this machine"),
    ("poold_soak::", "observes the memory of poold for seconds"),
    ("topology::", "writes, copies and removes trees of thousands of files"),
    ("sets::sets_of_a_hundred_thousand_", "reads the files of a hundred thousand CPUs in each of its steps"),
    (
        "what_a_program_under_the_preloaded_",
        "compiles a program and the malloc, and reads the process and its cores",
    ),
    (
        "what_was_overwritten_is_found_with_",
        "compiles a program and the malloc, and reads the process and its cores",
    ),
    ("objects_of_caches_are_told_from_", "reads a process and its cores"),
    ("tests::corrupt::fuzz_", "tries thousands of damaged images"),
    ("latency::watch::", "observes threads for seconds"),
    ("cputrack::", "observes a program for seconds"),
    ("record::", "records for seconds"),
    ("gauge::", "waits for readings of a service"),
];

/// The reason of a slow case, for display after its name; empty for a fast one.
fn reason(case: &str, time: Duration) -> String {
    if time < SLOW {
        return String::new();
    }
    let known = REASONS.iter().find(|(name, _)| case.starts_with(name));
    format!(": {}", known.map_or("no reason is known, see xtask/src/slowest.rs", |(_, why)| *why))
}

/// The slowest executables and cases, slowest first.
#[must_use]
pub fn list(mut timed: Vec<Timed>) -> String {
    if timed.is_empty() {
        return String::new();
    }
    timed.sort_by_key(|one| std::cmp::Reverse(one.time));
    let mut text = String::from("slowest executables\n");
    for one in timed.iter().take(LISTED) {
        text += &format!("{:>10}  {} ({} cases)\n", seconds(one.time), one.name, one.cases);
    }
    let mut cases: Vec<_> =
        timed.iter().flat_map(|one| one.each.iter().map(|(case, time)| (*time, case, &one.name))).collect();
    cases.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    text += "slowest cases\n";
    for (time, case, executable) in cases.into_iter().take(CASES_LISTED) {
        text += &format!("{:>10}  {case}, {executable}{}\n", seconds(time), reason(case, time));
    }
    text
}

/// The time of each executable in its last run, from a file in the target directory. Name and seconds are separated by a tab.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times(BTreeMap<String, f64>);

/// The file of [`Times`].
const TIMES: &str = "test-times.tsv";

impl Times {
    /// Reads the file; empty if it is missing. Invalid lines are ignored.
    #[must_use]
    pub fn read(target: &Path) -> Times {
        let text = fs::read_to_string(target.join(TIMES)).unwrap_or_default();
        let line = |line: &str| {
            let (name, seconds) = line.split_once('\t')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Times(text.lines().filter_map(line).collect())
    }

    /// The seconds of an executable.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Records the seconds of an executable.
    pub fn set(&mut self, name: &str, seconds: f64) {
        self.0.insert(name.to_owned(), seconds);
    }

    /// Writes the file. The times only affect the order of the next run, so a failure is ignored.
    pub fn write(&self, target: &Path) {
        let lines = self.0.iter().map(|(name, seconds)| format!("{name}\t{seconds:.1}\n"));
        let _ = fs::write(target.join(TIMES), lines.collect::<String>());
    }
}

/// One unit of a build in cargo's timing report.
#[derive(Deserialize)]
struct Unit {
    name: String,
    duration: f64,
}

/// The build time of each group, from the report that cargo wrote since `start`: the sum over all jobs in seconds, in the order
/// of groups. Empty if nothing was built or the report is invalid.
#[must_use]
pub fn build_times(target: &Path, start: SystemTime) -> Vec<(&'static str, f64)> {
    let dir = target.join("cargo-timings");
    let is_new = |path: &Path| {
        fs::metadata(path).and_then(|data| data.modified()).is_ok_and(|modified| modified >= start)
    };
    let report = dir.join("cargo-timing.html");
    let text = if is_new(&report) { fs::read_to_string(&report).unwrap_or_default() } else { String::new() };
    // Each build also leaves a dated copy. Remove it, because copies would accumulate.
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        if entry.path() != report && is_new(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    sum(&text)
}

/// The sum of the times of two builds.
#[must_use]
pub fn together(
    mut times: Vec<(&'static str, f64)>,
    more: Vec<(&'static str, f64)>,
) -> Vec<(&'static str, f64)> {
    for (name, time) in more {
        match times.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += time,
            None => times.push((name, time)),
        }
    }
    times
}

fn sum(report: &str) -> Vec<(&'static str, f64)> {
    let json = report.split_once("UNIT_DATA = ").map_or("", |(_, rest)| rest);
    let units = serde_json::Deserializer::from_str(json).into_iter::<Vec<Unit>>().next();
    let units = units.and_then(Result::ok).unwrap_or_default();
    let group = |unit: &Unit| {
        if unit.name == "millpond" {
            return group_of("millpond").name;
        }
        unit.name.strip_prefix("millpond-").map_or(DEPENDENCIES, |package| group_of(package).name)
    };
    let total = |name: &'static str| {
        let times = units.iter().filter(|unit| group(unit) == name).map(|unit| unit.duration);
        (name, times.sum::<f64>())
    };
    std::iter::once(DEPENDENCIES).chain(ORDER).map(total).filter(|(_, time)| *time > 0.0).collect()
}

/// One line: `built: dependencies 12.0 s, values 3.5 s (all jobs together)`.
#[must_use]
pub fn built(times: &[(&'static str, f64)]) -> String {
    let parts: Vec<String> = times.iter().map(|(name, time)| format!("{name} {time:.1} s")).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("built: {} (all jobs together)\n", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    fn told(ends: &[(&str, u64)]) -> Told {
        let ends = ends.iter().map(|(name, ms)| ((*name).to_owned(), Duration::from_millis(*ms)));
        Told {
            output: String::new(),
            tally: Tally { passed: 3, ..Tally::default() },
            ended_well: true,
            ends: ends.collect(),
        }
    }

    #[test]
    fn the_time_of_a_case_follows_from_the_ends_of_the_others() {
        // Two threads: a and b start at 0, c when b ends at 1 s, d when a ends at 4 s.
        let ends = told(&[("b", 1000), ("a", 4000), ("c", 4500), ("d", 5000)]);
        let timed = Timed::of("x".into(), &ends, Duration::from_secs(5), 2);
        let seconds: Vec<_> =
            timed.each.iter().map(|(name, time)| (name.as_str(), time.as_millis())).collect();
        assert_eq!(seconds, [("b", 1000), ("a", 4000), ("c", 3500), ("d", 1000)]);
    }

    #[test]
    fn the_slowest_come_first() {
        let timed = |name: &str, ms: u64, ends: &[(&str, u64)]| {
            Timed::of(name.into(), &told(ends), Duration::from_millis(ms), 2)
        };
        let text = list(vec![
            timed("laws of lib/sim", 1250, &[("a", 1250)]),
            timed("vm of tests/vm", 75_000, &[("demo::a", 20_000), ("b::c", 74_000)]),
        ]);
        let expected = "\
slowest executables
    75.0 s  vm of tests/vm (3 cases)
     1.2 s  laws of lib/sim (3 cases)
slowest cases
    74.0 s  b::c, vm of tests/vm: no reason is known, see xtask/src/slowest.rs
    20.0 s  demo::a, vm of tests/vm: runs the demo with real programs
     1.2 s  a, laws of lib/sim
";
        assert_eq!(text, expected);
    }

    #[test]
    fn times_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Times::read(dir.path()), Times::default());
        let mut times = Times::default();
        times.set("laws of lib/sim", 1.5);
        times.write(dir.path());
        assert_eq!(Times::read(dir.path()).of("laws of lib/sim"), Some(1.5));
        fs::write(dir.path().join(TIMES), "a\tb\nc\n").unwrap();
        assert_eq!(Times::read(dir.path()), Times::default());
    }

    #[test]
    fn units_of_a_build_are_summed_by_group() {
        let report = r#"<script>const UNIT_DATA = [
  {"i": 0, "name": "serde", "version": "1.0.1", "duration": 2.5, "sections": null},
  {"i": 1, "name": "millpond-model", "duration": 1.25},
  {"i": 2, "name": "millpond-model", "duration": 1.5},
  {"i": 3, "name": "millpond", "duration": 4.0}
];
const MORE = 1;"#;
        let times = sum(report);
        assert_eq!(times, [("dependencies", 2.5), ("values", 2.75), ("commands", 4.0)]);
        assert_eq!(
            built(&times),
            "built: dependencies 2.5 s, values 2.8 s, commands 4.0 s (all jobs together)\n"
        );
        let both = together(times, vec![("values", 0.25), ("workloads", 1.0)]);
        assert_eq!(both, [("dependencies", 2.5), ("values", 3.0), ("commands", 4.0), ("workloads", 1.0)]);
        for text in ["", "UNIT_DATA = [", "UNIT_DATA = [];"] {
            assert_eq!(built(&sum(text)), "", "{text}");
        }
    }
}
