//! Readings of event counters at an instant.

use crate::Nanos;

/// What a group of counters counted, cumulated since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// A count for each counter.
    pub values: Vec<u64>,
    /// How long they were wanted.
    pub wanted: Nanos,
    /// How long they really counted: less where others had the counters meanwhile.
    pub counting: Nanos,
}
