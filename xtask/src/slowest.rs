//! What dominates a run: the slowest test executables, cases of more than a minute, and the build by group.

use crate::group::{ORDER, group_of};
use crate::table::seconds;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How many executables are listed.
const LISTED: usize = 10;

/// The group of crates that are not ours.
const DEPENDENCIES: &str = "dependencies";

/// How long one executable ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// `laws of lib/linux`.
    pub name: String,
    /// How many cases it has.
    pub cases: u64,
    /// From its start to its end.
    pub time: Duration,
    /// Cases that its harness reports as running for more than a minute.
    pub long: Vec<String>,
}

impl Timed {
    /// Reads the long cases from the output: `test NAME has been running for over 60 seconds`.
    #[must_use]
    pub fn of(name: String, cases: u64, time: Duration, output: &str) -> Timed {
        let long = output.lines().filter_map(|line| {
            let case = line.strip_prefix("test ")?.strip_suffix(" has been running for over 60 seconds")?;
            Some(case.to_owned())
        });
        Timed { name, cases, time, long: long.collect() }
    }
}

/// The slowest executables, slowest first, with their long cases.
#[must_use]
pub fn list(mut timed: Vec<Timed>) -> String {
    if timed.is_empty() {
        return String::new();
    }
    timed.sort_by_key(|one| std::cmp::Reverse(one.time));
    let mut text = String::from("slowest executables\n");
    for one in timed.iter().take(LISTED) {
        text += &format!("{:>10}  {} ({} cases)\n", seconds(one.time), one.name, one.cases);
        text.extend(one.long.iter().map(|case| format!("{:>10}  {case}\n", "> 60 s")));
    }
    text
}

/// One unit of a build, as in cargo's report of times.
#[derive(Deserialize)]
struct Unit {
    name: String,
    duration: f64,
}

/// How long each group built, from the report that cargo wrote since `start`: seconds of all jobs together, in the order of groups.
/// Empty when nothing was built or the report is not understood.
#[must_use]
pub fn build_times(target: &Path, start: SystemTime) -> Vec<(&'static str, f64)> {
    let dir = target.join("cargo-timings");
    let is_new = |path: &Path| {
        fs::metadata(path).and_then(|data| data.modified()).is_ok_and(|modified| modified >= start)
    };
    let report = dir.join("cargo-timing.html");
    let text = if is_new(&report) { fs::read_to_string(&report).unwrap_or_default() } else { String::new() };
    // Each build leaves a dated copy as well; those of tests would pile up.
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        if entry.path() != report && is_new(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    sum(&text)
}

/// The times of two builds.
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

    #[test]
    fn the_slowest_come_first_with_their_long_cases() {
        let output = "test a ... ok\ntest b::c has been running for over 60 seconds\ntest b::c ... ok\n";
        let timed =
            |name: &str, ms: u64, output: &str| Timed::of(name.into(), 2, Duration::from_millis(ms), output);
        let text = list(vec![timed("laws of lib/sim", 1250, ""), timed("vm of tests/vm", 75_000, output)]);
        let expected = "\
slowest executables
    75.0 s  vm of tests/vm (2 cases)
    > 60 s  b::c
     1.2 s  laws of lib/sim (2 cases)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_list_has_an_end() {
        let timed = |ms| Timed::of("a".into(), 1, Duration::from_millis(ms), "");
        assert_eq!(list((0..30).map(timed).collect()).lines().count(), 1 + LISTED);
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
