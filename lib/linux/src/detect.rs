//! Detection of a root's properties: its hierarchies, its kernel, and whether systemd owns the tree.

use crate::cpu_tree::CpuTree;
use crate::fs::{Captured, Fs, Live};
use crate::systemd::run_dir;
use crate::{Hierarchy, Os, Root};
use millpond_model::CpuSet;

impl Os {
    /// Examines the root, once.
    #[must_use]
    pub fn new(root: Root) -> Self {
        let hierarchy = Hierarchy::detect(&root);
        let release = root.read_value(&root.proc.join("sys/kernel/osrelease")).ok().flatten();
        let kernel = release.as_deref().and_then(parse_release).unwrap_or((0, 0));
        let systemd = systemd_owns(&root, &hierarchy);
        let cpu = CpuTree::find(&root);
        let (processes, seen_records, parsed_pools, unread) = Default::default();
        let fs: &'static dyn Fs = if root.is_live() { &Live } else { &Captured };
        let mut os = Os {
            fs,
            cpu,
            root,
            hierarchy,
            kernel,
            systemd,
            possible: CpuSet::new(),
            width: 1,
            processes,
            seen_records,
            parsed_pools,
            unread,
        };
        os.possible = os.cpu_list("possible").unwrap_or_default();
        os.width = os.possible.highest().map_or(1, |cpu| cpu.0 + 1);
        os
    }
}

/// Whether systemd owns the tree: it is process 1, was booted as system manager, and the cpuset controller is in the version 2
/// tree. systemd does not manage version 1 hierarchies of cpusets.
fn systemd_owns(root: &Root, hierarchy: &Hierarchy) -> bool {
    matches!(hierarchy, Hierarchy::V2(mount) if *mount == root.cgroup)
        && run_dir(root).join("systemd/system").is_dir()
        && root.read_value(&root.proc.join("1/comm")).ok().flatten().is_some_and(|comm| comm == "systemd")
}

/// `6.12.107+deb13-amd64` is (6, 12).
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_all_distributions_are_understood() {
        assert_eq!(parse_release("6.12.107+deb13-amd64"), Some((6, 12)));
        assert_eq!(parse_release("7.2.13-rt"), Some((7, 2)));
        assert_eq!(parse_release("6.1"), Some((6, 1)));
        assert_eq!(parse_release("x"), None);
    }
}
