//! Object caches of `rt/rt`, and the malloc on top of them, compared with other allocators: C programs that do the same work with each.
//!
//! Allocators are loaded by `LD_PRELOAD`; caches are called through the exports of the shared library. In a pair, all of them
//! run once, interleaved. The peer is the fastest of the others in that pair.

mod allocators;
mod checked;
mod latency;
mod programs;
mod speed;

use crate::line::Line;
use crate::trial::Bench;

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = speed::measure(bench);
    lines.extend(programs::measure(bench));
    lines.extend(checked::measure(bench));
    lines.extend(latency::measure(bench));
    lines
}
