//! Units of time.

/// Nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;
