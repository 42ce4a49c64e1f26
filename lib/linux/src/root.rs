//! The injected root: all paths that this crate reads or writes are below it.
//!
//! A *live* root is the running machine. A *captured* root is a directory with the same files, copied from a machine or
//! synthetic. On a captured root, `fs` emulates the kernel's reactions to writes.

use crate::files::{BYTES_MAX, open_plain};
use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, read};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file of a captured root, relative to an open directory.
pub(crate) struct At {
    _dir: Option<OwnedFd>,
    pub(crate) path: PathBuf,
}

/// The directories of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Process information (`/proc`).
    pub proc: PathBuf,
    /// Devices and kernel objects (`/sys`).
    pub sys: PathBuf,
    /// Mount point of the cgroup hierarchies (`/sys/fs/cgroup`).
    pub cgroup: PathBuf,
    /// Sockets of daemons (`/run`).
    pub run: PathBuf,
    /// Our own state: journal and records (`/run/millpond`).
    pub state: PathBuf,
    /// Whether the files are those of a running kernel.
    pub(crate) live: bool,
}

impl Root {
    /// The running machine, with our state in `state`.
    #[must_use]
    pub fn live(state: PathBuf) -> Self {
        Root {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            cgroup: PathBuf::from("/sys/fs/cgroup"),
            run: PathBuf::from("/run"),
            state,
            live: true,
        }
    }

    /// A directory with `proc`, `sys`, `cgroup` and `state`.
    #[must_use]
    pub fn captured(dir: &Path) -> Self {
        Root {
            proc: dir.join("proc"),
            sys: dir.join("sys"),
            cgroup: dir.join("cgroup"),
            run: dir.join("run"),
            state: dir.join("state"),
            live: false,
        }
    }

    /// Whether the files are those of a running kernel.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Checks that the root is live.
    ///
    /// # Errors
    /// `absent`, on a captured root.
    pub(crate) fn running<E>(&self, absent: impl FnOnce() -> E) -> Result<(), E> {
        if self.live { Ok(()) } else { Err(absent()) }
    }

    /// The id of this process, if it runs on this machine.
    pub(crate) fn own_pid(&self) -> Option<u32> {
        self.live.then(std::process::id)
    }

    /// Opens a file of a captured root. Another user may have made its links, so none that leads out of the root is followed.
    fn beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let top = self.proc.parent().unwrap_or(&self.proc);
        let below = path.strip_prefix(top).map_err(|_| io::ErrorKind::InvalidInput)?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let top = rustix::fs::open(top, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&top, below, flags | OFlags::CLOEXEC, mode, how).map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => {
                io::Error::other("a link on its path leads out of the captured machine")
            }
            other => other.into(),
        })
    }

    /// A path for system calls that do not follow the last component of a path.
    ///
    /// # Errors
    /// The system's error, also if a link in the path leads out of the root.
    pub(crate) fn at(&self, path: &Path) -> io::Result<At> {
        if self.live {
            return Ok(At { _dir: None, path: path.to_owned() });
        }
        let (dir, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.beneath(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        Ok(At { _dir: Some(dir), path })
    }

    /// Overwrites a regular file of a captured root in place, as control files are written.
    ///
    /// # Errors
    /// The system's error, also if a link leads out of the root, or if it is not a regular file.
    pub(crate) fn replace(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut file = fs::File::from(self.beneath(path.as_ref(), flags)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        file.set_len(0)?;
        file.write_all(text.as_ref())
    }

    /// Reads a regular file of a captured root.
    ///
    /// # Errors
    /// Those of [`Root::read`]; [`io::ErrorKind::NotFound`] if it does not exist.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        self.read(path.as_ref())?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Creates a directory of a captured root.
    ///
    /// # Errors
    /// Those of [`Root::at`].
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(&self.at(path)?.path)
    }

    /// Creates a directory and its parents.
    ///
    /// # Errors
    /// Those of [`Root::at`].
    pub(crate) fn make_dirs(&self, path: &Path) -> io::Result<()> {
        if self.live {
            return fs::create_dir_all(path);
        }
        let top = self.proc.parent().unwrap_or(&self.proc);
        let mut missing: Vec<&Path> = path.ancestors().take_while(|dir| *dir != top).collect();
        missing.reverse();
        missing.into_iter().try_for_each(|dir| match self.make_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        })
    }

    /// Checks that our state in a captured root is in directories, and not in links to others.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if one is a link.
    pub(crate) fn check_state(&self) -> io::Result<()> {
        let dirs = [self.state.clone(), self.state.join("records"), self.state.join("pools")];
        let is_link = |dir: &&PathBuf| fs::symlink_metadata(dir).is_ok_and(|found| found.is_symlink());
        match dirs.iter().find(is_link).filter(|_| !self.live) {
            Some(dir) => {
                let why =
                    format!("{} is a link, and a captured machine keeps its state itself", dir.display());
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
            None => Ok(()),
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of [`Root::at`].
    pub(crate) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(&self.at(path)?.path)
    }

    /// Removes a file of a captured root.
    ///
    /// # Errors
    /// Those of [`Root::at`].
    pub(crate) fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        fs::remove_file(&self.at(path.as_ref())?.path)
    }

    /// Removes a directory tree of a captured root.
    ///
    /// # Errors
    /// Those of [`Root::at`].
    pub(crate) fn remove_tree(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(&self.at(path)?.path)
    }

    /// Opens a file for reading. On a captured root another user may have created it: see [`open_plain`].
    ///
    /// # Errors
    /// The system's error, and those of [`open_plain`].
    pub(crate) fn open(&self, path: &Path) -> io::Result<fs::File> {
        if self.live { fs::File::open(path) } else { open_plain(path, BYTES_MAX) }
    }

    /// Reads a file, without its final newline. `None` when it does not exist.
    ///
    /// # Errors
    /// Other errors of reading it.
    pub fn read(&self, path: &Path) -> io::Result<Option<String>> {
        match self.open(path).and_then(read_whole) {
            Ok(bytes) => {
                let mut text = String::from_utf8_lossy(&bytes).into_owned();
                if text.ends_with('\n') {
                    text.pop();
                }
                Ok(Some(text))
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Like [`Root::read`], for a file with a single value. The kernel writes it in one piece, so no second read is needed to
    /// detect its end.
    ///
    /// # Errors
    /// As for [`Root::read`].
    pub fn read_value(&self, path: &Path) -> io::Result<Option<String>> {
        let mut bytes = [0; 4096];
        let first = self.open(path).and_then(|mut file| file.read(&mut bytes));
        match first {
            Ok(filled) if filled < bytes.len() => {
                let text = String::from_utf8_lossy(&bytes[..filled]);
                Ok(Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()))
            }
            Err(error) if is_gone(&error) => Ok(None),
            // The file is longer, or the read was interrupted.
            _ => self.read(path),
        }
    }

    /// The names in a directory, sorted. Empty when it does not exist.
    ///
    /// # Errors
    /// Other errors of reading it.
    pub fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        listed(dir, |_| true)
    }

    /// The subdirectories of a directory, sorted by name. Empty when it does not exist. Kernel file systems return the type of
    /// each entry with the listing, so no entry needs a further system call.
    ///
    /// # Errors
    /// Other errors of reading it.
    pub fn dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        // A cgroup's link count is two plus the number of its children. This saves listing the files of cgroups without children.
        if self.live
            && dir.starts_with(&self.cgroup)
            && fs::metadata(dir).is_ok_and(|found| found.nlink() == 2)
        {
            return Ok(Vec::new());
        }
        // An entry that is removed during the listing is left out.
        listed(dir, |entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    }
}

fn listed(dir: &Path, wanted: impl Fn(&fs::DirEntry) -> bool) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if wanted(&entry) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Kernel files report size 0 and are usually short. A buffer of one page avoids reallocation.
fn read_whole(file: fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        match read(&file, spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if bytes.len() == bytes.capacity() {
            bytes.reserve(bytes.len() * 3);
        }
    }
}

/// Whether an error means that the file, or its thread or device, does not exist.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV | libc::ENOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_others_in_it_is_told_by_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root { cgroup: dir.path().to_owned(), ..Root::live(dir.path().join("state")) };
        fs::write(dir.path().join("tasks"), "7").unwrap();
        assert_eq!(root.dirs(dir.path()).unwrap(), Vec::<String>::new());
        fs::create_dir(dir.path().join("b")).unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        assert_eq!(root.dirs(dir.path()).unwrap(), ["a", "b"]);
        fs::remove_dir(dir.path().join("a")).unwrap();
        assert_eq!(root.dirs(dir.path()).unwrap(), ["b"]);
        assert_eq!(root.dirs(&dir.path().join("none")).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_lies_in_a_captured_root_is_neither_waited_for_nor_read_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        let (fifo, long) = (dir.path().join("fifo"), dir.path().join("long"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        fs::File::create(&long).unwrap().set_len(30 << 30).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
        for (name, kind) in [
            ("fifo", io::ErrorKind::InvalidInput),
            ("zero", io::ErrorKind::InvalidInput),
            ("long", io::ErrorKind::FileTooLarge),
        ] {
            let path = dir.path().join(name);
            assert_eq!(root.read(&path).unwrap_err().kind(), kind, "{name}");
            assert_eq!(root.read_value(&path).unwrap_err().kind(), kind, "{name}");
        }
        assert_eq!(root.read(&dir.path().join("none")).unwrap(), None);
    }
}
