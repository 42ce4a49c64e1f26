//! Measures what Millpond promises about speed: one line per goal.
//!
//! # Why
//!
//! A promise about speed must be measured. Each goal has a number, and is compared with a peer or a lower bound in the same
//! run, in pairs, one right after the other: a figure of one machine says little, a ratio says much.
//!
//! # How to read a line
//!
//! ```text
//! name | ours | peer: its figure | ratio | 95 % interval | pairs | goal | result
//! ```
//! Our figure and the peer's are medians; the ratio is the median of the ratios within pairs, ours divided by the peer's. A goal is
//! *met* when the whole interval meets it, *MISSED* when the whole interval misses it, and otherwise *unresolvable*. A goal that cannot be
//! measured on this machine is unresolvable too, with the reason. Bad results are never left out.
//!
//! # Effects on the machine
//!
//! It creates sets with shared CPUs, starts its own programs, and removes all of it. Measurements that would affect others (exclusive sets,
//! interrupts) run in a virtual machine, where only ratios are meaningful.
//!
//! ```text
//! millpond-benches [--pairs N] [--only NAME]... [--json] [--pictures DIR] [--kernel ID]
//! ```
//! Pictures: `growth.svg` of the group of that name (cost of an event of a simulated machine, by size of the machine),
//! `planner.svg` of the group `pools` (cost of a decision, by number of CPUs and pools), and `isolation.svg` (disturbances of
//! reserved CPUs, by the way they are reserved). The binary under test is the `millpond` next to this program, or
//! `--millpond PROGRAM`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is for a person to read")]

mod goals;
mod guest;
mod line;
mod stats;
mod trial;

use goals::GROUPS;
use line::{HEAD, Line};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use trial::Bench;

/// The default number of pairs of a comparison.
const PAIRS: usize = 20;

struct Words {
    only: Vec<String>,
    pairs: usize,
    json: bool,
    millpond: Option<PathBuf>,
    pictures: Option<PathBuf>,
    kernel: Option<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let inside: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("guest", words)) = inside.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        if let Some(value) = guest::run(words)? {
            println!("{value}");
        }
        return Ok(());
    }
    let Some(words) = parse()? else {
        println!("{}", help());
        return Ok(());
    };
    let own = std::env::current_exe()?;
    let scratch = tempfile::tempdir()?;
    let millpond = words.millpond.unwrap_or_else(|| own.with_file_name("../program/millpond"));
    let bench = Bench {
        millpond,
        own,
        pairs: words.pairs,
        scratch: scratch.path().to_owned(),
        pictures: words.pictures,
        kernel: words.kernel,
    };
    if !bench.millpond.is_file() {
        return Err(format!("there is no {}\nhint: make build", bench.millpond.display()).into());
    }
    if !words.json {
        println!("{HEAD}");
    }
    let mut lines: Vec<Line> = Vec::new();
    for group in GROUPS {
        if !words.only.is_empty() && !words.only.iter().any(|name| name == group.name) {
            continue;
        }
        eprintln!("bench: {}", group.name);
        for line in (group.measure)(&bench) {
            if !words.json {
                println!("{}", line.text());
            }
            lines.push(line);
        }
    }
    if words.json {
        println!("{}", serde_json::to_string(&lines.iter().map(Line::json).collect::<Vec<_>>())?);
    }
    Ok(())
}

/// The text of `--help`: the usage, and the groups by name.
fn help() -> String {
    let groups: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
    format!(
        "usage: millpond-benches [--pairs N] [--only GROUP]... [--json] [--millpond PROGRAM]
       [--pictures DIR] [--kernel ID]

Measures each promise about speed beside a peer or a floor of the same run, in N pairs ({PAIRS}).
A line is: name | ours | peer: its figure | ratio | 95 % interval | pairs | goal | result

groups: {}
--pictures   write growth.svg, planner.svg and isolation.svg there, of the groups growth, pools and isolation
--kernel     measure the group isolation on this kernel alone: 6.17
--millpond   the program to measure; the one beside this one when not given",
        groups.join(", ")
    )
}

/// The parsed command line; `None` for the help.
fn parse() -> Result<Option<Words>, Box<dyn Error>> {
    use lexopt::prelude::{Long, Short, ValueExt};
    let mut words =
        Words { only: Vec::new(), pairs: PAIRS, json: false, millpond: None, pictures: None, kernel: None };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("json") => words.json = true,
            Long("pairs") => words.pairs = parser.value()?.parse()?,
            Long("kernel") => words.kernel = Some(parser.value()?.string()?),
            Long("pictures") => words.pictures = Some(parser.value()?.into()),
            Long("millpond") => words.millpond = Some(parser.value()?.into()),
            Long("only") => {
                let name = parser.value()?.string()?;
                if !GROUPS.iter().any(|group| group.name == name) {
                    let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
                    return Err(format!("there is no goal {name}\nhint: {}", names.join(", ")).into());
                }
                words.only.push(name);
            }
            other => return Err(format!("{}\nhint: millpond-benches --help", other.unexpected()).into()),
        }
    }
    Ok(Some(words))
}
