//! Whether pools are the right thing at all.
//!
//! Sets that are mostly idle, and yet too small again and again for a moment while others have processors to spare, would be served better if they
//! shared: no planner moves a processor before it has seen that it is lacking.

use crate::Frame;
use crate::num::real;
use millpond_model::Nanos;
use serde::{Deserialize, Serialize};

/// Over how long is averaged.
const MEMORY: f64 = 30.0;

/// What must have been seen before anything is said.
const SEEN: Nanos = Nanos::from_secs(10);

/// How often a set must have been too small, of all intervals.
const OFTEN: f64 = 0.1;

/// How much of each set, and of the whole, may be used at most.
const IDLE: f64 = 0.5;

/// What was seen lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Advice {
    /// For how long.
    seen: Nanos,
    /// In what part of it a set was too small while others had enough.
    late: f64,
}

/// How much one interval counts in an average.
pub(super) fn fresh(frame: &Frame) -> f64 {
    1.0 - (-frame.elapsed.as_secs_f64() / MEMORY).exp()
}

impl Advice {
    /// Takes in a frame: what each set would have used.
    pub fn see(&mut self, frame: &Frame, demands: &[Option<f64>]) {
        let lacks = frame.sets.iter().zip(demands);
        let lacks = lacks.filter(|(set, demand)| demand.is_some_and(|d| d > real(set.size()) + 0.5)).count();
        let all: f64 = demands.iter().flatten().sum();
        let is_late = lacks > 0 && all <= real(frame.total());
        let share = fresh(frame);
        self.late += share * (f64::from(u8::from(is_late)) - self.late);
        self.seen = self.seen + frame.elapsed;
    }

    /// What to say, if anything. `mean_used` is by set.
    pub fn text(&self, frame: &Frame, mean_used: &[f64]) -> Option<String> {
        // An average that has not seen its whole time is that of what it has seen.
        let part = 1.0 - (-self.seen.as_secs_f64() / MEMORY).exp();
        let late = if part > 0.0 { self.late / part } else { 0.0 };
        let used = mean_used.iter().sum::<f64>() / part.max(f64::MIN_POSITIVE);
        let is_idle = |(set, used): (&crate::SetFrame, &f64)| {
            set.cpus.is_empty() || used / part.max(f64::MIN_POSITIVE) < IDLE * real(set.size())
        };
        let are_idle = frame.sets.iter().zip(mean_used).all(is_idle);
        let total = frame.total();
        if self.seen < SEEN || late < OFTEN || !are_idle || used >= IDLE * real(total) || frame.sets.len() < 2
        {
            return None;
        }
        Some(format!(
            "one shared set would serve these loads better: {used:.1} of {total} processors are used on average, \
             and yet in {:.0} % of all intervals a set was too small for a moment while others had processors to spare",
            100.0 * late
        ))
    }
}
