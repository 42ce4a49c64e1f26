//! Preferences: CPUs that move for a utilization objective, and do no work.
//!
//! **What a preference may cost.** A CPU that moved for an objective is worth no CPU time. It is lent as a speculative grant is: its donor has it back in the
//! decision in which it needs it, at once and undoubted. Until that decision the donor's threads wait, and each move has its costs. So the machine saves a
//! small part of the work that it does, and preferences are paid out of these savings: a move when it is made, a wait when it happened. Nothing moves for a
//! preference that the savings could not bring back. Whatever the objectives, no more than that part of the work is lost.
//!
//! **What moves.** Only what no set needs, holds or wanted recently (`history`), and only in a decision in which nothing else is to be done. A set gets all
//! that it asks for, or nothing; a tenth of its size is noise.

use super::speculation::NOISE;
use super::view::SetView;
use crate::convert::{down, real};
use crate::{Frame, SetFrame};
use serde::{Deserialize, Serialize};

/// The part of the work that preferences may cost.
const PART: f64 = 0.005;

/// How long threads wait until a CPU is called back, in seconds: pressure ends an interval after a tenth.
const RECALL_S: f64 = 0.1;

/// CPU time, in seconds, that preferences may cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Savings(f64);

impl Savings {
    /// Takes in one frame: the work that was done, and what donors waited for what they lent.
    pub fn see(&mut self, frame: &Frame, views: &[SetView]) {
        let elapsed = frame.elapsed.as_secs_f64();
        let mut change = 0.0;
        for (set, view) in frame.sets.iter().zip(views) {
            let Some(demand) = view.demand else { continue };
            let lacks = (demand.wanted - real(set.size())).clamp(0.0, real(view.lent));
            change += elapsed * (PART * demand.used - lacks);
        }
        // No more than it takes to bring all CPUs back twice.
        self.0 = (self.0 + change).min(2.0 * real(frame.total()) * RECALL_S);
    }

    /// A batch was written for preferences.
    pub fn pay(&mut self, cost: f64) {
        self.0 -= cost;
    }

    /// How many CPUs may move now.
    fn affordable(self, frame: &Frame, views: &[SetView]) -> usize {
        let lent: usize = views.iter().map(|view| view.lent).sum();
        let left = self.0 - frame.costs.batch.as_secs_f64() - real(lent) * RECALL_S;
        down(left / (RECALL_S + frame.costs.cpu.as_secs_f64()))
    }

    /// How many CPUs more each set gets for its objectives, by place, and how many it would get if savings allowed it.
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
