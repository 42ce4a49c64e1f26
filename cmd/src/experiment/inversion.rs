//! A low, a middle and a high thread meet on one processor of the machine at hand: under a plain lock, and under one with priority inheritance.
//!
//! The low thread takes a lock, the high one wants it, and the middle one computes without it for 20, 60 and 180 ms. Under the plain lock the high one waits as
//! long as the middle one likes; under the other one for the 10 ms that the low one has the lock. All three are of the class FIFO and of the last
//! processor that this program may use, for less than a second in all. It needs the right to real-time classes. An experiment of our own.
//!
//! The locks are those of the library for real-time programs, `libmillpond_rt.so.0`: the one that is named by `--library` or by `MILLPOND_RT`, else one beside
//! this program (`../lib`), else the one that the system's loader finds. `make install` installs it.
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
//! `=` has the lock, `-` waits for it, `#` computes without it; below stands a table.
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

/// What its manual is made from.
const INVERSION: Spec = Spec {
    name: "experiment inversion",
    summary: "three threads and a lock, on the machine at hand",
    group: Group::Experiments,
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

/// Runs it with the words behind its name; `outer` are common options in front of that.
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
