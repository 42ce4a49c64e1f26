//! Shows how many pages of thread stacks are resident on this machine, and compares with a published listing.
//!
//! A program reads the residency of its main stack, of a default thread stack, and of one that was written before its
//! thread began: when nothing, the lowest byte, and every page was touched. The published program ran on 32-bit Solaris
//! with 4 KB pages (2007). Sizes are those of this machine (`ulimit -s`).
//!
//! A stack of the real-time library `libmillpond_rt.so.0` is shown as well. The library is looked up in `--library` or
//! `MILLPOND_RT`, in `../lib` relative to this program, and by the dynamic loader.
//!
//! The program runs as a process of its own (`millpond load stacks`). Its main stack, if unlimited, is limited to 8 MB.
//! A default stack above 256 MB is not touched as a whole.
//!
//! # JSON
//!
//! The schema is docs/reference/json/experiment.json.

use super::family::{self, COMPARES, WITH_LIBRARY};
use crate::ctx::Ctx;
use crate::demo;
use crate::dress::Dress;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Common, Group, Spec};
use millpond_experiments::{Failure as Ended, e7};
use millpond_session::{Library, own_program, stop_on_signal};
use std::ffi::OsString;
use std::path::Path;

/// The description for its manual.
const E7: Spec = Spec {
    name: "experiment e7",
    summary: "stacks of threads, and how much of them is in memory",
    group: Group::Try,
    forms: &["[--library PATH] [--csv | --json]"],
    flags: WITH_LIBRARY,
    status: COMPARES,
    prose: millpond_cli::head!(include_str!("e7.rs")),
    ..Spec::NEW
};

const WHAT: &str = "run experiment e7";

/// Runs the experiment with the words after its name. `outer` are common options before the name.
pub(super) fn run(rest: &[OsString], outer: &Common, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some((given, common)) = family::parse("e7", &E7, rest, outer, ctx)? else { return Ok(Exit::DONE) };
    let dress = Dress::of(&given, common.json, &[Dress::Csv, Dress::Json])?;
    let named = common.machine.as_deref().filter(|name| *name != "real");
    if let Some(other) = named.or(common.root.as_ref().map(|_| "of a captured tree")) {
        let what = format!("{WHAT} on machine {other}");
        return Err(Complaint::new(what, "programs run on the real machine only").into());
    }
    let program = own_program().map_err(|why| Complaint::new(WHAT, why))?;
    let named = given.long_value("library");
    let library = Library::open(named.as_deref().map(Path::new));
    // A named library is required; the default one is optional.
    if let (Some(_), Err(absent)) = (&named, &library) {
        return Err(demo::failed(WHAT, Ended::NotHere(absent.clone())));
    }
    let e7 = e7::run(&program, library, stop_on_signal()).map_err(|failure| demo::failed(WHAT, failure))?;
    match dress {
        Dress::Json => ctx.json(&e7.json()),
        Dress::Csv => ctx.out.text(&e7.csv()),
        _ => ctx.out.text(&e7.text()),
    }
    Ok(Exit::DONE)
}
