//! Lays two recordings of cpustat beside one another: how often each event came, and how many cycles an instruction took.
//!
//! ```text
//! $ cpustat --all --cpi --record near.json 30 3
//! $ cpustat --all --cpi --record far.json 30 3
//! $ millpond compare near.json far.json
//! A: near.json (machine e6900, 48 processors, 144 samples)
//! B: far.json (machine e25k, 48 processors, 144 samples)
//! figure                  A           B   B/A
//! Cycle_cnt/s  1200000000.0  1350000000.0  1.13
//! Instr_cnt/s   576923076.9   409090909.1  0.71
//! cpi                  2.08         3.30  1.59
//! cpi min              2.08         3.30  1.59
//! cpi median           2.08         3.30  1.59
//! cpi p90              2.08         3.30  1.59
//! cpi p99              2.08         3.30  1.59
//! cpi max              2.08         3.30  1.59
//! ```
//!
//! A rate is for a second of one processor, on average over all of them. `cpi` is that of all cycles and all instructions; the lines below are of
//! the samples. A dash stands for what is not in a recording.
//!
//! # JSON
//!
//! ```text
//! {"a":{"cpus":48,"file":"near.json","machine":"e6900","samples":144},"b":{…},
//!  "figures":[{"A":1200000000.0,"B":1350000000.0,"B/A":1.13,"figure":"Cycle_cnt/s"},…]}
//! ```
//!
//! # Status
//!
//! 0, or 1 when a recording cannot be used, or 2 for what makes no sense.

use crate::args::Parsed;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::recording::{Recording, parse};
use millpond_observe::Distribution;
use millpond_report::{Align, Cell, Table};
use millpond_session::read_log;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    name: "compare",
    applet: false,
    summary: "lay two recordings of cpustat beside one another",
    usage: &["recording recording"],
    letters: "-",
    longs: &[],
    source: include_str!("mod.rs"),
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = parsed.words();
    let [a, b] = words.as_slice() else {
        return Err(Failure::Usage("which two recordings?".to_owned()));
    };
    let (first, second) = (load(a)?, load(b)?);
    let table = table(&first, &second);
    if parsed.common.json {
        let about = |file: &str, r: &Recording| json!({ "file": file, "machine": r.machine, "cpus": r.cpus, "samples": r.samples });
        let (about_a, about_b) = (about(a, &first), about(b, &second));
        ctx.json(&json!({ "a": about_a, "b": about_b, "figures": table.json() }));
        return Ok(Exit::DONE);
    }
    for (letter, file, recording) in [("A", a, &first), ("B", b, &second)] {
        let plural = |count: usize, noun: &str| {
            if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
        };
        let (cpus, samples) = (plural(recording.cpus, "processor"), plural(recording.samples, "sample"));
        ctx.out.line(format_args!("{letter}: {file} (machine {}, {cpus}, {samples})", recording.machine));
    }
    ctx.out.text(&table.text());
    Ok(Exit::DONE)
}

fn load(file: &str) -> Result<Recording, Failure> {
    let cannot = |why: String| Complaint::new(format!("use recording {file}"), why);
    let text = read_log(Path::new(file)).map_err(cannot)?;
    let recording = parse(&text);
    Ok(recording.map_err(|error| cannot(error.to_string()).hint("cpustat --record FILE makes one"))?)
}

/// One figure of a distribution.
type Rank = fn(&Distribution) -> f64;

fn table(a: &Recording, b: &Recording) -> Table {
    let right = |head| (head, Align::Right);
    let mut table = Table::new(&[("figure", Align::Left), right("A"), right("B"), right("B/A")]);
    let mut row = |name: String, a: Option<f64>, b: Option<f64>, digits: usize| {
        let cell =
            |value: Option<f64>, digits| value.map_or(Cell::Missing, |value| Cell::Real(value, digits));
        let ratio = match (a, b) {
            (Some(a), Some(b)) if a > 0.0 => Some(b / a),
            _ => None,
        };
        table.row([Cell::Text(name), cell(a, digits), cell(b, digits), cell(ratio, 2)]);
    };
    let events: BTreeSet<&String> = a.events.keys().chain(b.events.keys()).collect();
    for event in events {
        let rate = |r: &Recording| {
            let (count, seconds) = *r.events.get(event)?;
            (seconds > 0.0).then(|| count as f64 / seconds)
        };
        row(format!("{event}/s"), rate(a), rate(b), 1);
    }
    row("cpi".to_owned(), a.cpi, b.cpi, 2);
    let ranks: [(&str, Rank); 5] = [
        ("min", |d| d.min),
        ("median", |d| d.median),
        ("p90", |d| d.p90),
        ("p99", |d| d.p99),
        ("max", |d| d.max),
    ];
    for (name, rank) in ranks {
        row(format!("cpi {name}"), a.cpis.as_ref().map(rank), b.cpis.as_ref().map(rank), 2);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_one_another_with_their_ratio() {
        let recording = |cycles: u64, cpi: f64| Recording {
            events: [("cycles".to_owned(), (cycles, 2.0))].into(),
            cpi: Some(cpi),
            cpis: Distribution::of(&[cpi]),
            ..Recording::default()
        };
        let mut b = recording(300, 4.5);
        b.events.insert("page-faults".into(), (8, 4.0));
        let text = table(&recording(200, 1.5), &b).text();
        let expected = "\
figure             A      B   B/A
cycles/s       100.0  150.0  1.50
page-faults/s      -    2.0     -
cpi             1.50   4.50  3.00
cpi min         1.50   4.50  3.00
cpi median      1.50   4.50  3.00
cpi p90         1.50   4.50  3.00
cpi p99         1.50   4.50  3.00
cpi max         1.50   4.50  3.00
";
        assert_eq!(text, expected);
    }
}
