//! Kinds of elements of a configuration.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What sort of element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementKind {
    /// The whole.
    System,
    /// A pool.
    Pool,
    /// A processor set.
    Pset,
    /// A processor.
    Cpu,
}

impl ElementKind {
    /// The word for it, which also begins the names of its properties.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ElementKind::System => "system",
            ElementKind::Pool => "pool",
            ElementKind::Pset => "pset",
            ElementKind::Cpu => "cpu",
        }
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
