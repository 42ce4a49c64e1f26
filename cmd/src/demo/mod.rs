//! Runs two programs on this machine, mixed, with CPU caps and in pools, and compares their speeds. It takes a minute.
//!
//! ```text
//! $ millpond demo | tail -1
//! speed-up: 12.4x (each job at 0.98 of alone)
//! ```
//!
//! The threads of each job spin at a barrier. The first and last arm run one job alone in a set. Between them both jobs
//! run mixed on all CPUs, then with CPU caps, then each in a pool with half of the machine. Each arm shows the speeds
//! and on which CPUs threads ran. At the end both run in pools that resize: job a stops, the pool of b grows, and a
//! starts again.
//!
//! The demo moves no other program: its pools keep others (`pooladm -e --keep-others`). Every change is undone, also
//! after an interrupt; after `kill -9` the next demo undoes it. Where pools or processor sets are in use, it refuses to
//! run.
//!
//! Without root rights, programs set their own affinity, and caps and pools are left out.
//!
//! # JSON
//!
//! The schema is docs/reference/json/demo.json.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::dress::Dress;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use crate::values;
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec, ValueKind};
use millpond_experiments::Facts;
use millpond_experiments::demo::{self, Demo, Event, Options};
use millpond_session::{own_program, stop_on_signal};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Demo>(), json::of::<Outline>()];

/// The demo's plan (`--dry-run`).
#[derive(Serialize, JsonSchema)]
struct Outline {
    /// Always true.
    dry_run: bool,
    machine: Facts,
    /// A sentence for each arm.
    arms: Vec<String>,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "demo",
        summary: "run two programs mixed and in pools, and compare their speeds",
        group: Group::Try,
        forms: &["[--seconds N] [--svg]"],
        flags: &[
            Flag::long(
                "seconds",
                "seconds per arm in which both jobs run (8), and per phase at the end (at least 3)",
            )
            .value("n", ValueKind::Text),
            Flag::long("svg", "draw the Mop/s of each job in each arm as SVG, and print no text"),
        ],
        examples: &[
            Example { words: "", what: "run the demonstration, which takes a minute" },
            Example { words: "--svg", what: "the same as a picture" },
        ],
        status: &[("0", "done"), ("1", "it was refused or interrupted"), MISUSED],
        see_also: &["poolstat(1)", "poolbind(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The action, in error messages.
const MAIN: &str = "run the demo";

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let seconds = values::number(parsed, "seconds", 1, 3600)?;
    let dress = Dress::of(parsed, parsed.common.json, &[Dress::Json, Dress::Svg])?;
    let session = ctx.changing(&parsed.common)?;
    let program = own_program().map_err(|why| Complaint::new(MAIN, why))?;
    let stop = stop_on_signal();
    let mut options = Options::new(&program, stop);
    if let Some(seconds) = seconds {
        options.together_seconds = seconds;
        options.alone_seconds = seconds.div_ceil(2);
        options.phase_seconds = seconds.max(3);
    }
    if parsed.common.dry_run {
        let (facts, sentences) =
            demo::outline(&session, &options).map_err(|failure| failed(MAIN, failure))?;
        if dress == Dress::Json {
            ctx.json(&Outline { dry_run: true, machine: facts, arms: sentences });
        } else {
            ctx.out.line(format_args!("machine: {}\njobs: {}", facts.text(), demo::JOBS));
            sentences.iter().for_each(|sentence| ctx.out.line(sentence));
        }
        return Ok(Exit::DONE);
    }
    let text = dress == Dress::Text;
    let result = demo::run(&session, &options, &mut |event| {
        tell(event, text, &options, ctx);
        if ctx.out.is_closed() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let Some(demo) = unless_closed(MAIN, result, ctx)? else { return Ok(Exit::DONE) };
    match dress {
        Dress::Json => ctx.json(&demo),
        Dress::Svg => ctx.out.text(&demo.svg()),
        _ => ctx.out.text(&demo.summary()),
    }
    Ok(Exit::DONE)
}

/// The result of an experiment. `None` if it stopped because its output was closed, which is no failure.
pub(crate) fn unless_closed<T>(
    what: &str,
    result: Result<T, millpond_experiments::Failure>,
    ctx: &Ctx<'_>,
) -> Result<Option<T>, Failure> {
    match result {
        Err(millpond_experiments::Failure::Stopped) if ctx.out.is_closed() => Ok(None),
        result => result.map(Some).map_err(|failure| failed(what, failure)),
    }
}

/// Reports progress: on standard output if text is the result, else on standard error.
pub(crate) fn tell(event: Event<'_>, text: bool, options: &Options<'_>, ctx: &mut Ctx<'_>) {
    let told = match event {
        Event::Machine(facts) => {
            let seconds = options.total_seconds() + 2;
            format!("machine: {}\njobs: {}\nabout {seconds} seconds\n\n", facts.text(), demo::JOBS)
        }
        Event::Begin(sentence) => format!("{sentence}\n"),
        Event::Done(arm) => arm.text() + "\n",
        Event::Story(story) => story.text() + "\n",
        Event::Note(note) => return ctx.warn(note),
    };
    if text {
        ctx.out.text(&told);
        ctx.out.flush();
    } else if matches!(event, Event::Machine(_) | Event::Begin(_)) {
        ctx.err.text(&told);
    }
}

/// Converts the failure of an experiment.
pub(crate) fn failed(what: &str, failure: millpond_experiments::Failure) -> Failure {
    use millpond_experiments::Failure::{Pools, Program, Refused};
    match failure {
        Pools { what, error } => {
            let hint = error.hint.clone();
            Complaint { hint, ..Complaint::new(what, error.to_string()) }.into()
        }
        Refused { what, refusal } => Complaint::refused(&what, |_| None, &refusal).into(),
        Program { program, why } => Complaint::new(format!("run {program}"), why).into(),
        other => {
            let hint = other.hint().map(str::to_owned);
            Complaint { hint, ..Complaint::new(what, other.to_string()) }.into()
        }
    }
}
