//! Kinds of elements of a configuration.

use serde::{Deserialize, Serialize};

crate::words! {
    /// The kind of an element.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ElementKind {
        /// The system.
        System = "system",
        /// A pool.
        Pool = "pool",
        /// A processor set.
        Pset = "pset",
        /// A CPU.
        Cpu = "cpu",
    }
}
