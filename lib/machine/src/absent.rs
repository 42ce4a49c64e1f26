//! Absence: why a machine does not have a facet, a counter or an ability, and a remedy.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A facet, counter or feature that this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Absent {
    /// The reason, as the second half of a sentence: `the kernel has no cpuset controller`.
    pub why: String,
    /// A remedy, if one is known.
    pub what_would_help: Option<String>,
}

impl Absent {
    /// Without a remedy.
    #[must_use]
    pub fn because(why: impl Into<String>) -> Self {
        Absent { why: why.into(), what_would_help: None }
    }

    /// With a remedy.
    #[must_use]
    pub fn with_help(why: impl Into<String>, help: impl Into<String>) -> Self {
        Absent { why: why.into(), what_would_help: Some(help.into()) }
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Absent {}
