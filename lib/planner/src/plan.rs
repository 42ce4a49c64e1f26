//! Plans: moves of CPUs, and the reason for them.

use millpond_model::Move;
use serde::{Deserialize, Serialize};

/// Moves in an order in which they are valid, and the reason for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Empty when all CPUs stay.
    pub moves: Vec<Move>,
    /// The reason as text, also when nothing is moved.
    pub reason: String,
}
