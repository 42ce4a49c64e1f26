//! Checks the laws on this machine: real kernel, real processes, a journal file.
//!
//! For virtual machines only: it creates exclusive sets, takes CPUs off-line and moves interrupts. It runs only with
//! `--i-own-this-machine`.
//!
//! ```text
//! live-laws --i-own-this-machine [--cases N] [--seed N]
//! live-laws puppet SOCKET            (its child processes, which obey commands)
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod puppet;
mod subject;

use millpond_machine::laws;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["puppet", socket] => puppet::run(socket),
        ["--i-own-this-machine", rest @ ..] => run(rest),
        _ => {
            eprintln!("usage: live-laws --i-own-this-machine [--cases N] [--seed N]");
            ExitCode::from(2)
        }
    }
}

fn option(words: &[&str], name: &str, otherwise: u64) -> u64 {
    let at = words.iter().position(|w| *w == name);
    at.and_then(|i| words.get(i + 1)?.parse().ok()).unwrap_or(otherwise)
}

fn run(words: &[&str]) -> ExitCode {
    let cases = u32::try_from(option(words, "--cases", 10)).unwrap_or(10);
    let mut subject = match subject::Live::new() {
        Ok(subject) => subject,
        Err(why) => {
            eprintln!("live-laws: cannot begin: {why}");
            return ExitCode::from(1);
        }
    };
    let report = laws::run_in_place(&mut subject, cases, option(words, "--seed", 1));
    print!("{report}");
    // A few scripts after a boot meet only some situations, but every checked law must hold.
    if report.kept() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
