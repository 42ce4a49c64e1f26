//! Timer wake-up latency: `latstat` compared with cyclictest, interleaved on the same CPU with the same priority.
//!
//! A pair is a run of `latstat --compare cyclictest`, which alternates between both, so that both see the same conditions.
//! Cyclictest counts whole microseconds, rounded down; latstat has nanoseconds. With stages, BPF programs take timestamps,
//! which adds to the latency. Without stages, latstat measures exactly as cyclictest does.

use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, find_program, told};
use serde_json::Value;
use std::process::Stdio;

/// Length of a pair, both programs together.
const DURATION: &str = "24s";
const FIGURES: [&str; 4] = ["median", "p99", "p99.99", "max"];
const PEER: &str = "cyclictest";
const GOAL: Goal = Goal::RatioAtMost(1.0);

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let ways: [(&str, &[&str]); 2] = [("latstat", &[]), ("latstat --plain", &["--plain"])];
    ways.iter().flat_map(|(name, words)| way(bench, name, words)).collect()
}

fn way(bench: &Bench, name: &str, words: &[&str]) -> Vec<Line> {
    let line = |figure: &str| format!("{name}: {figure} of the whole");
    match turns(bench, words) {
        Ok(found) => FIGURES
            .iter()
            .zip(found)
            .map(|(figure, pairs)| Line::of(&line(figure), PEER, "us", &pairs, GOAL))
            .collect(),
        Err(why) => {
            FIGURES.iter().map(|figure| Line::unresolvable(&line(figure), PEER, GOAL, &why)).collect()
        }
    }
}

/// Pairs of each figure.
fn turns(bench: &Bench, words: &[&str]) -> Result<[Pairs; FIGURES.len()], Trouble> {
    find_program(PEER)?;
    let mut found: [Pairs; FIGURES.len()] = Default::default();
    for _ in 0..bench.pairs {
        let run = ["latstat", "--json", "--keep-others", "--duration", DURATION, "--compare", PEER];
        let mut command = bench.command(&[&run[..], words].concat());
        let output = told("run latstat", command.stderr(Stdio::piped()).output())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("latstat failed: {}", said.lines().next().unwrap_or("it said nothing")));
        }
        let value: Value = told("read what latstat says", serde_json::from_slice(&output.stdout))?;
        for (figure, pairs) in FIGURES.iter().zip(&mut found) {
            let of = |whose: &str| value["compare"]["figures"][figure][whose].as_f64();
            // A quantile may be undefined for so few samples.
            if let (Some(ours), Some(theirs)) = (of("ours"), of("theirs")) {
                pairs.push(ours / 1e3, theirs / 1e3);
            }
        }
    }
    Ok(found)
}
