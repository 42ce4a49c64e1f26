//! Plans: moves of CPUs, and why.

use millpond_model::Move;
use serde::{Deserialize, Serialize};

/// Moves in the order in which they may be made, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// None when everything stays.
    pub moves: Vec<Move>,
    /// In words, also of why nothing is moved.
    pub reason: String,
}
