//! Experiments with the scheduler of the classes on a real kernel: the vectors of the reference, shares beside those of the simulator, and changes at
//! random.
//!
//! For virtual machines only, with `millpond schedd --whole` at work. `vectors` and `shares` need a machine with one CPU whose clock counts
//! instructions, so that a slice is as long as it is. The vectors are of Solaris' rule for wake-ups (`--parity 0`).
//!
//! ```text
//! live-classes --i-own-this-machine vectors
//! live-classes --i-own-this-machine shares [SECONDS]
//! live-classes --i-own-this-machine churn SECONDS
//! live-classes act WORD                (what it starts)
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod actor;
mod churn;
mod shares;
mod stage;
mod vectors;

use std::process::ExitCode;

/// What an experiment finds: a sentence with its figures, or why it is not as it should be.
type Outcome = Result<String, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["act", what] => actor::act(what),
        ["--i-own-this-machine", "vectors"] => told(vectors::all()),
        ["--i-own-this-machine", "shares"] => told(shares::all(shares::SECONDS)),
        ["--i-own-this-machine", "shares", seconds] => match seconds.parse() {
            Ok(seconds) => told(shares::all(seconds)),
            Err(_) => usage(),
        },
        ["--i-own-this-machine", "churn", seconds] => match seconds.parse() {
            Ok(seconds) => told(churn::all(seconds)),
            Err(_) => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: live-classes --i-own-this-machine vectors|shares [SECONDS]|churn SECONDS");
    ExitCode::from(2)
}

/// Prints what came of each experiment.
fn told(outcomes: impl Iterator<Item = (String, Outcome)>) -> ExitCode {
    let mut failed = 0_usize;
    for (name, outcome) in outcomes {
        match outcome {
            Ok(figures) => println!("ok      {name}: {figures}"),
            Err(why) => {
                println!("FAILED  {name}: {why}");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
