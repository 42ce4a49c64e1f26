//! `cargo xtask test`, `install`, `packages`, `notes` and `pictures`: the programs behind the Makefile.
//!
//! # Why
//!
//! `cargo test --workspace` runs everything but ends with the count of the last crate, and skipped tests are lost in its output.
//! This program runs the same executables in groups, and ends with the executed and skipped tests, with reasons.
//!
//! # How it works
//!
//! ```text
//!   cargo test --no-run ──▶ messages ──▶ executables ──▶ groups ──▶ each run, its words tallied ──▶ table, one line
//! ```
//!
//! It runs the executables of a single build, and not `cargo test -p` once per group. So the features of all crates are unified
//! once, and nothing is compiled twice.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod cargo;
mod changed;
mod debug_info;
mod documents;
mod group;
mod install;
mod ledger;
mod matrix;
mod notes;
mod packages;
mod pictures;
mod run;
mod slowest;
mod suite;
mod table;
mod tally;
mod test;
mod whole;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask test [--suite commit|kernels|rt|cluster|pages|all] [--changed] [--all] [--only GROUP,…]
       cargo xtask install [--prefix DIR] [--destdir DIR] [--links yes|no|own]
       cargo xtask packages [--program FILE] [--libraries DIR] [--to DIR]
       cargo xtask notes [VERSION]
       cargo xtask pictures [FILE.svg ...]";

/// The parsed command line.
enum Task {
    Test(test::Wish),
    Install(install::Wish),
    Packages(packages::Wish),
    Notes(Option<String>),
    Pictures(Vec<String>),
}

fn main() -> ExitCode {
    let task = match read_arguments() {
        Ok(task) => task,
        Err(error) => {
            eprintln!("xtask: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match task {
        Task::Test(wish) => test::run(&wish),
        Task::Install(wish) => install::run(&wish),
        Task::Packages(wish) => packages::run(&wish),
        Task::Notes(version) => notes::run(version.as_deref()),
        Task::Pictures(names) => pictures::run(&names),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read_arguments() -> Result<Task, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let word = match parser.next()? {
        Some(Value(word)) => word.string()?,
        Some(other) => return Err(other.unexpected()),
        None => return Err("a task is missing".into()),
    };
    let mut task = match word.as_str() {
        "test" => Task::Test(test::Wish::default()),
        "install" => Task::Install(install::Wish::default()),
        "packages" => Task::Packages(packages::Wish::default()),
        "notes" => Task::Notes(None),
        "pictures" => Task::Pictures(Vec::new()),
        other => return Err(format!("there is no task `{other}`").into()),
    };
    while let Some(arg) = parser.next()? {
        match (&mut task, arg) {
            (Task::Test(wish), Long("all")) => wish.all = true,
            (Task::Test(wish), Long("changed")) => wish.changed = true,
            (Task::Test(wish), Long("suite")) => {
                let name = parser.value()?.string()?;
                wish.suite =
                    suite::Suite::named(&name).ok_or_else(|| format!("there is no suite `{name}`"))?;
            }
            (Task::Test(wish), Long("only")) => {
                wish.only = parser.value()?.string()?.split(',').map(str::to_owned).collect();
            }
            (Task::Install(wish), Long("prefix")) => wish.prefix = parser.value()?.into(),
            (Task::Install(wish), Long("destdir")) => wish.destdir = parser.value()?.into(),
            (Task::Install(wish), Long("links")) => {
                wish.links = match parser.value()?.string()?.as_str() {
                    "yes" => install::Links::Yes,
                    "no" => install::Links::No,
                    "own" => install::Links::Own,
                    other => return Err(format!("--links is yes, no or own, not `{other}`").into()),
                };
            }
            (Task::Packages(wish), Long("program")) => wish.built.program = parser.value()?.into(),
            (Task::Packages(wish), Long("libraries")) => wish.built.libraries = parser.value()?.into(),
            (Task::Packages(wish), Long("to")) => wish.to = parser.value()?.into(),
            (Task::Notes(version @ None), Value(name)) => *version = Some(name.string()?),
            (Task::Pictures(names), Value(name)) => names.push(name.string()?),
            (_, other) => return Err(other.unexpected()),
        }
    }
    if let Task::Test(wish) = &task
        && let Some(name) = wish.unknown()
    {
        return Err(format!("there is no group `{name}` here (see CONTRIBUTING.md)").into());
    }
    Ok(task)
}
