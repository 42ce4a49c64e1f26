//! Goals measured in a virtual machine: exclusive sets, which on the real machine would evict other programs. The effect of shared sets on
//! a neighbour is measured on the real machine (`neighbour`).
//!
//! One boot of Debian's 6.17 kernel with 4 emulated CPUs and cgroup v2 serves both goals.

use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::{Bench, Trouble, build_bare, told};
use millpond_vm::{
    Cache, Case, CaseResult, Cgroup, Guest, Image, Kernel, Nic, Shape, Verdict, available, obtain,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const CHANGE: (&str, &str, Goal) = (
    "psrset -c, psrset -d (in a virtual machine)",
    "the bare writes, as a static program",
    Goal::RatioAtMost(1.5),
);
const LIBRARY: (&str, &str, Goal) = (
    "making a set and removing it, the machine kept open (in a virtual machine)",
    "the bare writes of the same program",
    Goal::RatioAtMost(1.5),
);
const NEIGHBOUR: (&str, &str, Goal) = (
    "worst wake-up on a fenced CPU while sets come and go (in a virtual machine)",
    "as many bare writes",
    Goal::RatioAtMost(1.0),
);
const QUIET_THREADS: &str =
    "ticks from psrset -c until the last foreign thread ran in the set (in a virtual machine)";
const QUIET_INTERRUPTS: &str =
    "ticks from psrset -c, psrset -f until the last device interrupt there (in a virtual machine)";

const KERNEL: &str = "6.17";
const LIMIT: Duration = Duration::from_secs(400);

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    match boot(bench) {
        Ok((values, quiet)) => [lines_of(&values), quiet_lines(quiet)].concat(),
        Err(why) => {
            let mut lines = [CHANGE, LIBRARY, NEIGHBOUR]
                .map(|(name, peer, goal)| Line::unresolvable(name, peer, goal, why.clone()))
                .to_vec();
            lines.extend(quiet_lines(Err(why)));
            lines
        }
    }
}

/// The guest's output: JSON of three measurements, and lines of the fourth.
type Said = ([Result<Value, Trouble>; 3], Result<String, Trouble>);

fn boot(bench: &Bench) -> Result<Said, Trouble> {
    let (cache, kernel) = kernel(KERNEL)?;
    let bare = build_bare(&bench.scratch)?;
    let image = told("make an image", Image::new().program("millpond", &bench.millpond))?;
    let image = told("make an image", image.program("millpond-benches", &bench.own))?
        .link("/usr/local/bin/psrset", "millpond")
        .copy("/usr/local/bin/bare", bare, 0o755);
    let guest = Guest::new(kernel, told("shape a machine", Shape::flat(4, 1))?)
        .cgroup(Cgroup::V2)
        .nics(&[Nic::Virtio, Nic::Virtio])
        .image(&image);
    let case = |name: &str| {
        let script = format!("millpond-benches guest {name} {}\n", bench.pairs);
        told("write a case", Case::new(name, script)).map(|case| case.limit(LIMIT))
    };
    let rounds = format!("ROUNDS={}\n{}", bench.pairs, include_str!("../guest/quiet.sh"));
    let quiet = told("write a case", Case::new("quiet", rounds))?.limit(LIMIT * 2);
    let cases = [case("change")?, case("library")?, case("neighbour")?, quiet];
    let report = told("run a virtual machine", guest.run_cases(&cases, &cache))?;
    match &report.cases[..] {
        [change, library, neighbour, quiet] => {
            let parse = |text: String| told("read what the guest said", serde_json::from_str(&text));
            let json = [change, library, neighbour].map(|case| said(case).and_then(parse));
            Ok((json, said(quiet)))
        }
        _ => Err("the virtual machine lost a case".into()),
    }
}

/// A kernel to boot, and its cache.
///
/// # Errors
/// Virtual machines are unavailable here, or the kernel cannot be obtained.
pub fn kernel(series: &str) -> Result<(Cache, Kernel), Trouble> {
    told("use virtual machines", available())?;
    let cache = told("find the cache", Cache::from_environment())?;
    let series = told("choose a kernel", series.parse())?;
    let kernel = told("get a kernel", obtain(series, &cache, &|note| eprintln!("bench: {note}")))?;
    Ok((cache, kernel))
}

/// The output of a case.
///
/// # Errors
/// The case failed: with the last line of its error output.
pub fn said(case: &CaseResult) -> Result<String, Trouble> {
    match &case.verdict {
        Verdict::Passed => Ok(case.stdout.clone()),
        verdict => {
            let why = case.stderr.lines().last().unwrap_or("it said nothing");
            Err(format!("in the virtual machine: {verdict:?}: {why}"))
        }
    }
}

/// One round of the script: times in ticks, and the name of the last foreign thread.
struct Round {
    threads: f64,
    interrupts: f64,
    made: f64,
    still: f64,
    name: String,
}

fn round(line: &str) -> Option<Round> {
    let mut words = line.split(' ').map(str::trim);
    let mut number = || words.next()?.parse().ok();
    let (threads, interrupts, made, still) = (number()?, number()?, number()?, number()?);
    Some(Round { threads, interrupts, made, still, name: words.next()?.to_owned() })
}

/// A line for threads and one for interrupts, from rounds of `THREADS INTERRUPTS MADE STILL NAME` (see the script).
fn quiet_lines(rounds: Result<String, Trouble>) -> Vec<Line> {
    let rounds: Vec<Round> = match rounds {
        Ok(text) => text.lines().filter_map(round).collect(),
        Err(why) => {
            let line = |name| Line::unresolvable(name, "no peer", Goal::None, why.clone());
            return [QUIET_THREADS, QUIET_INTERRUPTS].map(line).to_vec();
        }
    };
    let line = |name, last: fn(&Round) -> f64, ended: fn(&Round) -> f64, name_of: fn(&Round) -> &str| {
        let pairs = Pairs { ours: rounds.iter().map(last).collect(), peer: Vec::new() };
        let most = pairs.ours.iter().copied().fold(0.0, f64::max);
        let late: Vec<&Round> = rounds.iter().filter(|round| last(round) > ended(round)).collect();
        let names: BTreeSet<&str> =
            late.iter().map(|round| name_of(round)).filter(|n| !n.is_empty()).collect();
        let named =
            if names.is_empty() { String::new() } else { format!(": {}", Vec::from_iter(names).join(", ")) };
        Line::of(name, "no peer", "ticks", &pairs, Goal::None).noting(format!(
            "{} rounds, at most {most:.1} ticks; the commands had ended after {:.0}; rounds in which one came later: {}{named}",
            rounds.len(),
            median_of(&rounds.iter().map(ended).collect::<Vec<f64>>()),
            late.len(),
        ))
    };
    vec![
        line(QUIET_THREADS, |r| r.threads, |r| r.made, |r| &r.name),
        line(QUIET_INTERRUPTS, |r| r.interrupts, |r| r.still, |_| ""),
    ]
}

fn lines_of(values: &[Result<Value, Trouble>; 3]) -> Vec<Line> {
    let line = |(name, peer, goal): (&str, &str, Goal), unit, pairs: Result<Pairs, Trouble>| {
        Line::found(name, peer, unit, pairs, goal)
    };
    let [change, library, neighbour] = values;
    let change = line(CHANGE, "ms", change.as_ref().map(pairs_in).map_err(Clone::clone))
        .noting("both with the start of two programs, whose code is emulated anew at each start");
    let library = line(LIBRARY, "ms", library.as_ref().map(pairs_in).map_err(Clone::clone));
    let felt = neighbour.as_ref().map(|value| pairs_in(&value["pairs"])).map_err(Clone::clone);
    let felt = line(NEIGHBOUR, "us", felt);
    let felt = match neighbour {
        Ok(value) => felt.noting(format!(
            "{} sets made, resized and destroyed; beside as many commands that only look: {:.0} us; with nothing going on: {:.0} us",
            value["sets"],
            median_of(&numbers(&value["looking"])),
            median_of(&numbers(&value["idle"]))
        )),
        Err(_) => felt,
    };
    vec![change, library, felt]
}

/// Pairs from a guest's output.
pub fn pairs_in(value: &Value) -> Pairs {
    Pairs { ours: numbers(&value["ours"]), peer: numbers(&value["peer"]) }
}

/// The numbers of a JSON list.
pub fn numbers(value: &Value) -> Vec<f64> {
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
        let neighbour = json!({ "pairs": { "ours": tens, "peer": tens }, "looking": [8.0, 9.0, 9.0], "idle": [5.0, 6.0, 7.0], "sets": 1000 });
        let lines = lines_of(&[Ok(change.clone()), Ok(change), Ok(neighbour)]);
        assert!(
            lines[0].text().contains("| 1.25 x | 1.25..1.25 x | 20 pairs | <= 1.5 x | met"),
            "{}",
            lines[0].text()
        );
        assert!(
            lines[2].text().ends_with(
                "<= 1 x | met (1000 sets made, resized and destroyed; beside as many commands that only look: 9 us; \
                 with nothing going on: 6 us)"
            ),
            "{}",
            lines[2].text()
        );
    }

    #[test]
    fn rounds_of_a_quiet_set_become_two_lines() {
        let said = "3.50 0.00 5.00 9.00 psrset\n4.50 1.00 4.00 9.00 kworker\n4.00 0.50 5.00 9.00 psrset\n";
        let lines = quiet_lines(Ok(said.into()));
        let told = "| 4.00 ticks | no peer: - | - | - | 0 pairs | - | no goal (3 rounds, at most 4.5 ticks; \
                    the commands had ended after 5; rounds in which one came later: 1: kworker)";
        assert!(lines[0].text().ends_with(told), "{}", lines[0].text());
        assert!(lines[1].text().contains("| 0.500 ticks |"), "{}", lines[1].text());
        assert!(
            lines[1].text().ends_with("after 9; rounds in which one came later: 0)"),
            "{}",
            lines[1].text()
        );
        assert_eq!(quiet_lines(Err("no guest".into()))[1].note, "no guest");
    }

    #[test]
    fn what_went_wrong_in_a_guest_is_told() {
        let lines = lines_of(&[Err("no psrset".into()), Ok(json!({})), Ok(json!({}))]);
        assert!(lines[0].text().contains("unresolvable (no psrset"));
        assert!(lines[2].text().contains("unresolvable (too few pairs"));
    }
}
