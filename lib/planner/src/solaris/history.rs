//! The decision history of poold(8) of Solaris: the results of earlier moves.

use crate::convert::real;
use millpond_model::Move;
use serde::{Deserialize, Serialize};

/// The number of samples for which a move is remembered.
const LIFE: u32 = 256;

/// An earlier move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Past {
    made: Move,
    /// Utilization of the receiver before the move, percent.
    utilization: f64,
    /// Size of the receiver after the move.
    size: usize,
    /// Samples since the move.
    age: u32,
    /// Measured less expected utilization of the receiver; none until there is a valid sample.
    improvement: Option<f64>,
}

/// Moves by CPU, donor and receiver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct History(Vec<Past>);

impl History {
    /// Remembers a move. It replaces an earlier one of the same CPU between the same sets.
    pub fn record(&mut self, made: Move, utilization: f64, size: usize) {
        self.forget(made);
        self.0.push(Past { made, utilization, size, age: 0, improvement: None });
    }

    /// Removes a move that was not made.
    pub fn forget(&mut self, made: Move) {
        self.0.retain(|past| past.made != made);
    }

    /// Counts one more sample.
    pub fn grow_older(&mut self) {
        self.0.iter_mut().for_each(|past| past.age = past.age.saturating_add(1));
        self.0.retain(|past| past.age <= LIFE);
    }

    /// With valid samples, judges moves that are not judged yet by the utilization of the receiver.
    pub fn judge(&mut self, utilization: impl Fn(&Move) -> Option<f64>) {
        for past in self.0.iter_mut().filter(|past| past.improvement.is_none()) {
            let size = real(past.size);
            let expected = if past.size == 0 { 0.0 } else { past.utilization * (size - 1.0) / size };
            past.improvement = utilization(&past.made).map(|found| found - expected);
        }
    }

    /// Whether the same move made things worse the last time. As in Solaris, utilization of the receiver below the expected one counts as worse.
    pub fn vetoes(&self, wanted: Move) -> bool {
        self.0.iter().any(|past| past.made == wanted && past.improvement.is_some_and(|by| by < 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, PsetId};

    const MADE: Move = Move { cpu: CpuId(3), from: PsetId(0), to: PsetId(1) };

    fn history(found: f64) -> History {
        let mut history = History::default();
        history.record(MADE, 90.0, 3);
        history.judge(|_| Some(found));
        history
    }

    #[test]
    fn less_than_expected_is_a_veto() {
        // 90 % on two CPUs is 60 % on three.
        assert!(history(59.9).vetoes(MADE));
        assert!(!history(60.1).vetoes(MADE));
        assert!(!history(59.9).vetoes(Move { cpu: CpuId(4), ..MADE }));
    }

    #[test]
    fn what_is_not_judged_yet_or_was_not_made_is_no_veto() {
        let mut history = History::default();
        history.record(MADE, 90.0, 3);
        assert!(!history.vetoes(MADE));
        history.judge(|_| None);
        history.judge(|_| Some(10.0));
        assert!(history.vetoes(MADE));
        history.judge(|_| Some(99.0));
        assert!(history.vetoes(MADE), "a move is judged once");
        history.forget(MADE);
        assert!(!history.vetoes(MADE));
    }

    #[test]
    fn a_move_is_remembered_for_256_samples() {
        let mut history = history(10.0);
        (0..256).for_each(|_| history.grow_older());
        assert!(history.vetoes(MADE));
        history.grow_older();
        assert!(!history.vetoes(MADE));
    }
}
