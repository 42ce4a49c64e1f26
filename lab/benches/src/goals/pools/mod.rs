//! Pools: cost of a decision, cost of poold, reaction time to demand, and cost of pool changes.

mod changes;
mod daemon;
mod place;
mod planner;
mod reaction;
mod turn;

use crate::line::Line;
use crate::trial::Bench;

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = planner::measure(bench);
    lines.extend(turn::measure(bench));
    lines.extend(daemon::measure(bench));
    lines.extend(reaction::measure(bench));
    lines.extend(changes::measure(bench));
    lines
}
