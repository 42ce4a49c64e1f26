//! Object caches of `rt/rt`, and the malloc over them, beside other allocators: programs in C that do the same with each.
//!
//! Allocators come by `LD_PRELOAD`; caches are called by the names that the shared library exports. In a pair all of them run once, interleaved; the peer
//! is the quickest of the others in that pair.

mod allocators;
mod checked;
mod latency;
mod programs;
mod speed;

use crate::line::Line;
use crate::trial::Bench;

/// The lines of these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = speed::measure(bench);
    lines.extend(programs::measure(bench));
    lines.extend(checked::measure(bench));
    lines.extend(latency::measure(bench));
    lines
}
