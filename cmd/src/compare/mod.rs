//! Compares two recordings of `cpustat`: event rates and cycles per instruction (CPI).
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
//! A rate is per second and CPU, a mean over all CPUs. `cpi` is all cycles by all instructions; the lines below are of
//! the samples. A dash is a figure that a recording lacks.
//!
//! # JSON
//!
//! ```text
//! {"a":{"cpus":48,"file":"near.json","machine":"e6900","samples":144},"b":{…},
//!  "figures":[{"A":1200000000.0,"B":1350000000.0,"B/A":1.13,"figure":"Cycle_cnt/s"},…]}
//! ```

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Example, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_observe::recording::{Recording, beside, parse};
use millpond_session::read_log;
use serde_json::json;
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "compare",
        summary: "compare two recordings of cpustat",
        group: Group::Watch,
        forms: &["recording recording"],
        permutes: true,
        operands: Operands { shown: "recording recording", kinds: &[ValueKind::File] },
        examples: &[Example { words: "near.json far.json", what: "compare two recordings of cpustat" }],
        status: &[("0", "done"), ("1", "a recording is unusable"), MISUSED],
        see_also: &["cpustat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = parsed.words();
    let [a, b] = words.as_slice() else {
        return Err(Failure::Usage("which two recordings?".to_owned()));
    };
    let (first, second) = (load(a)?, load(b)?);
    let table = beside(&first, &second);
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
