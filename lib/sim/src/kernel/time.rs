//! Units of time.

/// Nanoseconds per second.
pub(super) const SECOND: u64 = 1_000_000_000;
