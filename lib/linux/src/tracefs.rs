//! The kernel's tracing files, mounted or not.
//!
//! If they are not mounted, a detached mount is used: it has a file descriptor and no path, no other process can see it, and it
//! ends with the descriptor.

use crate::{Root, is_gone};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An open tracing directory.
#[derive(Debug)]
pub(crate) struct Tracefs {
    dir: OwnedFd,
    path: PathBuf,
}

impl Tracefs {
    /// Opens the mounted directory, else a detached mount.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
    pub(crate) fn open(root: &Root) -> Result<Tracefs, String> {
        if let Some((dir, path)) = mounted(root) {
            return Ok(Tracefs { dir, path });
        }
        let dir = detached()?;
        let path = root.proc.join(format!("self/fd/{}", dir.as_raw_fd()));
        Ok(Tracefs { dir, path })
    }

    /// Its path. The path of a detached mount is valid while it is open, and only for this process.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The id of the tracepoint `category:name`, which differs between kernels.
    ///
    /// # Errors
    /// The reason, as the second half of a sentence.
    pub(crate) fn id(&self, category: &str, name: &str) -> Result<u64, String> {
        let path = format!("events/{category}/{name}/id");
        let fd = match openat(&self.dir, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Err(format!("this kernel has no tracepoint {category}:{name}")),
            Err(error) => return Err(format!("tracepoint {category}:{name}: {error}")),
        };
        let mut text = String::new();
        match File::from(fd).read_to_string(&mut text) {
            Ok(_) => text.trim().parse().map_err(|_| format!("tracepoint {category}:{name} has no number")),
            Err(error) => Err(format!("tracepoint {category}:{name}: {error}")),
        }
    }
}

fn mounted(root: &Root) -> Option<(OwnedFd, PathBuf)> {
    let candidates: [PathBuf; 2] = [root.sys.join("kernel/tracing"), root.sys.join("kernel/debug/tracing")];
    candidates.into_iter().find_map(|path| {
        let dir =
            openat(CWD, &path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        openat(dir.as_fd(), "events", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some((dir, path))
    })
}

fn detached() -> Result<OwnedFd, String> {
    let explain = |error: Errno| match error {
        Errno::PERM | Errno::ACCESS => "reading tracepoints needs the rights of root".to_owned(),
        Errno::NODEV => "this kernel has no tracing".to_owned(),
        error if is_gone(&error.into()) => "this kernel has no tracing".to_owned(),
        error => format!("the kernel's tracing files cannot be opened: {error}"),
    };
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(explain)?;
    fsconfig_create(context.as_fd()).map_err(explain)?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).map_err(explain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_mounted_tree_is_read_where_it_stands() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        let event = root.sys.join("kernel/tracing/events/sched/sched_switch");
        fs::create_dir_all(&event).unwrap();
        fs::write(event.join("id"), "314\n").unwrap();
        let tracefs = Tracefs::open(&root).unwrap();
        assert_eq!(tracefs.id("sched", "sched_switch"), Ok(314));
        let absent = tracefs.id("ipi", "ipi_send_cpu").unwrap_err();
        assert_eq!(absent, "this kernel has no tracepoint ipi:ipi_send_cpu");
    }
}
