//! The goals, one file for each group of lines.

mod caches;
mod classes;
mod demo;
mod fence;
mod gauge;
mod growth;
mod inside;
mod isolation;
mod latstat;
mod neighbour;
mod node;
mod pods;
mod pools;
mod prstat;
mod record;
mod sample;
mod sim;
mod stacks;
mod start;
mod tools;
mod top;

use crate::line::Line;
use crate::trial::Bench;

/// A group of goals.
#[derive(Clone, Copy)]
pub struct Group {
    /// Its name, for `--only`.
    pub name: &'static str,
    /// Measures it.
    pub measure: fn(&Bench) -> Vec<Line>,
}

/// All groups, in the order of a run.
pub const GROUPS: [Group; 21] = [
    Group { name: "start", measure: start::measure },
    Group { name: "tools", measure: tools::measure },
    Group { name: "neighbour", measure: neighbour::measure },
    Group { name: "sample", measure: sample::measure },
    Group { name: "prstat", measure: prstat::measure },
    Group { name: "top", measure: top::measure },
    Group { name: "record", measure: record::measure },
    Group { name: "gauge", measure: gauge::measure },
    Group { name: "node", measure: node::measure },
    Group { name: "pods", measure: pods::measure },
    Group { name: "latstat", measure: latstat::measure },
    Group { name: "stacks", measure: stacks::measure },
    Group { name: "caches", measure: caches::measure },
    Group { name: "sim", measure: sim::measure },
    Group { name: "growth", measure: growth::measure },
    Group { name: "pools", measure: pools::measure },
    Group { name: "inside", measure: inside::measure },
    Group { name: "classes", measure: classes::measure },
    Group { name: "fence", measure: fence::measure },
    Group { name: "isolation", measure: isolation::measure },
    Group { name: "demo", measure: demo::measure },
];
