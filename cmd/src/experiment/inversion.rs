//! Measures priority inversion on this machine: three threads on one CPU, with a plain lock and with priority
//! inheritance.
//!
//! ```text
//! plain, the middle one computes 20 ms
//!   high    |-------=
//!   middle  |#####
//!   low     |=======
//!
//! inherits, the middle one computes 20 ms
//!   high    |--=
//!   middle  |   #####
//!   low     |==
//! ```
//!
//! `=` holds the lock, `-` waits for it, `#` computes without it. A table follows.
//!
//! The low thread takes the lock for 10 ms and the high one wants it, while the middle one computes for 20, 60 and 180
//! ms. Under a plain lock the high one waits for the middle one; with inheritance for 10 ms. All three are SCHED_FIFO,
//! on the last CPU that this program may use, for less than a second in total. That needs the right to real-time classes.
//!
//! The locks are those of the real-time library `libmillpond_rt.so.0`. It is looked up in `--library` or `MILLPOND_RT`,
//! in `../lib` relative to this program, and by the dynamic loader. `make install` installs it.
//!
//! # JSON
//!
//! ```text
//! {"experiment":"inversion","library":"libmillpond_rt.so.0",
//!  "meetings":[{"lock":"plain","middle_ms":20,"waited_ms":30.1,"inverted":true,
//!               "events":[{"thread":"low","event":"wants","ns":1000}]}]}
//! ```

use super::family::{self, WITH_LIBRARY};
use crate::ctx::Ctx;
use crate::demo;
use crate::dress::Dress;
use crate::failure::{Exit, Failure};
use millpond_cli::{Common, Group, MISUSED, Spec};
use millpond_experiments::inversion;
use std::ffi::OsString;

/// The description for its manual.
const INVERSION: Spec = Spec {
    name: "experiment inversion",
    summary: "three threads and a lock, on the machine at hand",
    group: Group::Try,
    forms: &["[--library PATH] [--csv | --json]"],
    flags: WITH_LIBRARY,
    status: &[
        ("0", "done; a figure that differs from the published one is no failure"),
        ("1", "it cannot be done here"),
        MISUSED,
    ],
    prose: millpond_cli::head!(include_str!("inversion.rs")),
    ..Spec::NEW
};

/// Runs the experiment with the words after its name. `outer` are common options before the name.
pub(super) fn run(rest: &[OsString], outer: &Common, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some((given, common)) = family::parse("inversion", &INVERSION, rest, outer, ctx)? else {
        return Ok(Exit::DONE);
    };
    let is_elsewhere = common.machine.as_deref().is_some_and(|machine| machine != "real");
    if is_elsewhere || common.root.is_some() || common.state.is_some() {
        let why = "experiment inversion runs threads on the machine at hand, and on no other";
        return Err(Failure::Usage(why.into()));
    }
    let dress = Dress::of(&given, common.json, &[Dress::Csv, Dress::Json])?;
    let what = "run experiment inversion";
    let library = family::library(what, &given)?;
    let found = inversion::run(&library).map_err(|failure| demo::failed(what, failure))?;
    match dress {
        Dress::Json => ctx.json(&found.json()),
        Dress::Csv => ctx.out.text(&found.csv()),
        _ => ctx.out.text(&found.text()),
    }
    Ok(Exit::DONE)
}
