//! Waits for timers: histograms by stage, what made the longest ones long, and a text that keeps both.
//!
//! # Rules
//!
//! * A histogram has three digits from a nanosecond to an hour: what it gives is at most a thousandth above what was measured.
//! * Rows are the stages and the whole. A sample whose stages were not seen counts in the whole only, and is counted apart.
//! * A quantile that fewer samples lie beyond than one is not told: p99.99 of 1,000 samples would be the longest one in disguise.
//! * Histograms of several runs merge in any order to the same. Those of timerlat and those of our own timers do not merge: their stages are not the same.

mod culprit;
mod histograms;
mod intervals;
mod saved;
mod source;

pub use culprit::{Culprit, Worst, culprits};
pub use histograms::{Latencies, QUANTILES, Row};
pub use intervals::{INTERVALS, primes_near};
pub use saved::{Mixed, Saved, SavedError};
pub use source::Source;
