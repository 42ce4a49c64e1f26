//! One frame for the Solaris policy: statistics of each set, and the violated objectives.

use super::event::{Event, Found};
use super::formulas::{is_violated, share, target};
use super::samples::Samples;
use crate::convert::real;
use crate::{Frame, SetFrame};
use millpond_model::pools::{Importance, Objective};

/// A set's utilization and its standard deviation, percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    pub utilization: f64,
    pub sigma: f64,
}

/// One frame.
#[derive(Debug)]
pub(super) struct View<'f> {
    pub frame: &'f Frame,
    /// By index of the set in the frame. None unless all sets have valid samples.
    pub values: Option<Vec<Value>>,
    /// The share of each set for `wt-load`; all 0 without valid samples.
    pub shares: Vec<usize>,
    pub total: usize,
}

impl<'f> View<'f> {
    pub fn new(frame: &'f Frame, samples: &[Samples]) -> View<'f> {
        let value = |set: &SetFrame| {
            if set.cpus.is_empty() {
                return Some(Value { utilization: 0.0, sigma: 0.0 });
            }
            let samples = samples.iter().find(|samples| samples.set == set.id)?;
            let utilization = samples.last().filter(|_| samples.are_valid())?;
            Some(Value { utilization, sigma: samples.sigma() })
        };
        let values: Option<Vec<Value>> = frame.sets.iter().map(value).collect();
        let total = frame.total();
        let used = |(set, value): (&SetFrame, &Value)| value.utilization / 100.0 * real(set.size());
        let busy: Vec<f64> = frame.sets.iter().zip(values.iter().flatten()).map(used).collect();
        let all: f64 = busy.iter().sum();
        let mut shares: Vec<usize> = busy.iter().map(|busy| share(*busy, all, total)).collect();
        shares.resize(frame.sets.len(), 0);
        View { frame, values, shares, total }
    }

    /// Whether there are workload-dependent objectives that can be evaluated.
    pub fn minds_workload(&self) -> bool {
        let is_utilization = |set: &SetFrame| {
            set.objectives.iter().any(|weighted| matches!(weighted.objective, Objective::Utilization(..)))
        };
        self.values.is_some()
            && (self.frame.wt_load().is_some() || self.frame.sets.iter().any(is_utilization))
    }

    /// The utilization objectives of the set at index `at`, with their importance, targets and measured values.
    pub fn utilization(&self, at: usize) -> impl Iterator<Item = (Importance, f64, Value)> + '_ {
        let value = self.values.as_ref().map(|values| values[at]);
        self.frame.sets[at].objectives.iter().filter_map(move |weighted| match (weighted.objective, value) {
            (Objective::Utilization(bound, percent), Some(value)) => {
                Some((weighted.importance, target(bound, percent, value.sigma), value))
            }
            _ => None,
        })
    }

    /// The violated objectives.
    pub fn complaints(&self) -> Vec<Event> {
        let Some(values) = &self.values else { return Vec::new() };
        let mut complaints = Vec::new();
        if let Some(importance) = self.frame.wt_load() {
            for (set, share) in self.frame.sets.iter().zip(&self.shares) {
                if *share != set.size() && *share >= set.min {
                    let (desired, actual) = (*share, set.size());
                    let set = set.name.clone();
                    complaints.push(Event::WtLoadNotSatisfied { set, importance, desired, actual });
                }
            }
        }
        for (set, value) in self.frame.sets.iter().zip(values).filter(|(set, _)| !set.cpus.is_empty()) {
            let violated = found(set, value.utilization).into_iter();
            let violated =
                violated.filter(|f| is_violated(f.bound, f.percent, value.utilization, value.sigma));
            complaints.extend(violated.map(Event::UtilizationNotSatisfied));
        }
        complaints
    }

    /// Whether a set or the system has locality objectives and no others.
    pub fn has_locality_alone(&self) -> bool {
        let alone = |set: &SetFrame| {
            let is_locality = |o: &Objective| matches!(o, Objective::Locality(_));
            !set.objectives.is_empty() && set.objectives.iter().all(|w| is_locality(&w.objective))
        };
        self.frame.sets.iter().any(alone)
    }
}

/// The utilization objectives of a set, as the log prints them.
pub(super) fn found(set: &SetFrame, utilization: f64) -> Vec<Found> {
    let one = |weighted: &millpond_model::pools::Weighted| match weighted.objective {
        Objective::Utilization(bound, percent) => {
            let (set, importance) = (set.name.clone(), weighted.importance);
            Some(Found { set, importance, bound, percent, utilization })
        }
        _ => None,
    };
    set.objectives.iter().filter_map(one).collect()
}
