//! Advice where another mechanism would serve better than sets: one shared set, or weights.
//!
//! Sets that are mostly idle, and yet too small again and again for a moment while others have CPUs to spare, would be served better if they
//! shared: no planner moves a CPU before it has seen that it is lacking.
//!
//! The same holds of a set in which threads wait for each other's CPUs for a moment again and again, while on average it has more than enough and
//! another set would use whatever it has: a service beside a batch job. By a weight the one would have all CPUs when it needs them, and the other
//! all when it does not. (What threads wait in a set that has idle CPUs on average is no demand, and should be none: more CPUs
//! would stand idle most of the time.)

use crate::convert::{ratio, real};
use crate::{Demand, Frame, SetFrame, Waiting};
use millpond_model::{Nanos, PsetId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Over how long is averaged.
const MEMORY: f64 = 30.0;

/// What must have been seen before anything is said.
const SEEN: Nanos = Nanos::from_secs(10);

/// How often a set must have been too small, of all intervals.
const OFTEN: f64 = 0.1;

/// How much of each set, and of the whole, may be used at most.
const IDLE: f64 = 0.5;

/// A set has more than enough when at most this part of it is used.
const ENOUGH: f64 = 2.0 / 3.0;

/// So much of the time that threads run they may wait.
const WAITS: f64 = 0.05;

/// A set would use whatever it has when it was full for this part of the time.
const GREEDY: f64 = 0.5;

/// What was seen lately of one set: averages over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Seen {
    size: f64,
    used: f64,
    /// How many threads waited for its CPUs.
    waited: f64,
    /// In what part of the time hardly a CPU was idle.
    full: f64,
}

/// What was seen lately.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Advice {
    /// For how long.
    seen: Nanos,
    /// In what part of it a set was too small while others had enough.
    late: f64,
    sets: BTreeMap<PsetId, Seen>,
}

/// How much one interval counts in an average.
pub(super) fn fresh(frame: &Frame) -> f64 {
    1.0 - (-frame.elapsed.as_secs_f64() / MEMORY).exp()
}

impl Advice {
    /// Takes in a frame: what each set would have used.
    pub fn see(&mut self, frame: &Frame, all: &[Option<Demand>]) {
        let demands: Vec<Option<f64>> = all.iter().map(|demand| demand.map(|d| d.wanted)).collect();
        let lacks = frame.sets.iter().zip(&demands);
        let lacks = lacks.filter(|(set, demand)| demand.is_some_and(|d| d > real(set.size()) + 0.5)).count();
        let wanted: f64 = demands.iter().flatten().sum();
        let is_late = lacks > 0 && wanted <= real(frame.total());
        let share = fresh(frame);
        self.sets.retain(|id, _| frame.set(*id).is_some());
        for (set, demand) in frame.sets.iter().zip(all) {
            let Some(demand) = demand else { continue };
            let seen = self.sets.entry(set.id).or_default();
            let waited = match set.waiting {
                Waiting::Threads(time) | Waiting::Any(time) => ratio(time, frame.elapsed),
                Waiting::Unknown => 0.0,
            };
            let full = f64::from(u8::from(demand.is_saturated && !set.cpus.is_empty()));
            let now = [real(set.size()), demand.used, waited, full];
            let means = [&mut seen.size, &mut seen.used, &mut seen.waited, &mut seen.full];
            means.into_iter().zip(now).for_each(|(mean, now)| *mean += share * (now - *mean));
        }
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
        if self.seen < SEEN {
            return None;
        }
        if late < OFTEN || !are_idle || used >= IDLE * real(total) || frame.sets.len() < 2 {
            return self.by_weight(frame, part);
        }
        Some(format!(
            "one shared set would serve these loads better: {used:.1} of {total} CPUs are used on average, \
             and yet in {:.0} % of all intervals a set was too small for a moment while others had CPUs to spare",
            100.0 * late
        ))
    }

    /// The set in which threads wait most for what they run, though it has more than enough, beside another that would use what is idle there.
    /// Averages have seen `part` of their time.
    fn by_weight(&self, frame: &Frame, part: f64) -> Option<String> {
        let seen = |set: &SetFrame| self.sets.get(&set.id).copied().unwrap_or_default();
        let waits = |seen: Seen| if seen.used > 0.0 { seen.waited / seen.used } else { 0.0 };
        let is_late = |seen: Seen| seen.used > 0.0 && seen.used <= ENOUGH * seen.size && waits(seen) >= WAITS;
        let greedy = frame.sets.iter().find(|set| seen(set).full >= GREEDY * part)?;
        let late = frame.sets.iter().filter(|set| set.id != greedy.id && is_late(seen(set)));
        let set = late.max_by(|a, b| waits(seen(a)).total_cmp(&waits(seen(b))))?;
        let Seen { size, used, .. } = seen(set);
        Some(format!(
            "sharing by weights (cpu.weight) would serve {} better than a set of its own: it uses {:.1} of {:.1} CPUs on average, and yet its \
             threads wait {:.0} % of the time that they run, while {} would use whatever is idle",
            set.name,
            used / part,
            size / part,
            100.0 * waits(seen(set)),
            greedy.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{frame, set};

    #[test]
    fn one_set_that_is_busy_on_average_speaks_against_a_shared_one() {
        let frame = frame(vec![set(0, "0-3"), set(1, "4-31")]);
        // After 30 s an average has seen 0.632 of its time: a set was too small in 0.2 / 0.632 of it.
        let advice = Advice { seen: Nanos::from_secs(30), late: 0.2, ..Advice::default() };
        assert_eq!(
            advice.text(&frame, &[1.2, 1.0]).as_deref(),
            Some(
                "one shared set would serve these loads better: 3.5 of 32 CPUs are used on average, and yet in 32 % of all intervals a set was \
                 too small for a moment while others had CPUs to spare"
            )
        );
        // 1.5 / 0.632 is 2.4 of four CPUs, which is more than half of them.
        assert_eq!(advice.text(&frame, &[1.5, 1.0]), None);
    }
}
