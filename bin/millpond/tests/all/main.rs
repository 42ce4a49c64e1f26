//! Tests of the program as a process, in one executable. Tests that change this machine or load all of it are in
//! another one.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod browser;
mod captured;
mod completion;
mod diagnose;
mod dry_run;
mod follow;
mod gauge;
mod hostile_completion;
mod latstat;
mod limits;
mod names;
mod poold;
mod processor_groups;
mod program;
mod prstat;
mod record;
mod reference;
mod shell;
mod top;
mod topology;
