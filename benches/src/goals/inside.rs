//! What is measured in a virtual machine: exclusive sets, which on the machine at hand would push others out.
//!
//! One boot of Debian's 6.17 kernel with 4 emulated processors and cgroup v2 serves both goals.

use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::{Bench, Trouble, build_bare, told};
use millpond_vm::{Cache, Case, CaseResult, Cgroup, Guest, Image, Shape, Verdict, available, obtain};
use serde_json::Value;
use std::thread::available_parallelism;
use std::time::Duration;

const CHANGE: (&str, &str, Goal) = (
    "psrset -c, psrset -d (in a virtual machine)",
    "the bare writes, as a static program",
    Goal::RatioAtMost(1.5),
);
const NEIGHBOUR: (&str, &str, Goal) = (
    "worst wake-up on a fenced processor while sets come and go (in a virtual machine)",
    "as many bare writes",
    Goal::RatioAtMost(1.0),
);
const NEIGHBOUR_HERE: (&str, &str, Goal) = (
    "worst wake-up on a fenced processor while sets come and go (on this machine)",
    "as many bare writes",
    Goal::RatioAtMost(1.0),
);
const QUIET: (&str, &str, Goal) =
    ("ticks until the last foreign thread and interrupt left a set (in a virtual machine)", "-", Goal::None);

const KERNEL: &str = "6.17";
const LIMIT: Duration = Duration::from_secs(400);

/// The lines of these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = match boot(bench) {
        Ok(values) => lines_of(&values),
        Err(why) => [CHANGE, NEIGHBOUR]
            .map(|(name, peer, goal)| Line::unresolvable(name, peer, goal, why.clone()))
            .to_vec(),
    };
    lines.push(here());
    let (name, peer, goal) = QUIET;
    lines.push(Line::unresolvable(name, peer, goal, "not measured yet"));
    lines
}

fn here() -> Line {
    let (name, peer, goal) = NEIGHBOUR_HERE;
    let cpus = available_parallelism().map_or(1, usize::from);
    let why = if cpus < 4 {
        format!(
            "it takes four processors (one fenced, two that change sets, one for the rest), here are {cpus}"
        )
    } else {
        "a fence on this machine would push out others".into()
    };
    Line::unresolvable(name, peer, goal, why)
}

/// What the two measurements said in the guest.
fn boot(bench: &Bench) -> Result<[Result<Value, Trouble>; 2], Trouble> {
    told("use virtual machines", available())?;
    let cache = told("find the cache", Cache::from_environment())?;
    let series = told("choose a kernel", KERNEL.parse())?;
    let kernel = told("get a kernel", obtain(series, &cache, &|note| eprintln!("bench: {note}")))?;
    let bare = build_bare(&bench.scratch)?;
    let image = told("make an image", Image::new().program("millpond", &bench.millpond))?;
    let image = told("make an image", image.program("millpond-benches", &bench.own))?
        .link("/usr/local/bin/psrset", "millpond")
        .copy("/usr/local/bin/bare", bare, 0o755);
    let guest =
        Guest::new(kernel, told("shape a machine", Shape::flat(4, 1))?).cgroup(Cgroup::V2).image(&image);
    let case = |name: &str| {
        let script = format!("millpond-benches guest {name} {}\n", bench.pairs);
        told("write a case", Case::new(name, script)).map(|case| case.limit(LIMIT))
    };
    let report =
        told("run a virtual machine", guest.run_cases(&[case("change")?, case("neighbour")?], &cache))?;
    match &report.cases[..] {
        [change, neighbour] => Ok([said(change), said(neighbour)]),
        _ => Err("the virtual machine lost a case".into()),
    }
}

fn said(case: &CaseResult) -> Result<Value, Trouble> {
    match &case.verdict {
        Verdict::Passed => told("read what the guest said", serde_json::from_str(&case.stdout)),
        verdict => {
            let why = case.stderr.lines().last().unwrap_or("it said nothing");
            Err(format!("in the virtual machine: {verdict:?}: {why}"))
        }
    }
}

fn lines_of(values: &[Result<Value, Trouble>; 2]) -> Vec<Line> {
    let line = |(name, peer, goal): (&str, &str, Goal), unit, pairs: Result<Pairs, Trouble>| match pairs {
        Ok(pairs) => Line::of(name, peer, unit, &pairs, goal),
        Err(why) => Line::unresolvable(name, peer, goal, why),
    };
    let [change, neighbour] = values;
    let change = line(CHANGE, "ms", change.as_ref().map(pairs_in).map_err(Clone::clone))
        .noting("both with the start of two programs");
    let felt = neighbour.as_ref().map(|value| pairs_in(&value["pairs"])).map_err(Clone::clone);
    let felt = line(NEIGHBOUR, "us", felt);
    let felt = match neighbour {
        Ok(value) => felt.noting(format!(
            "{} sets made, resized and destroyed; with nothing going on: {:.0} us",
            value["sets"],
            median_of(&numbers(&value["idle"]))
        )),
        Err(_) => felt,
    };
    vec![change, felt]
}

fn pairs_in(value: &Value) -> Pairs {
    Pairs { ours: numbers(&value["ours"]), peer: numbers(&value["peer"]) }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_guest_says_becomes_lines() {
        let tens = vec![10.0; 20];
        let change = json!({ "ours": tens, "peer": vec![8.0; 20] });
        let neighbour =
            json!({ "pairs": { "ours": tens, "peer": tens }, "idle": [5.0, 6.0, 7.0], "sets": 1000 });
        let lines = lines_of(&[Ok(change), Ok(neighbour)]);
        assert!(
            lines[0].text().contains("| 1.25 x | 1.25..1.25 x | 20 pairs | <= 1.5 x | met"),
            "{}",
            lines[0].text()
        );
        assert!(
            lines[1].text().ends_with(
                "<= 1 x | met (1000 sets made, resized and destroyed; with nothing going on: 6 us)"
            ),
            "{}",
            lines[1].text()
        );
    }

    #[test]
    fn what_went_wrong_in_a_guest_is_told() {
        let lines = lines_of(&[Err("no psrset".into()), Ok(json!({}))]);
        assert!(lines[0].text().contains("unresolvable (no psrset"));
        assert!(lines[1].text().contains("unresolvable (too few pairs"));
    }
}
