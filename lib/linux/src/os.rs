//! Primitive operations on one file, directory, label, task or mask. An [`Fs`] performs them.

use crate::cpu_tree::CpuTree;
use crate::fs::Fs;
use crate::hierarchy::Hierarchy;
use crate::knob::{ControlFile, RESCTRL, TaskId};
use crate::offline::{Kept, RECORD};
use crate::records::SharedRecords;
use crate::{Root, is_gone, numa};
use millpond_machine::{Absent, KnobError, Value};
use millpond_model::pools::PoolsState;
use millpond_model::{CpuId, CpuSet, Lgroup, NodeSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The message for `ENOSPC` of a list or a cgroup.
pub(crate) const NO_ROOM: &str = "the kernel has no room for it (no space left)";

/// The message for `EBUSY`. The kernel does not report the cause.
pub(crate) const BUSY: &str = "the kernel says that it is in use";

/// A machine's files and the operations on them.
#[derive(Debug)]
pub struct Os {
    /// The implementation of changes.
    pub(crate) fs: &'static dyn Fs,
    /// The location of the files.
    pub root: Root,
    /// The cpuset hierarchy.
    pub hierarchy: Hierarchy,
    /// Kernel version, major and minor.
    pub kernel: (u32, u32),
    /// Whether systemd owns the tree.
    pub systemd: bool,
    /// The hierarchy of the CPU controller, or why it is missing.
    pub(crate) cpu: Result<CpuTree, Absent>,
    pub(crate) possible: CpuSet,
    pub(crate) width: u32,
    /// The process of a thread, by thread id and start time.
    pub(crate) processes: RefCell<BTreeMap<(u32, u64), u32>>,
    /// Records that are read only once.
    pub(crate) seen_records: SharedRecords,
    /// The last text of the pool configuration, and its parsed contents.
    pub(crate) parsed_pools: RefCell<Option<(String, Option<PoolsState>)>>,
    /// The error of a record that could not be read.
    pub(crate) unread: RefCell<Option<String>>,
}

impl Os {
    /// The possible CPUs of the kernel. They are the same after each boot.
    #[must_use]
    pub fn possible(&self) -> &CpuSet {
        &self.possible
    }

    /// The number of possible CPUs: the width of the kernel's masks.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Whether we may create and change cgroups in the hierarchy. Reading needs no rights. On a captured root the permission bits
    /// decide: a directory that cannot be written represents a read-only mount.
    ///
    /// # Errors
    /// [`KnobError::NotPermitted`], [`KnobError::ReadOnly`]; [`KnobError::Gone`] without a hierarchy.
    pub fn may_write_groups(&self) -> Result<(), KnobError> {
        self.fs.may_write_groups(self.hierarchy.mount().ok_or(KnobError::Gone)?)
    }

    /// Whether we may change interrupt affinity and online states of CPUs.
    #[must_use]
    pub fn may_administrate(&self) -> bool {
        !self.root.is_live() || rustix::process::geteuid().is_root()
    }

    /// A cgroup's directory.
    ///
    /// # Errors
    /// [`KnobError::Refused`] without a hierarchy.
    pub fn group(&self, path: &str) -> Result<PathBuf, KnobError> {
        self.hierarchy.dir(path).ok_or_else(|| KnobError::Refused("there is no cpuset hierarchy".into()))
    }

    /// The path of a control file.
    ///
    /// # Errors
    /// [`KnobError::Refused`] without a cpuset hierarchy.
    pub(crate) fn control_path(&self, file: &ControlFile) -> Result<PathBuf, KnobError> {
        if let ControlFile::Cpuset(group, file) = file {
            return Ok(self.group(group)?.join(file.name()));
        }
        let (tree, path) = file.text();
        // The part after `#` selects a line of the file.
        let path = path.split('#').next().unwrap_or_default();
        Ok(if tree == "proc" { &self.root.proc } else { &self.root.sys }.join(path))
    }

    /// Writes a file in a single call, as control files require.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`].
    pub fn write(&self, path: &Path, text: &str) -> Result<(), KnobError> {
        self.fs.write(self, path, text)
    }

    /// The directory of a resctrl group.
    pub(crate) fn cache_group(&self, name: &str) -> PathBuf {
        self.root.sys.join(RESCTRL).join(name)
    }

    /// Creates or removes a resctrl group.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`].
    pub(crate) fn set_cache_group(&self, name: &str, is_wanted: bool) -> Result<(), KnobError> {
        let dir = self.cache_group(name);
        match if is_wanted {
            self.fs.make_cache_group(self, &dir)
        } else {
            self.fs.remove_cache_group(self, &dir)
        } {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && is_wanted => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_wanted => Ok(()),
            result => result.map_err(knob_error),
        }
    }

    /// Creates a cgroup directory.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`].
    pub fn make_group(&self, path: &str) -> Result<(), KnobError> {
        self.fs.make_group(self, path, &self.group(path)?)
    }

    /// Removes a cgroup directory without tasks and children.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`].
    pub fn remove_group(&self, path: &str) -> Result<(), KnobError> {
        self.fs.remove_group(self, &self.group(path)?)
    }

    /// Reads a label of a cgroup.
    ///
    /// # Errors
    /// [`KnobError`] when it exists and cannot be read.
    pub fn label(&self, path: &str, key: &str) -> Result<Option<String>, KnobError> {
        self.fs.label(self, &self.group(path)?, key)
    }

    /// Sets or removes a label of a cgroup.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`].
    pub fn set_label(&self, path: &str, key: &str, value: Option<&str>) -> Result<(), KnobError> {
        self.fs.set_label(self, &self.group(path)?, key, value).map_err(knob_error)
    }

    /// Moves a process, or one thread of it, into a cgroup.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`]; [`KnobError::Gone`] when the task has ended or its id was reused.
    pub fn attach(&self, task: TaskId, path: &str) -> Result<(), KnobError> {
        self.still(task)?;
        self.fs.attach(self, task, path)
    }

    /// The name of the control file for single threads.
    #[must_use]
    pub fn threads_file(&self) -> &'static str {
        if self.hierarchy.is_v1() { "tasks" } else { "cgroup.threads" }
    }

    /// A thread's affinity mask as the kernel returns it: restricted to its cpuset.
    ///
    /// # Errors
    /// [`KnobError::Gone`] when the task has ended or its id was reused.
    pub fn mask(&self, task: TaskId) -> Result<CpuSet, KnobError> {
        self.still(task)?;
        self.fs.affinity(self, task)
    }

    /// A thread's affinity mask including the `offline` CPUs, which the kernel's answer omits.
    ///
    /// # Errors
    /// [`KnobError::Gone`] when the task has ended or its id was reused.
    pub(crate) fn whole_mask(&self, task: TaskId, offline: &CpuSet) -> Result<CpuSet, KnobError> {
        let mask = self.mask(task)?;
        if offline.is_empty() { Ok(mask) } else { self.fs.whole_affinity(self, task) }
    }

    /// Sets a thread's affinity mask; `None` allows all CPUs.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`].
    pub fn set_mask(&self, task: TaskId, mask: Option<&CpuSet>) -> Result<(), KnobError> {
        self.still(task)?;
        self.fs.set_affinity(self, task, mask)
    }

    /// All nodes with their CPUs and memory.
    pub(crate) fn nodes(&self, present: &CpuSet) -> Vec<Lgroup> {
        numa::read_nodes(&self.root, present, || self.kept_places())
    }

    /// The recorded topology of CPUs that were on-line before.
    pub(crate) fn kept_places(&self) -> Kept {
        self.shared_record(RECORD).map(|text| Kept::parse(&text)).unwrap_or_default()
    }

    /// All nodes with memory.
    pub(crate) fn memory_nodes(&self) -> NodeSet {
        let present = self.cpu_list("present").unwrap_or_default();
        let nodes = numa::memory_nodes(&self.nodes(&present));
        nodes.into_iter().map(|(node, _)| node).collect()
    }

    /// The effective limit of a list of memory nodes. On version 2 a list of all nodes limits nothing. It remains where a kernel
    /// before 7.0 cannot clear a list because of processes.
    pub(crate) fn limit_of_nodes(&self, list: Option<Value>) -> Option<Value> {
        let limits = |list: &Value| {
            self.hierarchy.is_v1()
                || list.parse::<NodeSet>().is_ok_and(|l| !self.memory_nodes().is_subset(&l))
        };
        list.filter(limits)
    }

    /// Moves the memory of a process to the nodes `to`.
    ///
    /// # Errors
    /// The kernel's error as [`KnobError`]; [`KnobError::Gone`] when the task has ended or its id was reused.
    pub fn move_pages(&self, task: TaskId, to: &NodeSet) -> Result<(), KnobError> {
        self.still(task)?;
        self.fs.move_pages(self, task, to)
    }

    /// The CPUs that a cgroup's tasks may use.
    ///
    /// # Errors
    /// [`KnobError`] when it cannot be read.
    pub fn effective(&self, path: &str) -> Result<CpuSet, KnobError> {
        self.fs.effective(self, path)
    }

    /// The on-line CPUs.
    ///
    /// # Errors
    /// [`KnobError`] when they cannot be read.
    pub fn online(&self) -> Result<CpuSet, KnobError> {
        self.cpu_list("online")
    }

    /// The off-line CPUs.
    ///
    /// # Errors
    /// [`KnobError`] when they cannot be read.
    pub(crate) fn offline(&self) -> Result<CpuSet, KnobError> {
        Ok(&self.cpu_list("present")? - &self.online()?)
    }

    /// A list below `/sys/devices/system/cpu`. Without the file, as in some captured trees, it is derived from the CPU
    /// directories.
    ///
    /// # Errors
    /// [`KnobError`] when it cannot be read.
    pub fn cpu_list(&self, name: &str) -> Result<CpuSet, KnobError> {
        let dir = self.root.sys.join("devices/system/cpu");
        let Some(text) = self.root.read_value(&dir.join(name)).map_err(knob_error)? else {
            let names = self.root.names(&dir).map_err(knob_error)?;
            let is_off = |cpu: &CpuId| {
                let switch = dir.join(format!("cpu{cpu}/online"));
                name == "online"
                    && self.root.read_value(&switch).is_ok_and(|text| text.as_deref() == Some("0"))
            };
            let cpus = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).map(CpuId);
            return Ok(cpus.filter(|cpu| !is_off(cpu)).collect());
        };
        text.parse().map_err(|e| KnobError::Refused(format!("{name}: {e}")))
    }

    /// Checks that a task still exists and its id was not reused.
    pub(crate) fn still(&self, task: TaskId) -> Result<(), KnobError> {
        match self.stat(task.pid, task.tid).map_err(knob_error)? {
            Some(stat) if stat.start == task.start && !stat.dead => Ok(()),
            _ => Err(KnobError::Gone),
        }
    }
}

/// Converts an error of a system call.
#[must_use]
pub fn knob_error(error: io::Error) -> KnobError {
    match error.raw_os_error() {
        _ if is_gone(&error) => KnobError::Gone,
        Some(libc::EACCES | libc::EPERM) => KnobError::NotPermitted,
        Some(libc::EROFS) => KnobError::ReadOnly,
        Some(libc::ENOSPC) => KnobError::Refused(NO_ROOM.into()),
        Some(libc::E2BIG) => KnobError::Refused("it is longer than the kernel keeps (65536 bytes)".into()),
        Some(libc::EBUSY) => KnobError::Refused(BUSY.into()),
        Some(libc::EINVAL) => KnobError::Refused("the kernel says that it is not valid".into()),
        _ => KnobError::Refused(error.to_string()),
    }
}
