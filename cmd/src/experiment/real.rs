//! Runs two jobs on this machine with and without pools, and compares with published experiments.
//!
//! `e2` has these arms: each job alone, both on all CPUs, both with CPU caps, each in a pool of its own, and the same
//! with threads that block at barriers. Each arm shows the speeds of the jobs, and where their threads were in percent
//! of samples. Then, as in `e3` alone, both run in pools that resize: job a stops, the pool of b grows, and a starts
//! again.
//!
//! The pools keep other threads (`pooladm -e --keep-others`). Every change is undone, also after an interrupt; after
//! `kill -9` the next experiment undoes it. Where pools or processor sets are in use, it refuses to run.
//!
//! # JSON
//!
//! The JSON of `millpond demo`, without the comparison if one of its arms was not selected.

use super::family::{self, COMPARES};
use crate::ctx::Ctx;
use crate::demo;
use crate::dress::Dress;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Common, Flag, Group, Spec, ValueKind};
use millpond_experiments::demo::{Options, run as play};
use millpond_experiments::e2;
use millpond_session::{own_program, stop_on_signal};
use std::ffi::OsString;
use std::sync::atomic::Ordering;

/// The description for its manual.
pub(super) const REAL: Spec = Spec {
    name: "experiment e2 --machine real",
    applet: false,
    summary: "two jobs share the machine at hand",
    section: 1,
    group: Group::Try,
    forms: &["[--arm NAME,...] [--seconds N] [--svg]"],
    flags: &[
        Flag::long(
            "arm",
            "with e2: nothing, caps, pools, nothing-blocking, pools-blocking, beside the \
                 job alone; all, and then the story of e3",
        )
        .value("name,...", ValueKind::Text),
        Flag::long("seconds", "how long each arm, and each phase of the story, is measured (10)")
            .value("n", ValueKind::Text),
        Flag::long("svg", "a picture: with e2 Mop/s in each arm, with e3 the sizes of pools over time"),
    ],
    status: COMPARES,
    prose: millpond_cli::head!(include_str!("real.rs")),
    ..Spec::NEW
};

/// Runs `e2` or `e3` with the words after its name. `outer` are common options before the name.
pub(super) fn run(name: &str, rest: &[OsString], outer: &Common, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some((given, common)) = family::parse(name, &REAL, rest, outer, ctx)? else { return Ok(Exit::DONE) };
    let dress = Dress::of(&given, common.json, &[Dress::Json, Dress::Svg])?;
    let words = given.long_value("arm");
    if words.is_some() && name != "e2" {
        return Err(Failure::Usage(format!("experiment {name} has no arms on a real machine")));
    }
    let words: Vec<&str> = words.iter().flat_map(|words| words.split(',')).collect();
    let acts = match name {
        "e2" => e2::real::acts(&words).map_err(|word| {
            let known = e2::real::words().join(", ");
            Failure::Operand(format!("cannot use --arm {word}: it is none of {known}"))
        })?,
        _ => Vec::new(),
    };
    let seconds = family::seconds(&given)?.unwrap_or(10);
    let session = ctx.changing(&common)?;
    let what = format!("run experiment {name}");
    let program = own_program().map_err(|why| Complaint::new(what.as_str(), why))?;
    let stop = stop_on_signal();
    let options = Options {
        acts: &acts,
        together_seconds: seconds,
        alone_seconds: seconds,
        phase_seconds: if words.is_empty() { seconds } else { 0 },
        ..Options::new(&program, stop)
    };
    let text = dress == Dress::Text;
    let result = play(&session, &options, &mut |event| {
        demo::tell(event, text, &options, ctx);
        if ctx.out.is_closed() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let Some(played) = demo::unless_closed(&what, result, ctx)? else { return Ok(Exit::DONE) };
    match (dress, name) {
        (Dress::Json, _) => ctx.json(&played),
        (Dress::Svg, "e3") => ctx.out.text(&played.sizes_svg()),
        (Dress::Svg, _) => ctx.out.text(&played.svg()),
        (_, "e2") => ctx.out.text(&e2::real::summary(&played)),
        _ => {}
    }
    Ok(Exit::DONE)
}
