//! The cgroup hierarchy of the cpuset controller.

use crate::Root;
use millpond_machine::Absent;
use std::path::PathBuf;

/// The cpuset hierarchy of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// cgroup version 2, with its mount point.
    V2(PathBuf),
    /// A version 1 cpuset hierarchy, with its mount point (also on hybrid hosts).
    V1(PathBuf),
    /// No writable hierarchy: sets are affinity masks only.
    None(Absent),
}

/// Whether a controller list (`cgroup.controllers`, `cgroup.subtree_control`) contains the cpuset controller.
pub(crate) fn lists_cpuset(text: &str) -> bool {
    text.split_ascii_whitespace().any(|controller| controller == "cpuset")
}

impl Hierarchy {
    /// Finds the controller. On a hybrid host version 1 owns it, and the version 2 tree does not offer it.
    #[must_use]
    pub fn detect(root: &Root) -> Self {
        let offers = |dir: &PathBuf| {
            let text = root.read_value(&dir.join("cgroup.controllers")).ok().flatten().unwrap_or_default();
            lists_cpuset(&text)
        };
        let v1 = root.cgroup.join("cpuset");
        if v1.join("cpuset.cpus").exists() {
            return Hierarchy::V1(v1);
        }
        for v2 in [root.cgroup.clone(), root.cgroup.join("unified")] {
            if offers(&v2) {
                return Hierarchy::V2(v2);
            }
        }
        let why = if root.cgroup.join("cgroup.controllers").exists() {
            "the cgroup tree has no cpuset controller"
        } else {
            "no cgroup hierarchy with the cpuset controller is mounted"
        };
        let help = "use a kernel with CONFIG_CPUSETS and mount cgroup2 at its usual place";
        Hierarchy::None(Absent::with_help(why, help))
    }

    /// The mount point of the hierarchy.
    #[must_use]
    pub fn mount(&self) -> Option<&PathBuf> {
        match self {
            Hierarchy::V2(dir) | Hierarchy::V1(dir) => Some(dir),
            Hierarchy::None(_) => None,
        }
    }

    /// Whether it is version 1.
    #[must_use]
    pub fn is_v1(&self) -> bool {
        matches!(self, Hierarchy::V1(_))
    }

    /// A cgroup's directory; paths begin with `/`.
    #[must_use]
    pub fn dir(&self, path: &str) -> Option<PathBuf> {
        self.mount().map(|mount| mount.join(path.trim_start_matches('/')))
    }

    /// The path in the hierarchy's line of a `/proc/PID/cgroup` text.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<String> {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let ours = match self {
                Hierarchy::V2(_) => id == "0",
                Hierarchy::V1(_) => controllers.split(',').any(|c| c == "cpuset"),
                Hierarchy::None(_) => false,
            };
            // The kernel marks a task whose cgroup was removed.
            ours.then(|| path.strip_suffix(" (deleted)").unwrap_or(path).to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "9:name=systemd:/a\n3:cpuset:/mpset1/from+\n1:cpu,cpuacct:/c\n0::/unified";

    #[test]
    fn each_hierarchy_finds_its_own_line() {
        assert_eq!(Hierarchy::V1(PathBuf::new()).find(HYBRID), Some("/mpset1/from+".into()));
        assert_eq!(Hierarchy::V2(PathBuf::new()).find(HYBRID), Some("/unified".into()));
        assert_eq!(Hierarchy::None(Absent::because("x")).find(HYBRID), None);
        assert_eq!(Hierarchy::V2(PathBuf::new()).find("0::/gone (deleted)"), Some("/gone".into()));
    }

    #[test]
    fn fuzz_cgroups_of_processes() {
        millpond_fuzz::check_text("linux-cgroups", &[HYBRID, "0::/gone (deleted)\n"], |text| {
            for hierarchy in [Hierarchy::V1(PathBuf::new()), Hierarchy::V2(PathBuf::new())] {
                if let Some(path) = hierarchy.find(text) {
                    assert!(text.contains(&path));
                }
            }
        });
    }
}
