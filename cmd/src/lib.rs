//! The commands.
//!
//! # Nouns
//!
//! A [`Command`] is a description (`millpond_cli::Spec`: name, options, forms, examples, manual) and a function.
//! Each has a folder. The head of the folder's module is the text of its manual. An *applet* is a command that can be
//! called by its own name, as on Solaris; the others are words behind `millpond`.
//!
//! # How a command runs
//!
//! ```text
//!   words ──cli::parse──▶ Parsed ──▶ command.run(&Parsed, &mut Ctx) ──▶ Exit, or a Failure that ends it
//!                                        │ ctx.reading(..) or ctx.changing(..) opens the machine
//!                                        │ change::Changer: prepare, commit (or show the steps), report
//! ```
//!
//! The whole command line is parsed first: an invalid word ends the command with status 2 and an unchanged machine.
//! Then the operations are applied. A refused one is reported on standard error and makes the status 1; independent
//! later ones are still applied.
//!
//! # Adding a command
//!
//! Create a folder with a `mod.rs` whose head is the manual, a `run` function, and a `COMMAND`; add it to
//! [`COMMANDS`] in `table.rs`; write its transcript under `tests/golden/transcripts` first. Help, manual page, completions
//! and the installed names come from the description.
//!
//! This crate uses machines only through `millpond_machine`, opens no file, and prints only through [`Ctx`].

#![cfg_attr(
    not(all(feature = "top", feature = "export")),
    allow(dead_code, reason = "some functions are used by these commands only")
)]

mod bindings;
mod caps;
mod capture;
mod change;
mod command;
mod compare;
mod complete;
mod cores;
mod counting;
mod cpustat;
mod cputrack;
mod ctx;
mod demo;
mod diagnose;
mod dispadmin;
mod doctor;
mod dress;
mod elsewhere;
mod experiment;
#[cfg(feature = "export")]
mod export;
mod failure;
mod fence;
mod help;
mod interval;
mod intrstat;
mod json;
mod latstat;
mod lgroups;
mod lgrpinfo;
mod load;
mod mpstat;
mod occupancy;
mod operands;
mod pbind;
mod pginfo;
mod pgstat;
mod plgrp;
mod pooladm;
mod poolbind;
mod poolcfg;
mod pools;
mod poolstat;
mod posix;
mod prctl;
mod priocntl;
mod processor_groups;
mod prstat;
mod psradm;
mod psrinfo;
mod psrset;
mod quiet;
mod readiness;
mod record;
mod recordings;
pub mod remedy;
mod replay;
mod sim;
mod stamp;
mod start;
mod table;
#[cfg(feature = "top")]
mod top;
mod umem;
mod values;
mod whatif;
mod zonecfg;
mod zones;

pub use command::Command;
pub use ctx::Ctx;
pub use failure::Exit;
pub use table::{COMMANDS, schemas};

use std::ffi::OsString;

/// Runs the command that the words name; see [`command::run`].
pub fn run(words: &[OsString], ctx: &mut Ctx<'_>) -> Exit {
    ctx.use_commands(COMMANDS);
    command::run(words, ctx)
}
