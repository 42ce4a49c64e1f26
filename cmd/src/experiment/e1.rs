//! Runs a two-way TCP stream with and without a no-intr processor set on this machine, and compares with a published
//! result.
//!
//! There are three runs, each watched by mpstat: without a set; outside a no-intr set of the first half of the CPUs;
//! and inside it. The published machine had 32 CPUs with one gigabit link (2006).
//!
//! Without `--full` the set keeps other threads, and `psrset -f` is only shown, as by `--dry-run`: interrupts stay.
//! `--full` and `--nics` say that nothing else uses this machine. `--nics` takes two network devices from the system
//! during the run. Every change is undone, also after an interrupt.
//!
//! `--machine t2000` repeats the experiment on a simulated machine with the CPUs of the published one, within a minute;
//! its options: `millpond experiment e1 --machine t2000 --help`. `--machine vm` prints the command that runs it in a virtual machine with two network devices.
//!
//! # JSON
//!
//! The schema is docs/reference/json/experiment.json.

use super::family::{self, COMPARES};
use crate::ctx::Ctx;
use crate::demo;
use crate::dress::Dress;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Common, Flag, Group, Spec, ValueKind};
use millpond_experiments::e1::{self, Event, Options, Published};
use millpond_session::{own_program, stop_on_signal};
use std::ffi::OsString;
use std::sync::atomic::Ordering;

/// The description for its manual.
pub(super) const E1: Spec = Spec {
    name: "experiment e1",
    applet: false,
    summary: "processor sets and interrupts: on this machine, or on a simulated one",
    section: 1,
    group: Group::Try,
    forms: &["[--seconds N] [--nics A,B] [--full] [--svg]", "--machine t2000 [option ...]"],
    flags: &[
        Flag::long("seconds", "how long each phase is measured (10)").value("n", ValueKind::Text),
        Flag::long(
            "nics",
            "stream between these two network devices, which must be joined outside; \
                 without it, over the loopback",
        )
        .value("a,b", ValueKind::Text),
        Flag::long(
            "full",
            "this machine is the experiment's own: make the set exclusive, and move interrupts",
        ),
        Flag::long("svg", "draw the stream's speed in each phase, in place of the text"),
    ],
    status: COMPARES,
    prose: millpond_cli::head!(include_str!("e1.rs")),
    ..Spec::NEW
};

/// Runs the experiment with the words after its name. `outer` are common options before the name.
pub(super) fn run(rest: &[OsString], outer: &Common, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some((given, common)) = family::parse("e1", &E1, rest, outer, ctx)? else { return Ok(Exit::DONE) };
    if common.machine.as_deref() == Some("vm") {
        let complaint = Complaint::new(
            "run experiment e1 on machine vm",
            "virtual machines are booted from the source tree",
        );
        return Err(complaint
            .hint("there: cargo run --release -p millpond-vm --example e1 -- --seconds 10")
            .into());
    }
    let nics = given.long_value("nics");
    let nics = nics.as_deref().map(pair).transpose()?;
    let seconds = family::seconds(&given)?.unwrap_or(10);
    let dress = Dress::of(&given, common.json, &[Dress::Json, Dress::Svg])?;
    let session = ctx.changing(&common)?;
    let program = own_program().map_err(|why| Complaint::new("run experiment e1", why))?;
    let stop = stop_on_signal();
    let options =
        Options { program: &program, stop, seconds, nics, full: given.long("full") || nics.is_some() };
    let published = Published::read();
    let text = dress == Dress::Text;
    let result = e1::run(&session, &options, &mut |event| {
        tell(event, text, &published, ctx);
        if ctx.out.is_closed() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let Some(e1) = demo::unless_closed("run experiment e1", result, ctx)? else { return Ok(Exit::DONE) };
    match dress {
        Dress::Json => ctx.json(&e1.json(&published)),
        Dress::Svg => ctx.out.text(&e1.svg()),
        _ => ctx.out.text(&e1.summary(&published)),
    }
    Ok(Exit::DONE)
}

/// Parses a pair of names: `eth0,eth1`.
fn pair(text: &str) -> Result<[&str; 2], Failure> {
    match text.split_once(',') {
        Some((near, far)) if !near.is_empty() && !far.is_empty() && near != far && !far.contains(',') => {
            Ok([near, far])
        }
        _ => Err(Failure::Operand(format!("cannot use --nics {text}: it is not of the form eth0,eth1"))),
    }
}

/// Reports progress: on standard output if text is the result, else on standard error.
fn tell(event: Event<'_>, text: bool, published: &Published, ctx: &mut Ctx<'_>) {
    let told = match event {
        Event::Machine(facts, set) => format!("machine: {}\nthe set: CPUs {set}\n\n", facts.text()),
        Event::Begin(sentence) => format!("{sentence}\n"),
        Event::Done(number, phase) => {
            let figures = published.phases.get(number).cloned().unwrap_or_default();
            phase.text(&figures) + "\n"
        }
        Event::Note(note) => return ctx.warn(note),
    };
    if text {
        ctx.out.text(&told);
        ctx.out.flush();
    } else if !matches!(event, Event::Done(..)) {
        ctx.err.text(&told);
    }
}
