//! The hierarchy of the CPU controller.

use crate::Root;
use millpond_machine::Absent;
use std::path::PathBuf;

/// The hierarchy of the CPU controller. On version 2 it is mostly that of the sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuTree {
    pub mount: PathBuf,
    pub v1: bool,
}

impl CpuTree {
    /// Looks where the controller is.
    pub fn find(root: &Root) -> Result<CpuTree, Absent> {
        let v1 = root.cgroup.join("cpu");
        if v1.join("cgroup.procs").exists() {
            return Ok(CpuTree { mount: v1, v1: true });
        }
        for v2 in [root.cgroup.clone(), root.cgroup.join("unified")] {
            let offered = root.read_value(&v2.join("cgroup.controllers")).ok().flatten().unwrap_or_default();
            if lists_cpu(&offered) {
                return Ok(CpuTree { mount: v2, v1: false });
            }
        }
        Err(Absent::with_help(
            "there is no cgroup controller for CPU time",
            "use a kernel with CONFIG_CGROUP_SCHED, and mount cgroup2 at its usual place",
        ))
    }

    /// A cgroup's directory; paths begin with `/`.
    pub fn dir(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// The weight of a group of which nothing was said.
    pub fn default_weight(&self) -> u64 {
        if self.v1 { 1_024 } else { 100 }
    }

    /// The file of weights.
    pub fn weight_file(&self) -> &'static str {
        if self.v1 { "cpu.shares" } else { "cpu.weight" }
    }

    /// Finds the group in a `/proc/PID/cgroup` text.
    pub fn place(&self, text: &str) -> Option<String> {
        text.lines().find_map(|line| {
            let path = self.path_of(line)?;
            Some(path.strip_suffix(" (deleted)").unwrap_or(path).to_owned())
        })
    }

    /// The path in a line of such a text, where the line is that of this hierarchy.
    fn path_of<'l>(&self, line: &'l str) -> Option<&'l str> {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = if self.v1 { controllers.split(',').any(|c| c == "cpu") } else { id == "0" };
        ours.then_some(path)
    }

    /// Such a text with another group.
    pub fn replaced(&self, text: &str, path: &str) -> String {
        let line = |line: &str| match self.path_of(line) {
            Some(old) => format!("{}{path}\n", line.strip_suffix(old).unwrap_or(line)),
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }
}

/// Whether a list of controllers names the one for CPU time.
pub(crate) fn lists_cpu(text: &str) -> bool {
    text.split_ascii_whitespace().any(|controller| controller == "cpu")
}
