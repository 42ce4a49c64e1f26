//! The source of timers and stages, and the rows that follow from it.

use millpond_model::LATENCY_ROWS;
use serde::{Deserialize, Serialize};

/// The source of the timers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Timers of latstat; its BPF programs time the stages, if loaded.
    #[default]
    Latstat,
    /// Timers of the kernel's timerlat tracer.
    Timerlat,
}

/// The rows of timerlat: it does not tell when the thread was woken, so that one row has both stages until the thread got its CPU.
const TIMERLAT: [(usize, &str); 4] = [(0, "irq"), (2, "thread"), (3, "user"), (4, "total")];

impl Source {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Latstat => "latstat",
            Source::Timerlat => "timerlat",
        }
    }

    /// Its rows, in the order of time: the number of each among [`LATENCY_ROWS`], and what it is called. The whole is the last one.
    #[must_use]
    pub fn rows(self) -> Vec<(usize, &'static str)> {
        match self {
            Source::Latstat => LATENCY_ROWS.into_iter().enumerate().collect(),
            Source::Timerlat => TIMERLAT.to_vec(),
        }
    }

    /// The same without the whole.
    #[must_use]
    pub fn stages(self) -> Vec<(usize, &'static str)> {
        let mut rows = self.rows();
        rows.pop();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_timerlat_are_ours_but_for_the_two_that_are_one() {
        let ours = Source::Latstat.rows();
        assert_eq!(ours.last(), Some(&(millpond_model::LATENCY_STAGES, "total")));
        for (row, name) in Source::Timerlat.rows() {
            assert!(ours.contains(&(row, name)) || (row, name) == (2, "thread"), "{name}");
        }
        assert_eq!(Source::Timerlat.stages(), [(0, "irq"), (2, "thread"), (3, "user")]);
    }
}
