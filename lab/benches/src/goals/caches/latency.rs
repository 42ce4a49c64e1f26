//! Maximum allocation latency of a real-time thread while other threads allocate as fast as they can: percentiles of a histogram with sixteen
//! steps per power of two, as in HDR histograms.

use super::allocators::{MALLOC, build, library, numbers};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble};
use std::path::Path;
use std::process::Command;

const FIGURES: [&str; 6] = ["p50", "p99", "p99.9", "p99.99", "p99.999", "max"];
const PEER: &str = "the C library's malloc";
/// Maximum size; the minimum is 16 bytes.
const SIZE: &str = "8000";
/// Number of competing threads.
const OTHERS: &str = "4";
const ROUNDS: &str = "300000";

pub(super) fn measure(bench: &Bench) -> Vec<Line> {
    let name =
        |figure: &str| format!("free and malloc at real-time priority beside {OTHERS} threads: {figure}");
    match beside(bench) {
        Ok(found) => FIGURES
            .iter()
            .zip(found)
            .map(|(figure, pairs)| Line::of(&name(figure), PEER, "ns", &pairs, Goal::None))
            .collect(),
        Err(why) => {
            FIGURES.iter().map(|figure| Line::unresolvable(&name(figure), PEER, Goal::None, &why)).collect()
        }
    }
}

fn beside(bench: &Bench) -> Result<[Pairs; FIGURES.len()], Trouble> {
    let program = build(bench, "alloc-worst", include_str!("../../../peer/alloc.c"), &[])?;
    let library = library(bench, MALLOC)?;
    let run = |preload: Option<&Path>| {
        let mut command = Command::new(&program);
        command.args(["malloc", "worst", SIZE, OTHERS, ROUNDS]);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        numbers(&mut command)
    };
    let mut found: [Pairs; FIGURES.len()] = Default::default();
    for _ in 0..bench.pairs {
        let (ours, peer) = (run(Some(&library))?, run(None)?);
        for ((pairs, ours), peer) in found.iter_mut().zip(&ours).zip(&peer) {
            pairs.push(*ours, *peer);
        }
    }
    Ok(found)
}
