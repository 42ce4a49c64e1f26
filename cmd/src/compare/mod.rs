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
//! A rate is per second and CPU, a mean over all CPUs. `cpi` is all cycles divided by all instructions; the lines below
//! it are of the samples. A dash is a figure that a recording lacks.
//!
//! # JSON
//!
//! Figures have the digits of the table. The schema is `docs/reference/json/compare.json`.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use millpond_cli::{Example, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_observe::recording::{Figure, Recording, beside, parse, table};
use millpond_session::read_log;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Comparison<'_>>()];

/// Two recordings.
#[derive(Serialize, JsonSchema)]
struct Comparison<'a> {
    a: About<'a>,
    b: About<'a>,
    figures: Vec<Figure>,
}

/// A recording.
#[derive(Serialize, JsonSchema)]
struct About<'a> {
    file: &'a str,
    machine: &'a str,
    /// The number of CPUs.
    cpus: usize,
    /// The number of samples, over all CPUs.
    samples: usize,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "compare",
        summary: "compare two recordings of cpustat",
        group: Group::Slow,
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
    let figures = beside(&first, &second);
    let (a, b) = (About::of(a, &first), About::of(b, &second));
    if parsed.common.json {
        ctx.json(&Comparison { a, b, figures });
        return Ok(Exit::DONE);
    }
    for (letter, About { file, machine, cpus, samples }) in [("A", a), ("B", b)] {
        let plural = |count: usize, noun: &str| {
            if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
        };
        let (cpus, samples) = (plural(cpus, "processor"), plural(samples, "sample"));
        ctx.out.line(format_args!("{letter}: {file} (machine {machine}, {cpus}, {samples})"));
    }
    ctx.out.text(&table(&figures).text());
    Ok(Exit::DONE)
}

impl<'a> About<'a> {
    fn of(file: &'a str, recording: &'a Recording) -> About<'a> {
        let Recording { machine, cpus, samples, .. } = recording;
        About { file, machine, cpus: *cpus, samples: *samples }
    }
}

fn load(file: &str) -> Result<Recording, Failure> {
    let cannot = |why: String| Complaint::new(format!("use recording {file}"), why);
    let text = read_log(Path::new(file)).map_err(cannot)?;
    let recording = parse(&text);
    Ok(recording.map_err(|error| cannot(error.to_string()).hint("cpustat --record FILE makes one"))?)
}
