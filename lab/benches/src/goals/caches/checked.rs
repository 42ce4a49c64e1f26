//! Cost of checking for errors: a program with many small objects under `UMEM_DEBUG=default`, under valgrind's memcheck, and built with
//! AddressSanitizer.

use super::allocators::{MALLOC, build, library, numbers};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, find_program};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Five times as fast as memcheck.
const GOAL: Goal = Goal::RatioAtMost(0.2);
const NAME: &str = "a program with UMEM_DEBUG=default";
const ROUNDS: &str = "40";

pub(super) fn measure(bench: &Bench) -> Vec<Line> {
    let source = include_str!("../../../peer/words.c");
    let prepared = build(bench, "words", source, &[]).and_then(|words| Ok((words, library(bench, MALLOC)?)));
    let (program, library) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return vec![Line::unresolvable(NAME, "valgrind memcheck", GOAL, &why)],
    };
    let ours = || time(Command::new(&program).env("LD_PRELOAD", &library).env("UMEM_DEBUG", "default"));
    let valgrind = find_program("valgrind");
    let memcheck = beside(bench.pairs, ours, || {
        time(
            Command::new(valgrind.as_ref().map_err(Trouble::clone)?)
                .args(["-q", "--leak-check=no"])
                .arg(&program),
        )
    });
    let asan = build(bench, "words-asan", source, &["-fsanitize=address"]);
    let sanitized = beside(bench.pairs, ours, || {
        time(Command::new(asan.as_ref().map_err(Trouble::clone)?).env("ASAN_OPTIONS", "detect_leaks=0"))
    });
    let plain = beside(bench.pairs, ours, || time(&mut Command::new::<&Path>(program.as_ref())));
    [
        ("valgrind memcheck", memcheck, GOAL),
        ("the address sanitizer of cc", sanitized, Goal::None),
        ("the C library's malloc", plain, Goal::None),
    ]
    .into_iter()
    .map(|(peer, found, goal)| Line::found(NAME, peer, "ms", found, goal))
    .collect()
}

fn beside(
    pairs: usize,
    ours: impl Fn() -> Result<f64, Trouble>,
    peer: impl Fn() -> Result<f64, Trouble>,
) -> Result<Pairs, Trouble> {
    let mut found = Pairs::default();
    for _ in 0..pairs {
        found.push(ours()?, peer()?);
    }
    Ok(found)
}

/// Milliseconds for all rounds.
fn time(command: &mut Command) -> Result<f64, Trouble> {
    let begin = Instant::now();
    numbers(command.arg(ROUNDS))?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}
