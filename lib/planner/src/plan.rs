//! Moves of processors.

use millpond_model::{CpuId, PsetId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One processor changes sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Move {
    /// Which.
    pub cpu: CpuId,
    /// Where it is.
    pub from: PsetId,
    /// Where it goes.
    pub to: PsetId,
}

/// Moves in the order in which they may be made, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// None when everything stays.
    pub moves: Vec<Move>,
    /// In words, also of why nothing is moved.
    pub reason: String,
}

/// `3: 0 -> 1`.
impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.cpu, self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_names_the_processor_and_both_sets() {
        let one = Move { cpu: CpuId(3), from: PsetId(0), to: PsetId(1) };
        assert_eq!(one.to_string(), "3: 0 -> 1");
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"cpu":3,"from":0,"to":1}"#);
    }
}
