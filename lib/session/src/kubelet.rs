//! Kubernetes: paths on a node that the agent needs, and whether the kubelet assigns CPUs itself.

use millpond_linux::open_plain;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The kubelet's directory.
pub const KUBELET_DIR: &str = "/var/lib/kubelet";

/// The NRI socket of a container runtime.
pub const PLUGIN_SOCKET: &str = "/var/run/nri/nri.sock";

/// The CPU manager's state file in the kubelet's directory.
const CPU_MANAGER: &str = "cpu_manager_state";

/// Maximum size of that file. It has a few hundred bytes for each container with exclusive CPUs.
const CPU_MANAGER_BYTES_MAX: u64 = 4 << 20;

/// The CPU manager's state file, if it shows the policy `static`: then the kubelet assigns CPUs to containers itself. `None` for other policies, or
/// without the file.
#[must_use]
pub fn static_cpu_manager(kubelet: &Path) -> Option<PathBuf> {
    let file = kubelet.join(CPU_MANAGER);
    let open = open_plain(&file, CPU_MANAGER_BYTES_MAX).ok()?;
    let text = io::read_to_string(open.take(CPU_MANAGER_BYTES_MAX)).ok()?;
    let state: serde_json::Value = serde_json::from_str(&text).ok()?;
    (state.get("policyName")?.as_str()? == "static").then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_static_cpu_manager_is_known_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(CPU_MANAGER);
        let says = |text: &str| {
            fs::write(&file, text).unwrap();
            static_cpu_manager(dir.path())
        };
        assert_eq!(says(r#"{"policyName":"static","defaultCpuSet":"0-1","checksum":1}"#), Some(file.clone()));
        assert_eq!(says(r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#), None);
        assert_eq!(says("nonsense"), None);
        fs::remove_file(&file).unwrap();
        assert_eq!(static_cpu_manager(dir.path()), None);
    }
}
