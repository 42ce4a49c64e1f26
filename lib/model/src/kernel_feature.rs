//! Features that differ between kernels.

use serde::Serialize;

/// A kernel feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct KernelFeature {
    /// Its name.
    pub name: String,
    /// Whether the machine's kernel has it.
    pub present: bool,
    /// The first release that has it; empty where none has it yet.
    pub since: String,
    /// The evidence: a file, or the release.
    pub known_by: String,
}
