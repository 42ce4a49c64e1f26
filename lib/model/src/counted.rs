//! Readings of event counters at an instant.

use crate::Nanos;

/// The counts of a group of counters, cumulated since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// One count per counter.
    pub values: Vec<u64>,
    /// The time for which the group was enabled.
    pub wanted: Nanos,
    /// The time for which it counted; shorter than `wanted` if the hardware counters were multiplexed.
    pub counting: Nanos,
}
