//! Preferences: CPUs that move for a utilization objective, and do no work.
//!
//! **The budget.** A CPU that moves for an objective gains no CPU time. It is lent like a speculative grant: its donor gets it back in the
//! decision in which it needs it, at once and without hold. Until that decision the threads of the donor wait, and each move has its cost.
//! So the policy saves a small part of the work that the machine does, and pays for preferences from these savings: a move when it is made,
//! a wait when it happens. Nothing moves for a preference unless the savings also cover its return. For any objectives, no more than that
//! part of the work is lost.
//!
//! **The moves.** Only CPUs that no set needs, holds or wanted recently (`history`) move, and only in a decision without any other move. A
//! set gets all CPUs that it asks for, or none; less than a tenth of its size is noise.

use super::speculation::NOISE;
use super::view::SetView;
use crate::convert::{down, real};
use crate::{Frame, SetFrame};
use serde::{Deserialize, Serialize};

/// The part of the work that preferences may cost.
const PART: f64 = 0.005;

/// The time that threads wait for the return of a CPU, in seconds: with pressure an interval ends after 100 ms.
const RECALL_S: f64 = 0.1;

/// CPU time, in seconds, that preferences may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Savings(f64);

impl Savings {
    /// Adds one frame: a part of the work done, less the time that donors waited for CPUs that they lent.
    pub fn see(&mut self, frame: &Frame, views: &[SetView]) {
        let elapsed = frame.elapsed.as_secs_f64();
        let mut change = 0.0;
        for (set, view) in frame.sets.iter().zip(views) {
            let Some(demand) = view.demand else { continue };
            let lacks = (demand.wanted - real(set.size())).clamp(0.0, real(view.lent));
            change += elapsed * (PART * demand.used - lacks);
        }
        // The limit: enough to return all CPUs twice.
        self.0 = (self.0 + change).min(2.0 * real(frame.total()) * RECALL_S);
    }

    /// Pays for a batch of preferences.
    pub fn pay(&mut self, cost: f64) {
        self.0 -= cost;
    }

    /// The number of CPUs that may move now.
    fn affordable(self, frame: &Frame, views: &[SetView]) -> usize {
        let lent: usize = views.iter().map(|view| view.lent).sum();
        let left = self.0 - frame.costs.batch.as_secs_f64() - real(lent) * RECALL_S;
        down(left / (RECALL_S + frame.costs.cpu.as_secs_f64()))
    }

    /// The number of further CPUs for each set by its objectives, and the number without the limit of the savings.
    pub fn grants(self, frame: &Frame, views: &[SetView]) -> (Vec<usize>, Vec<usize>) {
        let lacks = |(set, view): (&SetFrame, &SetView)| {
            let (size, target) = (set.size(), view.preferred.min(view.ask.preferred));
            let lacks = target.saturating_sub(size);
            if real(lacks) > NOISE * real(size) { lacks } else { 0 }
        };
        let all: Vec<usize> = frame.sets.iter().zip(views).map(lacks).collect();
        let mut left = self.affordable(frame, views);
        let give = |lacks: &usize| {
            let gets = if *lacks <= left { *lacks } else { 0 };
            left -= gets;
            gets
        };
        (all.iter().map(give).collect(), all)
    }
}
