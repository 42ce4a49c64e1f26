//! The primitives: one file, one directory, one label, one task, one mask. On a live root the kernel does the
//! work; on a paper root `paper` does the little that makes the files tell the truth.

use crate::controls::CpuTree;
use crate::files::{Replacing, replace_file};
use crate::hierarchy::Hierarchy;
use crate::knob::TaskId;
use crate::{Root, affinity, is_gone, paper};
use millpond_machine::{Absent, KnobError, Value};
use millpond_model::{CpuSet, NodeSet};
use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The prefix of our extended attributes.
const LABEL_PREFIX: &str = "user.millpond.";

/// The longest extended attribute, in bytes (xattr(7)): the label of a set with some 800 containers, or with every CPU of the largest machine.
const LABEL_MAX: usize = 65536;

/// What the kernel means by "no space left" of a list or a place.
pub(crate) const NO_ROOM: &str = "the kernel has no room for it (no space left)";

/// What the kernel says when something is in use. It does not say by whom.
pub(crate) const BUSY: &str = "the kernel says that it is in use";

/// A machine's files, and the way to change them.
#[derive(Debug)]
pub struct Os {
    /// Where the files are.
    pub root: Root,
    /// The cpuset hierarchy.
    pub hierarchy: Hierarchy,
    /// Kernel version, major and minor.
    pub kernel: (u32, u32),
    /// systemd owns the tree.
    pub systemd: bool,
    /// The hierarchy of the CPU controller, or why there is none.
    pub(crate) cpu: Result<CpuTree, Absent>,
    possible: CpuSet,
    width: u32,
    /// The process of a thread, by its number and its start.
    pub(crate) processes: RefCell<BTreeMap<(u32, u64), u32>>,
    /// Why a record could not be read.
    pub(crate) unread: RefCell<Option<String>>,
}

impl Os {
    /// Looks at the root once.
    #[must_use]
    pub fn new(root: Root) -> Self {
        let hierarchy = Hierarchy::detect(&root);
        let possible = root.read_value(&root.sys.join("devices/system/cpu/possible")).ok().flatten();
        let possible: CpuSet = possible.and_then(|t| t.parse().ok()).unwrap_or_default();
        let width = possible.highest().map_or(1, |cpu| cpu.0 + 1);
        let release = root.read_value(&root.proc.join("sys/kernel/osrelease")).ok().flatten();
        let kernel = release.as_deref().and_then(parse_release).unwrap_or((0, 0));
        let systemd = crate::systemd::detect(&root, &hierarchy);
        let cpu = CpuTree::find(&root);
        let (processes, unread) = Default::default();
        Os { cpu, root, hierarchy, kernel, systemd, possible, width, processes, unread }
    }

    /// The processors that the kernel could have: the same from boot to boot.
    #[must_use]
    pub fn possible(&self) -> &CpuSet {
        &self.possible
    }

    /// How many processors the kernel could have: the width of its masks.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Whether a process's affinity mask is remembered across changes of its cpuset (since 6.2).
    #[must_use]
    pub fn remembers_masks(&self) -> bool {
        self.kernel >= (6, 2)
    }

    /// Whether we may make and change cgroups in the hierarchy. Those who may not can still read them. On paper
    /// the permission bits say it: a directory that nobody may write stands for a read-only mount.
    ///
    /// # Errors
    /// [`KnobError::NotPermitted`], [`KnobError::ReadOnly`]; [`KnobError::Gone`] where there is no hierarchy.
    pub fn may_write_groups(&self) -> Result<(), KnobError> {
        use rustix::fs::{Access, access};
        use std::os::unix::fs::PermissionsExt;
        let mount = self.hierarchy.mount().ok_or(KnobError::Gone)?;
        let procs = mount.join("cgroup.procs");
        if self.root.live {
            return access(procs, Access::WRITE_OK).map_err(|e| knob_error(e.into()));
        }
        let locked = |path: &Path| fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o222 == 0);
        match (locked(mount), locked(&procs)) {
            (true, _) => Err(KnobError::ReadOnly),
            (_, true) => Err(KnobError::NotPermitted),
            _ => Ok(()),
        }
    }

    /// Whether we may steer interrupts and take processors off-line.
    #[must_use]
    pub fn may_administrate(&self) -> bool {
        !self.root.live || rustix::process::geteuid().is_root()
    }

    /// A cgroup's directory.
    ///
    /// # Errors
    /// [`KnobError::Refused`] when there is no hierarchy.
    pub fn group(&self, path: &str) -> Result<PathBuf, KnobError> {
        self.hierarchy.dir(path).ok_or_else(|| KnobError::Refused("there is no cpuset hierarchy".into()))
    }

    /// Writes a file in one call, as control files want it.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense.
    pub fn write(&self, path: &Path, text: &str) -> Result<(), KnobError> {
        if self.root.live {
            let mut file = fs::OpenOptions::new().write(true).open(path).map_err(knob_error)?;
            file.write_all(text.as_bytes()).map_err(knob_error)
        } else {
            paper::write(self, path, text)
        }
    }

    /// Makes a cgroup directory.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense.
    pub fn make_group(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        if self.root.live {
            match fs::create_dir(dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                result => result.map_err(knob_error),
            }
        } else {
            paper::make_group(self, path)
        }
    }

    /// Removes a cgroup directory that has no tasks and no children.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense.
    pub fn remove_group(&self, path: &str) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        if self.root.live {
            fs::remove_dir(dir).map_err(knob_error)
        } else {
            paper::remove_group(&self.root, &dir)
        }
    }

    /// Reads a label of a cgroup.
    ///
    /// # Errors
    /// [`KnobError`] when it exists and cannot be read.
    pub fn label(&self, path: &str, key: &str) -> Result<Option<String>, KnobError> {
        let dir = self.group(path)?;
        if !self.root.live {
            return self.root.read(&paper::label_file(&dir, key)).map_err(knob_error);
        }
        read_attribute(&dir, &format!("{LABEL_PREFIX}{key}"))
    }

    /// Sets or removes a label of a cgroup.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense.
    pub fn set_label(&self, path: &str, key: &str, value: Option<&str>) -> Result<(), KnobError> {
        let dir = self.group(path)?;
        let name = format!("{LABEL_PREFIX}{key}");
        let result = match (self.root.live, value) {
            (true, Some(value)) => {
                setxattr(&dir, name.as_str(), value.as_bytes(), XattrFlags::empty()).map_err(Into::into)
            }
            (true, None) => match removexattr(&dir, name.as_str()) {
                Err(Errno::NODATA) => Ok(()),
                result => result.map_err(Into::into),
            },
            (false, Some(value)) => {
                let file = self.root.at(&paper::label_file(&dir, key));
                file.and_then(|file| replace_file(&file.path, value.as_bytes(), Replacing::default()))
            }
            (false, None) => match self.root.remove(paper::label_file(&dir, key)) {
                Err(error) if is_gone(&error) => Ok(()),
                result => result,
            },
        };
        result.map_err(knob_error)
    }

    /// Moves a process, or one thread of it, into a cgroup.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense; [`KnobError::Gone`] when the task is not the one that was meant.
    pub fn attach(&self, task: TaskId, path: &str) -> Result<(), KnobError> {
        self.still(task)?;
        let file = if task.tid.is_some() { self.threads_file() } else { "cgroup.procs" };
        let control = self.group(path)?.join(file);
        if self.root.live {
            // A directory that is not there is a refusal; only the task itself can be gone.
            if !control.exists() {
                return Err(KnobError::Refused(format!("there is no cgroup {path}")));
            }
            self.write(&control, &task.leader().to_string()).map_err(explain_attach)
        } else {
            paper::attach(self, task, path)
        }
    }

    /// The file that takes single threads.
    #[must_use]
    pub fn threads_file(&self) -> &'static str {
        if self.hierarchy.is_v1() { "tasks" } else { "cgroup.threads" }
    }

    /// A thread's affinity mask as the kernel answers: already narrowed to its cpuset.
    ///
    /// # Errors
    /// [`KnobError::Gone`] when the task is not the one that was meant.
    pub fn mask(&self, task: TaskId) -> Result<CpuSet, KnobError> {
        self.still(task)?;
        if self.root.live {
            affinity::get(task.leader(), self.width).map_err(knob_error)
        } else {
            paper::allowed(self, task)
        }
    }

    /// Sets a thread's affinity mask; `None` allows everything.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense.
    pub fn set_mask(&self, task: TaskId, mask: Option<&CpuSet>) -> Result<(), KnobError> {
        self.still(task)?;
        if self.root.live {
            let all;
            let mask = match mask {
                Some(mask) => mask,
                None => {
                    all = CpuSet::first(self.width.next_multiple_of(64));
                    &all
                }
            };
            affinity::set(task.leader(), mask).map_err(knob_error)
        } else {
            paper::set_mask(self, task, mask)
        }
    }

    /// Every node that has memory.
    pub(crate) fn memory_nodes(&self) -> NodeSet {
        let present = self.cpu_list("present").unwrap_or_default();
        let nodes = crate::lgroups::memory_nodes(&crate::topology::read_lgroups(self, &present));
        nodes.into_iter().map(|(node, _)| node).collect()
    }

    /// What a list of memory nodes limits on version 2: one of all nodes limits nothing, and is what is left where a kernel before 7.0 keeps a
    /// list because there are processes.
    pub(crate) fn limit_of_nodes(&self, list: Option<Value>) -> Option<Value> {
        let limits = |list: &Value| {
            self.hierarchy.is_v1()
                || list.parse::<NodeSet>().is_ok_and(|l| !self.memory_nodes().is_subset(&l))
        };
        list.filter(limits)
    }

    /// Moves the memory of a process to some nodes.
    ///
    /// # Errors
    /// [`KnobError`] in the kernel's sense; [`KnobError::Gone`] when the task is not the one that was meant.
    pub fn move_pages(&self, task: TaskId, to: &NodeSet) -> Result<(), KnobError> {
        self.still(task)?;
        if !self.root.live {
            return Ok(());
        }
        let all =
            self.root.read_value(&self.root.sys.join("devices/system/node/online")).map_err(knob_error)?;
        let all: NodeSet = all.and_then(|list| list.parse().ok()).unwrap_or_default();
        affinity::move_pages(task.pid, &(&all - to), to).map_err(knob_error)
    }

    /// The processors that a cgroup's tasks may use.
    ///
    /// # Errors
    /// [`KnobError`] when it cannot be read.
    pub fn effective(&self, path: &str) -> Result<CpuSet, KnobError> {
        if !self.root.live {
            return paper::effective(self, path);
        }
        let dir = self.group(path)?;
        let file = if self.hierarchy.is_v1() { "cpuset.effective_cpus" } else { "cpuset.cpus.effective" };
        if let Some(text) = self.root.read_value(&dir.join(file)).map_err(knob_error)? {
            return text.parse().map_err(|e| KnobError::Refused(format!("{file}: {e}")));
        }
        // Without the controller a cgroup shares its parent's processors.
        match path.rsplit_once('/') {
            Some((parent, _)) if path != "/" => self.effective(if parent.is_empty() { "/" } else { parent }),
            _ => self.online(),
        }
    }

    /// The processors that are on-line.
    ///
    /// # Errors
    /// [`KnobError`] when that cannot be read.
    pub fn online(&self) -> Result<CpuSet, KnobError> {
        self.cpu_list("online")
    }

    /// A list below `/sys/devices/system/cpu`.
    ///
    /// # Errors
    /// [`KnobError`] when it cannot be read.
    pub fn cpu_list(&self, name: &str) -> Result<CpuSet, KnobError> {
        let path = self.root.sys.join("devices/system/cpu").join(name);
        let text = self.root.read_value(&path).map_err(knob_error)?.unwrap_or_default();
        text.parse().map_err(|e| KnobError::Refused(format!("{name}: {e}")))
    }

    /// Whether a task is the one that was meant.
    pub(crate) fn still(&self, task: TaskId) -> Result<(), KnobError> {
        match self.stat(task.pid, task.tid).map_err(knob_error)? {
            Some(stat) if stat.start == task.start && !stat.dead => Ok(()),
            _ => Err(KnobError::Gone),
        }
    }
}

/// An extended attribute, of any length that the kernel keeps.
fn read_attribute(of: &Path, name: &str) -> Result<Option<String>, KnobError> {
    let mut buffer = vec![0u8; 4096];
    loop {
        match getxattr(of, name, &mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(Some(String::from_utf8_lossy(&buffer).into_owned()));
            }
            Err(Errno::RANGE) if buffer.len() < LABEL_MAX => buffer.resize(LABEL_MAX, 0),
            Err(Errno::NODATA | Errno::NOENT | Errno::NOTSUP) => return Ok(None),
            Err(error) => return Err(knob_error(error.into())),
        }
    }
}

/// `6.12.107+deb13-amd64` is (6, 12).
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What an error of a system call means for a knob.
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

fn explain_attach(error: KnobError) -> KnobError {
    match error {
        KnobError::Refused(why) => KnobError::Refused(format!("the task cannot be moved: {why}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_any_length_that_the_kernel_keeps_is_read() {
        let name = "user.millpond.set";
        // As cgroups do, a file system in memory keeps attributes of any length; one on a disk keeps a block.
        let file =
            tempfile::NamedTempFile::new_in("/dev/shm").or_else(|_| tempfile::NamedTempFile::new()).unwrap();
        assert_eq!(read_attribute(file.path(), name), Ok(None));
        for length in [1, 4096, 4097, 20_000, LABEL_MAX] {
            let text = "x".repeat(length);
            if let Err(error) = setxattr(file.path(), name, text.as_bytes(), XattrFlags::empty()) {
                let test = "a_label_of_any_length_that_the_kernel_keeps_is_read";
                println!("skipped: {test}: this file system keeps none of {length} bytes: {error}");
                return;
            }
            assert_eq!(read_attribute(file.path(), name), Ok(Some(text)), "{length}");
        }
    }

    #[test]
    fn releases_of_all_distributions_are_understood() {
        assert_eq!(parse_release("6.12.107+deb13-amd64"), Some((6, 12)));
        assert_eq!(parse_release("7.2.13-rt"), Some((7, 2)));
        assert_eq!(parse_release("6.1"), Some((6, 1)));
        assert_eq!(parse_release("x"), None);
    }
}
