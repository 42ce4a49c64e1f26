//! Results of the story: sizes of both pools over time, speeds, and how long changes took.

use crate::timeline::{Sizes, text};
use schemars::JsonSchema;
use serde::Serialize;

/// The jobs.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// A figure, and its number of decimals for display.
pub(super) type Told = Option<(f64, usize)>;

/// What came of it. Times are seconds since both jobs were begun.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Story {
    /// Why it was left out, if it was.
    pub left_out: Option<String>,
    /// Sizes of both pools, whenever they changed.
    pub sizes: Vec<Sizes>,
    /// When it was over.
    pub end: Option<f64>,
    /// Mop/s of both while both ran, while b was alone, and while both ran again.
    pub phases: Vec<Phase>,
    /// What happened when a stopped.
    pub stopped: Option<Moved>,
    /// What happened when it started again.
    pub returned: Option<Moved>,
}

/// One of three phases.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Phase {
    /// What goes on.
    pub name: String,
    /// Mop/s of a, if it runs.
    pub a: Option<f64>,
    /// Mop/s of b.
    pub b: Option<f64>,
}

/// A change of what goes on, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Moved {
    /// When.
    pub at: f64,
    /// How many CPUs the pools of a and b had in the end.
    pub sizes: [u64; 2],
    /// How many seconds it took until they had them.
    pub seconds: f64,
    /// How many threads b ran in the end.
    pub threads: Option<u64>,
    /// How many seconds it took until it did.
    pub threads_seconds: Option<f64>,
    /// Whether that is what was hoped for: everything to b, or what each had at first.
    pub is_right: bool,
}

impl Story {
    /// A story that is impossible here.
    #[must_use]
    pub fn left_out(why: &str) -> Story {
        Story { left_out: Some(why.to_owned()), ..Story::default() }
    }

    /// Names and Mop/s of the phases.
    pub(super) fn speeds(&self) -> Vec<(String, Told, Told)> {
        let told = |mops: Option<f64>| mops.map(|mops| (mops, 1));
        self.phases.iter().map(|phase| (phase.name.clone(), told(phase.a), told(phase.b))).collect()
    }

    /// The results as text, below the description.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(why) = &self.left_out {
            return format!("  left out: {why}\n");
        }
        let mut told: String = text(&NAMES, &self.sizes).lines().map(|line| format!("  {line}\n")).collect();
        let speed = |phase: usize| self.phases.get(phase).and_then(|phase| phase.b);
        for (moved, what, phase) in [(&self.stopped, "a stopped", 1), (&self.returned, "a started again", 2)]
        {
            let Some(moved) = moved else { continue };
            let [a, b] = moved.sizes;
            told += &format!("  {what} at {:.1} s: {a} and {b} CPUs after {:.2} s", moved.at, moved.seconds);
            if let (Some(threads), Some(seconds)) = (moved.threads, moved.threads_seconds) {
                let noun = if threads == 1 { "thread" } else { "threads" };
                told += &format!(", {threads} {noun} of b after {seconds:.2} s");
            }
            if let (Some(before), Some(after)) = (speed(phase - 1), speed(phase)) {
                told += &format!("; b from {before:.1} to {after:.1} Mop/s");
            }
            told += if moved.is_right { "\n" } else { " (not what it should be)\n" };
        }
        told
    }
}
