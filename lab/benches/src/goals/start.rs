//! Start-up: from the start of the binary to the first byte of output, compared with the minimum cost of a start.

use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, find_program, run_ms, told};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

const NAME: &str = "psrinfo: start to first output";
const PEER: &str = "true, start to end";
const GOAL: Goal = Goal::OursAtMost(5.0);

/// Measures this goal.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let line = Line::found(NAME, PEER, "ms", pairs(bench), GOAL);
    vec![line]
}

fn pairs(bench: &Bench) -> Result<Pairs, Trouble> {
    let floor = find_program("true")?;
    let mut pairs = Pairs::default();
    // Load both into memory before measuring.
    first_output_ms(bench)?;
    run_ms(&mut Command::new(&floor))?;
    for _ in 0..bench.pairs {
        let ours = first_output_ms(bench)?;
        pairs.push(ours, run_ms(&mut Command::new(&floor))?);
    }
    Ok(pairs)
}

fn first_output_ms(bench: &Bench) -> Result<f64, Trouble> {
    let begin = Instant::now();
    let mut child = told(
        "start psrinfo",
        bench.command(&["psrinfo"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn(),
    )?;
    let mut first = [0_u8; 1];
    let read = child.stdout.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut first));
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    drop(child.stdout.take());
    let _ = child.wait();
    match told("read what psrinfo says", read)? {
        0 => Err("psrinfo says nothing".into()),
        _ => Ok(ms),
    }
}
