//! What differs from kernel to kernel, as far as it matters here.

use serde::Serialize;

/// One feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct KernelFeature {
    /// What it is called.
    pub name: String,
    /// Whether the machine's kernel has it.
    pub present: bool,
    /// The first release that has it; empty where none has it yet.
    pub since: String,
    /// What showed it: a file, or the release.
    pub known_by: String,
}
