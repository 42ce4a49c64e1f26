//! The hierarchy of the CPU controller.

use crate::Root;
use millpond_machine::Absent;
use std::path::PathBuf;

/// The hierarchy of the CPU controller. On version 2 it is usually also that of the sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuTree {
    pub mount: PathBuf,
    pub v1: bool,
}

impl CpuTree {
    /// Finds the hierarchy.
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

    /// The default weight of a cgroup.
    pub fn default_weight(&self) -> u64 {
        if self.v1 { 1_024 } else { 100 }
    }

    /// Name of the weight file.
    pub fn weight_file(&self) -> &'static str {
        if self.v1 { "cpu.shares" } else { "cpu.weight" }
    }

    /// The cgroup in the text of a `/proc/PID/cgroup` file.
    pub fn place(&self, text: &str) -> Option<String> {
        text.lines().find_map(|line| {
            let path = self.path_of(line)?;
            Some(path.strip_suffix(" (deleted)").unwrap_or(path).to_owned())
        })
    }

    /// The path in a line of that text, if the line belongs to this hierarchy.
    fn path_of<'l>(&self, line: &'l str) -> Option<&'l str> {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = if self.v1 { controllers.split(',').any(|c| c == "cpu") } else { id == "0" };
        ours.then_some(path)
    }

    /// The text with another cgroup.
    pub fn replaced(&self, text: &str, path: &str) -> String {
        let line = |line: &str| match self.path_of(line) {
            Some(old) => format!("{}{path}\n", line.strip_suffix(old).unwrap_or(line)),
            None => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }
}

/// Whether a list of controllers contains the CPU controller.
pub(crate) fn lists_cpu(text: &str) -> bool {
    text.split_ascii_whitespace().any(|controller| controller == "cpu")
}
