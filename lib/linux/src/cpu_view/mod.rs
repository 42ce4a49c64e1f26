//! A private view of the CPUs: a program in it sees only the CPUs that it may use.
//!
//! # Contents
//!
//! The view shows a machine on which the CPUs of other sets are not plugged in. Kernels have such a state, so programs can cope
//! with it. These CPUs are missing from `/proc/cpuinfo`, `/proc/stat`, `online`, `present` and the directories `cpuN`, and are
//! listed in `offline`. `possible` and `kernel_max` are unchanged: they bound the CPU numbers that can ever appear, programs size
//! arrays by them, and the CPUs of a program can change at any time. CPU numbers are the real ones, as `sched_getcpu` returns
//! them.
//!
//! # Implementation
//!
//! ```text
//!   /proc/cpuinfo, /proc/stat   ◀─bind── files of a small tmpfs, rewritten in place
//!   /sys/devices/system/cpu     ◀─bind── a directory of it: our lists; cpuN ◀─bind── the real ones; the rest ◀─bind── the real ones
//! ```
//!
//! All of it is in a mount namespace. The calling thread creates it, its children inherit it, and it ends with its last process,
//! so nothing needs to be undone. Later mounts elsewhere propagate into the namespace (it is a *slave*), and none propagate out
//! of it.

mod texts;

use crate::{Os, Root};
use millpond_machine::Absent;
use millpond_model::{CpuId, CpuSet};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Name of the tmpfs directory that replaces the directory of CPUs.
const SHOWN: &str = "cpu";
const PRIVATE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);
/// The lists that we write. All other entries are the kernel's.
const LISTS: [&str; 3] = ["online", "present", "offline"];

/// The view of the thread that made it, and of its children.
pub struct CpuView {
    os: Os,
    /// The kernel's directory of CPUs, below our mounts.
    real: OwnedFd,
    /// Our directory, where it can be written.
    shown: OwnedFd,
    /// Its path as programs see it.
    place: PathBuf,
    cpuinfo: Pair,
    stat: Pair,
    lists: [InPlaceFile; 3],
    possible: CpuSet,
    /// The CPUs with a directory.
    dirs: BTreeSet<CpuId>,
    cpus: Option<CpuSet>,
}

/// A kernel file and its replacement.
struct Pair {
    real: File,
    sheet: InPlaceFile,
}

/// A file that is rewritten in place, so that bind mounts and open files see the new text.
struct InPlaceFile {
    file: File,
    length: usize,
}

impl InPlaceFile {
    /// A reader sees the old text or the new one, or for a moment the new one followed by empty lines.
    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.len() < self.length {
            bytes.resize(self.length, b'\n');
        }
        self.file.write_all_at(&bytes, 0)?;
        if bytes.len() > text.len() {
            self.file.set_len(text.len() as u64)?;
        }
        self.length = text.len();
        Ok(())
    }
}

impl Pair {
    fn read(&mut self) -> io::Result<String> {
        self.real.rewind()?;
        let mut bytes = Vec::new();
        self.real.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl CpuView {
    /// Moves the calling thread into a new mount namespace and mounts the view. It shows all CPUs until [`CpuView::show`] is
    /// called. The thread cannot leave the namespace. It should end soon after, or serve the view.
    ///
    /// # Errors
    /// [`Absent`]: no rights, a kernel without mount namespaces, or a `/proc` of another PID namespace. The thread should then
    /// end.
    pub fn lay(root: &Root) -> Result<CpuView, Absent> {
        root.running(|| Absent::because("programs run on the machine at hand only"))?;
        own_proc(root)?;
        // SAFETY: only the mount namespace of this thread is unshared, and with it its working directory and root. The table of
        // file descriptors stays shared with the other threads, so their descriptors stay valid.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|error| refused(error.into()))?;
        let failed = |what: &'static str| move |error: io::Error| unusable(what, &error);
        let step = |what: &'static str| move |error: rustix::io::Errno| unusable(what, &error.into());
        // Our mounts must not propagate out. Other mounts still propagate in.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
            .map_err(step("the mounts cannot be made private"))?;
        CpuView::mounted(root).map_err(failed("the view cannot be laid"))
    }

    fn mounted(root: &Root) -> io::Result<CpuView> {
        let os = Os::new(root.clone());
        let place = root.sys.join("devices/system/cpu");
        let look = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let real = openat(rustix::fs::CWD, &place, look, Mode::empty())?;
        let (info_place, stat_place) = (root.proc.join("cpuinfo"), root.proc.join("stat"));
        let (info_real, stat_real) = (File::open(&info_place)?, File::open(&stat_place)?);
        let options: Option<&CStr> = Some(c"mode=755,size=64m");
        mount(c"millpond", &place, c"tmpfs", PRIVATE, options)?;
        let tmp = openat(rustix::fs::CWD, &place, look, Mode::empty())?;
        mkdirat(&tmp, SHOWN, Mode::from_raw_mode(0o755))?;
        let shown = openat(&tmp, SHOWN, look, Mode::empty())?;
        let cpuinfo = Pair { real: info_real, sheet: sheet(&tmp, "cpuinfo")? };
        let stat = Pair { real: stat_real, sheet: sheet(&tmp, "stat")? };
        let [online, present, offline] = LISTS.map(|name| sheet(&shown, name));
        let lists = [online?, present?, offline?];
        let possible = os.possible().clone();
        let dirs = BTreeSet::new();
        let cpus = None;
        let mut view = CpuView { os, real, shown, place, cpuinfo, stat, lists, possible, dirs, cpus };
        // Write the texts before mounting, so that no reader sees an empty file.
        let all = view.online()?;
        view.write(&all)?;
        for (name, over) in [("cpuinfo", &info_place), ("stat", &stat_place)] {
            mount_bind(view.place.join(name), over)?;
            read_only(over)?;
        }
        mount_bind(view.place.join(SHOWN), &view.place)?;
        read_only(&view.place)?;
        for name in rest(&view.real)? {
            bind_rest(&view.real, &view.shown, &view.place, &name)?;
        }
        view.show(&all)?;
        Ok(view)
    }

    /// Shows those of `cpus` that are on-line, and no others.
    ///
    /// # Errors
    /// The system's error, if a file or a directory cannot be updated. The others are updated.
    pub fn show(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let cpus = cpus & &self.online()?;
        if self.cpus.as_ref() == Some(&cpus) {
            return Ok(());
        }
        // Directories are created before a list names them, and removed after.
        let wanted: BTreeSet<CpuId> = cpus.iter().collect();
        let coming: Vec<CpuId> = wanted.difference(&self.dirs).copied().collect();
        let come = coming.into_iter().map(|cpu| self.come(cpu)).fold(Ok(()), io::Result::and);
        self.write(&cpus)?;
        let going: Vec<CpuId> = self.dirs.difference(&wanted).copied().collect();
        let gone = going.into_iter().map(|cpu| self.go(cpu)).fold(Ok(()), io::Result::and);
        self.cpus = Some(cpus);
        come.and(gone)
    }

    /// Updates the times in `/proc/stat`.
    ///
    /// # Errors
    /// The system's error.
    pub fn refresh(&mut self) -> io::Result<()> {
        let Some(cpus) = &self.cpus else { return Ok(()) };
        let text = texts::stat(&self.stat.read()?, cpus);
        self.stat.sheet.write(&text)
    }

    /// The CPUs that the cgroup of a process allows, regardless of its own mask. `None` when the process has ended.
    #[must_use]
    pub fn allowed(&self, pid: u32) -> Option<CpuSet> {
        let place = self.os.place(pid, None).ok()??;
        let file = if self.os.hierarchy.is_v1() { "cpuset.effective_cpus" } else { "cpuset.cpus.effective" };
        let mut path = place.as_str();
        loop {
            let dir = self.os.group(if path.is_empty() { "/" } else { path }).ok()?;
            if let Some(text) = self.os.root.read_value(&dir.join(file)).ok().flatten() {
                return text.parse().ok();
            }
            // Without the controller, a cgroup has the CPUs of its parent.
            path = path.trim_end_matches('/').rsplit_once('/')?.0;
        }
    }

    fn online(&self) -> io::Result<CpuSet> {
        let file = openat(&self.real, "online", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        text.trim_end().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
    }

    fn write(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let info = texts::cpuinfo(&self.cpuinfo.read()?, cpus);
        let stat = texts::stat(&self.stat.read()?, cpus);
        let absent = &self.possible - cpus;
        let [online, present, offline] = &mut self.lists;
        offline.write(&texts::list(&absent))?;
        present.write(&texts::list(cpus))?;
        online.write(&texts::list(cpus))?;
        self.cpuinfo.sheet.write(&info)?;
        self.stat.sheet.write(&stat)
    }

    fn come(&mut self, cpu: CpuId) -> io::Result<()> {
        let name = format!("cpu{cpu}");
        match mkdirat(&self.shown, &name, Mode::from_raw_mode(0o755)) {
            Err(error) if error != rustix::io::Errno::EXIST => return Err(error.into()),
            _ => {}
        }
        mount_bind_recursive(beneath(&self.real, &name), self.place.join(&name))?;
        self.dirs.insert(cpu);
        Ok(())
    }

    fn go(&mut self, cpu: CpuId) -> io::Result<()> {
        let name = format!("cpu{cpu}");
        self.dirs.remove(&cpu);
        // Detached, because a process may have it as working directory.
        unmount(self.place.join(&name), UnmountFlags::DETACH)?;
        Ok(unlinkat(&self.shown, &name, AtFlags::REMOVEDIR)?)
    }
}

/// A path to an entry of an open directory, also if another mount covers the directory.
fn beneath(dir: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}

/// A new file that every user may read.
fn sheet(dir: &OwnedFd, name: &str) -> io::Result<InPlaceFile> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::from_raw_mode(0o644))?);
    Ok(InPlaceFile { file, length: 0 })
}

/// The entries of the kernel's directory other than CPUs and our lists.
fn rest(real: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(beneath(real, ""))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if texts::directory_of(&name).is_none() && !LISTS.contains(&name.as_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Binds one of these entries into our directory.
fn bind_rest(real: &OwnedFd, shown: &OwnedFd, place: &Path, name: &str) -> io::Result<()> {
    let from = beneath(real, name);
    if from.is_dir() {
        mkdirat(shown, name, Mode::from_raw_mode(0o755))?;
        return Ok(mount_bind_recursive(from, place.join(name))?);
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(shown, name, flags, Mode::from_raw_mode(0o644))?);
    Ok(mount_bind(from, place.join(name))?)
}

/// Makes a mount read-only.
fn read_only(place: &Path) -> io::Result<()> {
    Ok(mount_remount(place, MountFlags::BIND | MountFlags::RDONLY | PRIVATE, c"")?)
}

/// Whether `/proc` shows the processes of our own PID namespace. Otherwise the texts would be about other processes.
fn own_proc(root: &Root) -> Result<(), Absent> {
    let shown = std::fs::read_link(root.proc.join("self")).ok();
    let is_own = shown.is_some_and(|link| link.as_os_str() == std::process::id().to_string().as_str());
    let why = "the processes in /proc are those of another process namespace";
    if is_own { Ok(()) } else { Err(Absent::with_help(why, "mount -t proc proc /proc")) }
}

fn refused(error: io::Error) -> Absent {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Absent::with_help(
            "a private mount namespace needs the capability CAP_SYS_ADMIN",
            "run it as the superuser; without --view the program still sees its size by sched_getaffinity (nproc)",
        ),
        Some(libc::ENOSYS | libc::EINVAL) => Absent::with_help(
            "the kernel has no mount namespaces",
            "without --view the program still sees its size by sched_getaffinity (nproc)",
        ),
        Some(libc::ENOSPC | libc::EUSERS) => Absent::with_help(
            "there are as many mount namespaces as may be",
            "raise user.max_mnt_namespaces (sysctl)",
        ),
        _ => unusable("a private mount namespace cannot be had", &error),
    }
}

fn unusable(what: &str, error: &io::Error) -> Absent {
    let absent = Absent::because(format!("{what}: {error}"));
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Absent {
            what_would_help: Some(
                "mounts need CAP_SYS_ADMIN, and a container's profile that allows them".into(),
            ),
            ..absent
        },
        Some(libc::ENODEV) => {
            Absent { what_would_help: Some("the kernel needs tmpfs (CONFIG_TMPFS)".into()), ..absent }
        }
        _ => absent,
    }
}

#[cfg(test)]
mod tests;
