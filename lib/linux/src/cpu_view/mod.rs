//! A private view: what a program sees of the machine's CPUs when it should see only those that it may use.
//!
//! # What is shown
//!
//! The machine as if CPUs of other sets were not plugged in, which is a state that kernels know and programs have to cope
//! with: they are missing in `/proc/cpuinfo`, `/proc/stat`, `online`, `present` and among the directories `cpuN`, and are in `offline`.
//! `possible` and `kernel_max` stay as they are: they bound the numbers that CPUs can ever have, programs lay out arrays by them, and
//! a program's CPUs can become others at any time. Numbers are the real ones, as `sched_getcpu` gives them.
//!
//! # How
//!
//! ```text
//!   /proc/cpuinfo, /proc/stat   ◀─bind── files of a small tmpfs, rewritten in place
//!   /sys/devices/system/cpu     ◀─bind── a directory of it: our lists; cpuN ◀─bind── the real ones; the rest ◀─bind── the real ones
//! ```
//!
//! All of it is in a mount namespace that begins with the calling thread, is inherited by what that thread starts, and ends with the last
//! process in it: nothing has to be put back. What is mounted elsewhere later still arrives there (the namespace is a *slave*), and nothing
//! leaves it.

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

/// The directory of the tmpfs that is shown as the CPUs' one.
const SHOWN: &str = "cpu";
const PRIVATE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);
/// Lists that are ours; everything else that stands beside them is the kernel's.
const LISTS: [&str; 3] = ["online", "present", "offline"];

/// A view, for the thread that made it and for what it starts.
pub struct CpuView {
    os: Os,
    /// The kernel's directory of CPUs, under our mounts.
    real: OwnedFd,
    /// Ours, where it can be written.
    shown: OwnedFd,
    /// Where programs find it.
    place: PathBuf,
    cpuinfo: Pair,
    stat: Pair,
    lists: [InPlaceFile; 3],
    possible: CpuSet,
    /// The CPUs with a directory.
    dirs: BTreeSet<CpuId>,
    cpus: Option<CpuSet>,
}

/// A file of the kernel's, and what is shown in its place.
struct Pair {
    real: File,
    sheet: InPlaceFile,
}

/// A file that is rewritten in place, so that bind mounts and open files follow.
struct InPlaceFile {
    file: File,
    length: usize,
}

impl InPlaceFile {
    /// A reader sees the old text or the new one, or for an instant the new one with empty lines behind it.
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
    /// Takes the calling thread into a mount namespace of its own and lays the view over what is there. It shows all CPUs until
    /// [`CpuView::show`]. The thread cannot go back; it should end soon after, or serve the view.
    ///
    /// # Errors
    /// [`Absent`]: no rights, a kernel without mount namespaces, a `/proc` of other processes than ours. The thread should end then.
    pub fn lay(root: &Root) -> Result<CpuView, Absent> {
        root.running(|| Absent::because("programs run on the machine at hand only"))?;
        own_proc(root)?;
        // SAFETY: only the mount namespace, and with it the working directory and the root of this thread, become its own: the table of
        // files stays shared with the other threads, so that what they hold stays valid.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|error| refused(error.into()))?;
        let failed = |what: &'static str| move |error: io::Error| unusable(what, &error);
        let step = |what: &'static str| move |error: rustix::io::Errno| unusable(what, &error.into());
        // Nothing of ours may leave; what others mount still arrives.
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
        // The texts first: nobody finds an empty file.
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

    /// Shows these CPUs, of those that are on-line, and no others.
    ///
    /// # Errors
    /// The system's, when a file or a directory cannot follow. What could follow does.
    pub fn show(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let cpus = cpus & &self.online()?;
        if self.cpus.as_ref() == Some(&cpus) {
            return Ok(());
        }
        // Directories are there before a list names them, and go after.
        let wanted: BTreeSet<CpuId> = cpus.iter().collect();
        let coming: Vec<CpuId> = wanted.difference(&self.dirs).copied().collect();
        let come = coming.into_iter().map(|cpu| self.come(cpu)).fold(Ok(()), io::Result::and);
        self.write(&cpus)?;
        let going: Vec<CpuId> = self.dirs.difference(&wanted).copied().collect();
        let gone = going.into_iter().map(|cpu| self.go(cpu)).fold(Ok(()), io::Result::and);
        self.cpus = Some(cpus);
        come.and(gone)
    }

    /// Brings what changes by itself up to date: the times in `/proc/stat`.
    ///
    /// # Errors
    /// The system's.
    pub fn refresh(&mut self) -> io::Result<()> {
        let Some(cpus) = &self.cpus else { return Ok(()) };
        let text = texts::stat(&self.stat.read()?, cpus);
        self.stat.sheet.write(&text)
    }

    /// The CPUs that a process may use by where it stands, whatever it asked for itself. `None` when it is gone.
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
            // Without the controller a group shares what the one above it has.
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
        // Who stands in it may stay.
        unmount(self.place.join(&name), UnmountFlags::DETACH)?;
        Ok(unlinkat(&self.shown, &name, AtFlags::REMOVEDIR)?)
    }
}

/// A path to what lies in a directory that is open, also under a mount.
fn beneath(dir: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}

/// A file of ours that everybody may read.
fn sheet(dir: &OwnedFd, name: &str) -> io::Result<InPlaceFile> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::from_raw_mode(0o644))?);
    Ok(InPlaceFile { file, length: 0 })
}

/// What stands in the kernel's directory beside CPUs and our lists.
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

/// Lays one of these into our directory.
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

/// What is mounted there cannot be written by that way.
fn read_only(place: &Path) -> io::Result<()> {
    Ok(mount_remount(place, MountFlags::BIND | MountFlags::RDONLY | PRIVATE, c"")?)
}

/// Whether the processes that `/proc` shows are those of our namespace of numbers: what is shown of processes would be others' otherwise.
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
