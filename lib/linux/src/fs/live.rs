//! The live root: its kernel does the work.

use super::{Done, Fs};
use crate::cpu_tree::CpuTree;
use crate::knob::TaskId;
use crate::os::knob_error;
use crate::policy::{self, Policy};
use crate::systemd::{self, Manager};
use crate::{Os, affinity};
use millpond_machine::KnobError;
use millpond_model::{CpuSet, NodeSet};
use rustix::fs::{Access, XattrFlags, access, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The prefix of our extended attributes.
const LABEL_PREFIX: &str = "user.millpond.";

/// The longest extended attribute, in bytes (xattr(7)). Enough for the label of a set with some 800 containers, or with every CPU
/// of the largest machine.
const LABEL_MAX: usize = 65536;

/// How long the removal of a cgroup waits for dying threads. The kernel keeps their cgroup until they are gone.
const DYING: Duration = Duration::from_secs(2);

/// The kernel's files.
#[derive(Debug)]
pub(crate) struct Live;

impl Fs for Live {
    fn may_write_groups(&self, mount: &Path) -> Done {
        access(mount.join("cgroup.procs"), Access::WRITE_OK).map_err(|e| knob_error(e.into()))
    }

    fn write(&self, _os: &Os, path: &Path, text: &str) -> Done {
        let mut file = fs::OpenOptions::new().write(true).open(path).map_err(knob_error)?;
        file.write_all(text.as_bytes()).map_err(knob_error)
    }

    fn make_group(&self, _os: &Os, _path: &str, dir: &Path) -> Done {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(knob_error),
        }
    }

    fn remove_group(&self, os: &Os, dir: &Path) -> Done {
        let until = Instant::now() + DYING;
        loop {
            match fs::remove_dir(dir) {
                Err(error) if is_busy(&error) && Instant::now() < until && holds_nothing(os, dir) => {
                    thread::sleep(Duration::from_millis(5));
                }
                result => return result.map_err(knob_error),
            }
        }
    }

    fn label(&self, _os: &Os, dir: &Path, key: &str) -> Result<Option<String>, KnobError> {
        read_attribute(dir, &format!("{LABEL_PREFIX}{key}"))
    }

    fn set_label(&self, _os: &Os, dir: &Path, key: &str, value: Option<&str>) -> io::Result<()> {
        let name = format!("{LABEL_PREFIX}{key}");
        let result = match value {
            Some(value) => setxattr(dir, name.as_str(), value.as_bytes(), XattrFlags::empty()),
            None => removexattr(dir, name.as_str()),
        };
        match result {
            Err(Errno::NODATA) if value.is_none() => Ok(()),
            result => result.map_err(Into::into),
        }
    }

    fn attach(&self, os: &Os, task: TaskId, path: &str) -> Done {
        let file = if task.tid.is_some() { os.threads_file() } else { "cgroup.procs" };
        let control = os.group(path)?.join(file);
        // A missing directory is a refusal. `Gone` means only that the task has ended.
        if !control.exists() {
            return Err(KnobError::Refused(format!("there is no cgroup {path}")));
        }
        self.write(os, &control, &task.leader().to_string()).map_err(|error| match error {
            KnobError::Refused(why) => KnobError::Refused(format!("the task cannot be moved: {why}")),
            other => other,
        })
    }

    fn affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError> {
        affinity::get(task.leader(), os.width()).map_err(knob_error)
    }

    fn whole_affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError> {
        let file = os.root.proc.join(format!("{}/status", task.leader()));
        let text = os.root.read(&file).map_err(knob_error)?.ok_or(KnobError::Gone)?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let list = list.and_then(|list| list.trim().parse().ok());
        list.ok_or_else(|| KnobError::Refused("its status shows no mask".to_owned()))
    }

    fn set_affinity(&self, os: &Os, task: TaskId, mask: Option<&CpuSet>) -> Done {
        let all = CpuSet::first(os.width().next_multiple_of(64));
        affinity::set(task.leader(), mask.unwrap_or(&all)).map_err(knob_error)
    }

    fn own_affinity(&self, os: &Os) -> io::Result<Option<CpuSet>> {
        affinity::get(0, os.width()).map(Some)
    }

    fn kept_policy(&self, _os: &Os, _task: TaskId) -> Option<Policy> {
        None
    }

    fn set_policy(&self, _os: &Os, task: TaskId, to: Policy) -> Done {
        policy::set(task.leader(), to).map_err(knob_error)
    }

    fn move_pages(&self, os: &Os, task: TaskId, to: &NodeSet) -> Done {
        let online = os.root.sys.join("devices/system/node/online");
        let all = os.root.read_value(&online).map_err(knob_error)?;
        let all: NodeSet = all.and_then(|list| list.parse().ok()).unwrap_or_default();
        affinity::move_pages(task.pid, &(&all - to), to).map_err(knob_error)
    }

    fn effective(&self, os: &Os, path: &str) -> Result<CpuSet, KnobError> {
        let dir = os.group(path)?;
        let file = if os.hierarchy.is_v1() { "cpuset.effective_cpus" } else { "cpuset.cpus.effective" };
        if let Some(text) = os.root.read_value(&dir.join(file)).map_err(knob_error)? {
            return text.parse().map_err(|e| KnobError::Refused(format!("{file}: {e}")));
        }
        // Without the controller, a cgroup has the CPUs of its parent.
        match path.rsplit_once('/') {
            Some((parent, _)) if path != "/" => {
                self.effective(os, if parent.is_empty() { "/" } else { parent })
            }
            _ => os.online(),
        }
    }

    fn make_cache_group(&self, _os: &Os, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    fn remove_cache_group(&self, _os: &Os, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn make_cpu_group(&self, _os: &Os, tree: &CpuTree, path: &str) -> io::Result<()> {
        fs::create_dir(tree.dir(path))
    }

    fn attach_cpu(&self, os: &Os, tree: &CpuTree, task: TaskId, path: &str) -> Done {
        self.write(os, &tree.dir(path).join("cgroup.procs"), &task.pid.to_string())
    }

    fn manager<'a>(&self, _os: &'a Os) -> Result<Box<dyn Manager + 'a>, KnobError> {
        systemd::connect()
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// Whether a cgroup has no children, and no threads but dying ones, which cannot be moved any more.
fn holds_nothing(os: &Os, dir: &Path) -> bool {
    let Ok(threads) = fs::read_to_string(dir.join(os.threads_file())) else { return false };
    let mut entries = fs::read_dir(dir).into_iter().flatten().flatten();
    threads.lines().all(|tid| is_dying(os, tid))
        && !entries.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// Whether a thread is dying, or gone.
fn is_dying(os: &Os, tid: &str) -> bool {
    let stat = tid.parse().ok().and_then(|tid| os.stat(tid, None).ok()?);
    stat.is_none_or(|stat| stat.exiting)
}

/// An extended attribute of any length.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_any_length_that_the_kernel_keeps_is_read() {
        let name = "user.millpond.set";
        // A tmpfs, like cgroupfs, stores attributes of any length. A file system on a disk stores at most a block.
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
}
