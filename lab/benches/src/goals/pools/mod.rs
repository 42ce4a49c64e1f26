//! Pools: what a decision costs, what poold costs, how soon a set has what its programs want, and what changing pools costs.

mod changes;
mod daemon;
mod place;
mod planner;
mod reaction;
mod turn;

use crate::line::Line;
use crate::trial::Bench;

/// The lines of these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = planner::measure(bench);
    lines.extend(turn::measure(bench));
    lines.extend(daemon::measure(bench));
    lines.extend(reaction::measure(bench));
    lines.extend(changes::measure(bench));
    lines
}
