//! Results of the story: sizes of both pools over time, speeds, and how long changes took.

use crate::timeline::{Sizes, text};
use schemars::JsonSchema;
use serde::Serialize;

/// The jobs.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// A figure, and its number of decimals for display.
pub(super) type Told = Option<(f64, usize)>;

/// The results with resizing pools. Times are seconds since the start of both jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Story {
    /// Why this part was left out, if it was.
    pub left_out: Option<String>,
    /// Sizes of both pools, at each change.
    pub sizes: Vec<Sizes>,
    /// Time of the end.
    pub end: Option<f64>,
    /// Mop/s: both jobs run, b runs alone, both run again.
    pub phases: Vec<Phase>,
    /// The change after a stopped.
    pub stopped: Option<Moved>,
    /// The change after a started again.
    pub returned: Option<Moved>,
}

/// One of three phases.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Mop/s of a, if it runs.
    pub a: Option<f64>,
    /// Mop/s of b.
    pub b: Option<f64>,
}

/// A change of the running jobs, and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Moved {
    /// Time of the change.
    pub at: f64,
    /// CPUs of the pools of a and b in the end.
    pub sizes: [u64; 2],
    /// Seconds until the pools had these sizes.
    pub seconds: f64,
    /// Threads of b in the end.
    pub threads: Option<u64>,
    /// Seconds until b had this many threads.
    pub threads_seconds: Option<f64>,
    /// Whether the sizes are as expected: everything to b, or the initial sizes.
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
