//! Advice if another mechanism would serve the load better than sets: one shared set, or weights.
//!
//! First case: the sets are mostly idle, but some are repeatedly too small for a moment while others have idle CPUs. One shared set would
//! serve them better, because a planner moves a CPU only after it has measured that it is lacking.
//!
//! Second case: a set uses less than it has on average, but its threads wait briefly again and again, while another set would use all idle
//! CPUs: a service next to a batch job. With weights the service would have all CPUs when it needs them, and the batch job all of them
//! otherwise. (Waiting in a set that has idle CPUs on average is not demand, and should not be: further CPUs would be idle most of the
//! time.)

use crate::convert::{ratio, real};
use crate::{Demand, Frame, SetFrame, Waiting};
use millpond_model::{Nanos, PsetId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Time constant of the averages, in seconds.
const MEMORY: f64 = 30.0;

/// The minimum time of observation before any advice.
const SEEN: Nanos = Nanos::from_secs(10);

/// The fraction of intervals in which a set must have been too small.
const OFTEN: f64 = 0.1;

/// The largest used fraction of each set, and of the whole machine.
const IDLE: f64 = 0.5;

/// A set has enough CPUs if at most this fraction of them is used.
const ENOUGH: f64 = 2.0 / 3.0;

/// Waiting time of threads, as a fraction of their run time, above which they wait too long.
const WAITS: f64 = 0.05;

/// A set would use all idle CPUs if it was full for this fraction of the time.
const GREEDY: f64 = 0.5;

/// Recent averages of one set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Seen {
    size: f64,
    used: f64,
    /// The number of threads that waited for its CPUs.
    waited: f64,
    /// The fraction of the time in which nearly all its CPUs were busy.
    full: f64,
}

/// Recent averages of all sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Advice {
    /// The time of observation.
    seen: Nanos,
    /// The fraction of it in which a set was too small while others had idle CPUs.
    late: f64,
    sets: BTreeMap<PsetId, Seen>,
}

/// The weight of one interval in an average.
pub(super) fn fresh(frame: &Frame) -> f64 {
    1.0 - (-frame.elapsed.as_secs_f64() / MEMORY).exp()
}

impl Advice {
    /// Adds a frame with the demand of each set.
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

    /// The advice, if any. `mean_used` is indexed by set.
    pub fn text(&self, frame: &Frame, mean_used: &[f64]) -> Option<String> {
        // Early averages are divided by the part of the window that has been observed.
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

    /// The set whose threads wait longest relative to their run time although it has enough CPUs, if another set would use its idle CPUs.
    /// `part` is the observed part of the averaging window.
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
        // After 30 s, 0.632 of the averaging window is observed: a set was too small in 0.2 / 0.632 of it.
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
