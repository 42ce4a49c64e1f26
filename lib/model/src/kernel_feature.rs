//! Features that differ between kernels.

use serde::Serialize;

/// One feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct KernelFeature {
    /// What it is called.
    pub name: String,
    /// Whether the machine's kernel has it.
    pub present: bool,
    /// The first release that has it.
    pub since: String,
    /// What showed it: a file, or the release.
    pub known_by: String,
}
