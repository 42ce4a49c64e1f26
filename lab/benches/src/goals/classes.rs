//! Live classes, in a virtual machine with one CPU whose clock counts instructions, so that times are reproducible. One boot measures the
//! same under the kernel's scheduler, under that with a short slice for the waking thread, and under schedd with that thread in TS and in IA, with
//! the standard and with the extended table. The machine has no caches, so the gain of long slices from warm caches does not show.

use super::inside::{kernel, numbers, said};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, run_ms, told};
use millpond_vm::{Accel, Case, Cgroup, Guest, Image, Shape};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// From 7.0 on, Linux promises whole-system schedulers.
const KERNEL: &str = "7.3";
const LIMIT: Duration = Duration::from_secs(3000);
const BUSY: [u32; 5] = [0, 1, 4, 16, 300];
const EEVDF: &str = "EEVDF";
/// The waking thread: its name in the script, and its description.
const WAKING: [(&str, &str); 2] =
    [("schedd", "wake-ups"), ("ia", "wake-ups of a thread of IA in the foreground")];
const PLACE: &str = "(1 CPU in a virtual machine, time by instructions)";

/// Costs: name in the script, description, unit, and goal.
const COSTS: [(&str, &str, &str, Goal); 6] = [
    ("exchange", "a byte to another process and back", "us", Goal::RatioAtMost(1.1)),
    ("hackbench", "hackbench of one group, 800 loops", "ms", Goal::RatioAtMost(1.15)),
    ("build", "8 compilers at once", "ms", Goal::RatioAtMost(1.03)),
    ("start-0", "a program starts and ends", "ms", Goal::None),
    ("start-4", "a program starts and ends beside 4 busy threads", "ms", Goal::None),
    ("service", "p99 of requests to 16 threads that work 90 % of the time", "ms", Goal::None),
];

/// The guest's output, by scheduler and name.
type Said = BTreeMap<(String, String), Value>;

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    match boot(bench) {
        Ok(all) => {
            let wakes = WAKING.into_iter().flat_map(|waking| BUSY.map(|busy| wakes(&all, waking, busy)));
            let costs = COSTS.into_iter().map(|(name, what, unit, goal)| {
                let name_of = format!("{what} under schedd {PLACE}");
                Line::found(&name_of, EEVDF, unit, pairs(&all, name, ["schedd", "eevdf"]), goal)
            });
            let rest = [beside_messages(&all), exact(&all), spared(&all), tables(&all)];
            wakes.flatten().chain(costs).chain(rest.into_iter().flatten()).collect()
        }
        Err(why) => vec![Line::unresolvable(&name_of(WAKING[0].1, BUSY[1]), EEVDF, beside(BUSY[1]), why)],
    }
}

/// Wake-ups beside programs that pass messages.
fn beside_messages(all: &Said) -> Vec<Line> {
    let line = |(by, options)| {
        let what = format!("p99 of wake-ups beside hackbench under schedd{options} {PLACE}");
        Line::found(&what, EEVDF, "us", pairs(all, "wakes-messages", [by, "eevdf"]), Goal::RatioAtMost(1.0))
    };
    [("schedd", ""), ("exact", " --parity 0")].map(line).to_vec()
}

/// What Solaris' rule of wake-ups costs and gives, compared with the default.
fn exact(all: &Said) -> Vec<Line> {
    let wakes = ("wakes-4", "p99 of wake-ups beside 4 busy threads", "us");
    let costs = COSTS.into_iter().take(2).map(|(name, what, unit, _)| (name, what, unit));
    let line = |(name, what, unit): (&str, &str, &'static str)| {
        let what = format!("{what} under schedd --parity 0 {PLACE}");
        Line::found(&what, EEVDF, unit, pairs(all, name, ["exact", "eevdf"]), Goal::None)
    };
    std::iter::once(wakes).chain(costs).map(line).collect()
}

/// What forks when its parent does not pay.
fn spared(all: &Said) -> Vec<Line> {
    let forks = COSTS.into_iter().filter(|(name, ..)| ["hackbench", "start-0", "start-4"].contains(name));
    let line = |(name, what, unit, goal): (&str, &str, &'static str, Goal)| {
        let what = format!("{what} under schedd --no-parent-pays {PLACE}");
        Line::found(&what, EEVDF, unit, pairs(all, name, ["spared", "eevdf"]), goal)
    };
    forks.map(line).collect()
}

/// The effect of the extended table: slices up to twice as long at the lowest levels, and slower promotion.
fn tables(all: &Said) -> Vec<Line> {
    let wakes = [4, 16, 300]
        .map(|busy| (format!("wakes-{busy}"), format!("p99 of wake-ups beside {busy} busy threads"), "us"));
    let costs = COSTS.map(|(name, what, unit, _)| (name.to_owned(), what.to_owned(), unit));
    let line = |(name, what, unit): (String, String, &'static str)| {
        let what = format!("{what} with the extended table {PLACE}");
        Line::found(
            &what,
            "with the standard one",
            unit,
            pairs(all, &name, ["extended", "schedd"]),
            Goal::None,
        )
    };
    wakes.into_iter().chain(costs).map(line).collect()
}

/// One measurement under two schedulers: for wake-ups the p99 of each round, for requests that of each run.
fn pairs(all: &Said, name: &str, [ours, peer]: [&str; 2]) -> Result<Pairs, Trouble> {
    let of = |scheduler| {
        let rounds = value(all, scheduler, name)?.as_array();
        let figure = |round: &Value| match round {
            Value::Array(_) => Some(quantile(&numbers(round), 990)),
            Value::Object(_) => round["result"]["p99_ms"].as_f64(),
            _ => round.as_f64(),
        };
        Ok::<_, Trouble>(rounds.into_iter().flatten().filter_map(figure).collect())
    };
    Ok(Pairs { ours: of(ours)?, peer: of(peer)? })
}

fn name_of(what: &str, busy: u32) -> String {
    format!("p99 of {what} beside {busy} busy threads under schedd {PLACE}")
}

/// The goal with this many busy threads.
fn beside(busy: u32) -> Goal {
    if busy == 0 { Goal::RatioAtMost(1.1) } else { Goal::RatioAtMost(0.1) }
}

/// One line compared with the kernel's scheduler, and one compared with an idle machine.
fn wakes(all: &Said, (by, what): (&str, &str), busy: u32) -> Vec<Line> {
    let title = name_of(what, busy);
    let found = || {
        let name = format!("wakes-{busy}");
        let first = pairs(all, &name, [by, "eevdf"])?;
        let idle = Pairs { peer: pairs(all, "wakes-0", ["eevdf", "eevdf"])?.peer, ..first.clone() };
        let spread = |scheduler| value(all, scheduler, &name).map(spread);
        let told = format!(
            "p50/p99/p99.9/max of all: schedd {}, EEVDF {}, with slices of 100 us {}",
            spread(by)?,
            spread("eevdf")?,
            spread("slice")?
        );
        Ok::<_, Trouble>((first, idle, told))
    };
    let (first, idle, told) = match found() {
        Ok(found) => found,
        Err(why) => return vec![Line::unresolvable(&title, EEVDF, beside(busy), why)],
    };
    let first = Line::of(&title, EEVDF, "us", &first, beside(busy)).noting(told);
    let idle = Line::of(&title, "EEVDF, no busy thread", "us", &idle, Goal::RatioAtMost(1.1));
    if busy == 0 { vec![first] } else { vec![first, idle] }
}

/// Percentiles over all rounds, with the number of wake-ups.
fn spread(rounds: &Value) -> String {
    let all: Vec<f64> = rounds.as_array().into_iter().flatten().flat_map(numbers).collect();
    let parts = [500, 990, 999, 1000].map(|permille| format!("{:.0}", quantile(&all, permille)));
    format!("{} us ({})", parts.join("/"), all.len())
}

/// A quantile in thousandths; 0 without values.
pub(super) fn quantile(values: &[f64], permille: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * permille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn value<'a>(all: &'a Said, scheduler: &str, name: &str) -> Result<&'a Value, Trouble> {
    let key = (scheduler.to_owned(), name.to_owned());
    all.get(&key).ok_or_else(|| format!("the virtual machine could not measure {name}"))
}

/// Parses lines of `SCHEDULER NAME JSON`. Other lines are skipped.
fn parse(text: &str) -> Said {
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let key = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((key, serde_json::from_str(words.next()?).ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn boot(bench: &Bench) -> Result<Said, Trouble> {
    let (cache, kernel) = kernel(KERNEL)?;
    let mut image = told("make an image", Image::new().program("millpond", &bench.millpond))?;
    image = told("make an image", image.program("millpond-benches", &bench.own))?;
    let compiler = compiler(bench);
    if let Ok((compiler, unit)) = &compiler {
        image = told("make an image", image.program("cc1", compiler))?.copy("/unit.i", unit, 0o644);
    }
    let rounds = bench.pairs.min(10);
    let compiler = if compiler.is_ok() { "yes" } else { "no" };
    let script = include_str!("../guest/classes.sh");
    let script = format!("ROUNDS={rounds}\nCOMPILER={compiler}\n{script}");
    let case = told("write a case", Case::new("classes", script))?.limit(LIMIT);
    let guest = Guest::new(kernel, told("shape a machine", Shape::flat(1, 1))?)
        .cgroup(Cgroup::V2)
        .accel(Accel::Counted)
        .image(&image);
    let report = told("run a virtual machine", guest.run_cases(&[case], &cache))?;
    let case = report.cases.first().ok_or("the virtual machine lost its case")?;
    said(case).map(|text| parse(&text))
}

/// The compiler proper, and a preprocessed source file for it.
fn compiler(bench: &Bench) -> Result<(PathBuf, PathBuf), Trouble> {
    let said = told("ask the compiler", Command::new("cc").arg("-print-prog-name=cc1").output())?;
    let compiler = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    if !compiler.is_absolute() {
        return Err("the compiler is no program of its own".into());
    }
    let (source, unit) = (bench.scratch.join("unit.c"), bench.scratch.join("unit.i"));
    told("write a unit", std::fs::write(&source, include_str!("../../peer/bare.c")))?;
    run_ms(Command::new("cc").args(["-E", "-o"]).arg(&unit).arg(&source))?;
    Ok((compiler, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (permille, value) in [(500, 50.0), (990, 99.0), (999, 100.0), (1000, 100.0)] {
            assert!((quantile(&hundred, permille) - value).abs() < 1e-9, "{permille}");
        }
        assert!(quantile(&[], 500).abs() < 1e-9);
    }

    #[test]
    fn what_the_guest_says_becomes_lines() {
        let six = |us: f64| serde_json::json!(vec![vec![us; 3]; 6]).to_string();
        let text = format!(
            "eevdf wakes-0 {}\neevdf wakes-4 {}\nslice wakes-4 {}\n# loaded\nschedd wakes-4 {}\n",
            six(50.0),
            six(1000.0),
            six(200.0),
            six(60.0)
        );
        let lines = wakes(&parse(&text), WAKING[0], 4);
        assert!(
            lines[0].text().ends_with(
                "| 60.0 us | EEVDF: 1000 us | 0.0600 x | 0.0600..0.0600 x | 6 pairs | <= 0.1 x | met (p50/p99/p99.9/max of all: \
                 schedd 60/60/60/60 us (18), EEVDF 1000/1000/1000/1000 us (18), with slices of 100 us 200/200/200/200 us (18))"
            ),
            "{}",
            lines[0].text()
        );
        assert!(
            lines[1].text().contains("| 1.20 x | 1.20..1.20 x | 6 pairs | <= 1.1 x | MISSED"),
            "{}",
            lines[1].text()
        );
        let said = r#"[{"result":{"p99_ms":4.5}},{"result":{"p99_ms":5.5}}]"#;
        let all = parse(&format!("extended service {said}\nschedd service {said}\n"));
        let pairs = pairs(&all, "service", ["extended", "schedd"]).unwrap();
        assert_eq!((pairs.ours, pairs.peer), (vec![4.5, 5.5], vec![4.5, 5.5]));
        let lost = wakes(&parse(&text), WAKING[0], 16);
        assert_eq!(lost[0].note, "the virtual machine could not measure wakes-16");
    }
}
