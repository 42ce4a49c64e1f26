//! CPU caps and weights: how much time one process may use, or how much it counts, in a cgroup of its own that lives as long as that.
//!
//! They say how much time a program gets and not where; they are here for comparison with sets, which do the opposite. They
//! are for processes that we started and will end: nothing of it is journalled, and a process that outlives its group goes to
//! the root cgroup. What a killed owner left behind is swept by the next one.

use crate::Root;
use millpond_machine::Absent;
use millpond_model::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time is handed out anew this often: the kernel's own default.
const PERIOD_US: u64 = 100_000;

/// What who says nothing has in version 1, and the least.
const SHARES: u64 = 1_024;
const SHARES_MIN: u64 = 2;

/// Our cgroups are called by this and the number of the process.
const PREFIX: &str = "mpcap-";

/// A limit that is in force until it is dropped.
#[derive(Debug)]
pub struct Cap {
    group: PathBuf,
    mount: PathBuf,
    /// Whether we had to hand the controller down from the root, and take it back at the end.
    enabled: bool,
}

/// Where the controller of processor time is.
enum Controller {
    V1(PathBuf),
    V2(PathBuf),
}

impl Cap {
    /// Limits the process, and what it will start, to `percent` of one processor's time, on whichever processors it
    /// runs.
    ///
    /// # Errors
    /// [`Absent`] when this machine has no such limit, or we may not set it. Nothing is left behind then.
    pub fn place(root: &Root, pid: Pid, percent: u32) -> Result<Cap, Absent> {
        let controller = Controller::find(root)?;
        if let Controller::V1(mount) = &controller
            && mount.join("cpu.shares").exists()
            && !has_quota(mount)
        {
            return Err(Absent::because("the kernel has no quota on processor time"));
        }
        let quota = u64::from(percent) * PERIOD_US / 100;
        Cap::put(root, pid, &controller, |group| match &controller {
            Controller::V1(_) => {
                write(&group.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&group.join("cpu.cfs_quota_us"), &quota.to_string())
            }
            Controller::V2(_) => write(&group.join("cpu.max"), &format!("{quota} {PERIOD_US}")),
        })
    }

    /// Lets the process, and what it will start, count for so much beside others when they want the same processors: `weight` is from 1 to 10000, and
    /// who says nothing has 100.
    ///
    /// # Errors
    /// As [`Cap::place`].
    pub fn weigh(root: &Root, pid: Pid, weight: u32) -> Result<Cap, Absent> {
        let controller = Controller::find(root)?;
        Cap::put(root, pid, &controller, |group| match &controller {
            Controller::V1(_) => {
                let shares = (u64::from(weight) * SHARES / 100).max(SHARES_MIN);
                write(&group.join("cpu.shares"), &shares.to_string())
            }
            Controller::V2(_) => write(&group.join("cpu.weight"), &weight.to_string()),
        })
    }

    /// Puts the process into a group of its own that is set so.
    fn put(
        root: &Root,
        pid: Pid,
        controller: &Controller,
        set: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<Cap, Absent> {
        let (Controller::V1(mount) | Controller::V2(mount)) = controller;
        sweep(root, mount);
        let group = mount.join(format!("{PREFIX}{}", pid.0));
        let enabled = controller.enable(root).map_err(|e| refused(&e))?;
        let cap = Cap { group, mount: mount.clone(), enabled };
        let limit = || {
            fs::create_dir(&cap.group)?;
            set(&cap.group)?;
            write(&cap.group.join("cgroup.procs"), &pid.0.to_string())
        };
        // Dropping the cap takes back what was done so far.
        limit().map_err(|e| refused(&e)).map(|()| cap)
    }
}

impl Drop for Cap {
    fn drop(&mut self) {
        release(&self.group, &self.mount);
        if self.enabled {
            let _ = write(&self.mount.join("cgroup.subtree_control"), "-cpu");
        }
    }
}

impl Controller {
    fn find(root: &Root) -> Result<Controller, Absent> {
        let v1 = root.cgroup.join("cpu");
        if v1.join("cgroup.procs").exists() {
            return Ok(Controller::V1(v1));
        }
        for v2 in [root.cgroup.clone(), root.cgroup.join("unified")] {
            let offered = root.read(&v2.join("cgroup.controllers")).ok().flatten().unwrap_or_default();
            if offered.split_ascii_whitespace().any(|word| word == "cpu") {
                return Ok(Controller::V2(v2));
            }
        }
        let help = "mount a cgroup hierarchy with the cpu controller";
        Err(Absent::with_help("there is no cgroup controller for processor time", help))
    }

    /// Hands the controller down to the children of the root where it is not; true when that was needed.
    fn enable(&self, root: &Root) -> io::Result<bool> {
        let Controller::V2(mount) = self else { return Ok(false) };
        let control = mount.join("cgroup.subtree_control");
        let handed_down = root.read(&control)?.unwrap_or_default();
        if handed_down.split_ascii_whitespace().any(|word| word == "cpu") {
            return Ok(false);
        }
        write(&control, "+cpu").map(|()| true)
    }
}

/// The root cgroup of version 1 has the files of the quota, with no limit in them.
fn has_quota(mount: &Path) -> bool {
    mount.join("cpu.cfs_quota_us").exists()
}

/// Removes groups of ours that nobody is in: those of an owner that was killed.
fn sweep(root: &Root, mount: &Path) {
    for name in root.names(mount).unwrap_or_default() {
        if name.starts_with(PREFIX) {
            let _ = fs::remove_dir(mount.join(name));
        }
    }
}

/// Lets out whoever is still in the group, and removes it.
fn release(group: &Path, mount: &Path) {
    let left = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in left.lines() {
        let _ = write(&mount.join("cgroup.procs"), pid);
    }
    let _ = fs::remove_dir(group);
}

/// Control files want everything in one call, and are never created.
fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
}

fn refused(error: &io::Error) -> Absent {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Absent::with_help(
            "processor time cannot be capped: permission denied",
            "this needs the rights of the superuser",
        ),
        io::ErrorKind::ReadOnlyFilesystem => {
            Absent::because("processor time cannot be capped: the cgroup tree is read-only")
        }
        _ => Absent::because(format!("processor time cannot be capped: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn root_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::paper(dir.path());
        (dir, root)
    }

    #[test]
    fn a_machine_without_the_controller_says_so() {
        let (_dir, root) = root_with(&[("cgroup/cgroup.controllers", "cpuset memory\n")]);
        let absent = Cap::place(&root, Pid(1), 100).unwrap_err();
        assert_eq!(absent.why, "there is no cgroup controller for processor time");
        let (_dir, root) = root_with(&[("cgroup/cpu/cgroup.procs", ""), ("cgroup/cpu/cpu.shares", "1024")]);
        let absent = Cap::place(&root, Pid(1), 100).unwrap_err();
        assert_eq!(absent.why, "the kernel has no quota on processor time");
    }

    #[test]
    fn what_cannot_be_set_leaves_nothing_behind() {
        // In a tree of plain files a new group has no files to write to.
        let files = [("cgroup/cgroup.controllers", "cpu"), ("cgroup/cgroup.subtree_control", "cpuset")];
        let (dir, root) = root_with(&files);
        assert!(Cap::place(&root, Pid(7), 100).is_err());
        assert!(!dir.path().join("cgroup/mpcap-7").exists());
        let control = fs::read_to_string(dir.path().join("cgroup/cgroup.subtree_control")).unwrap();
        assert!(control.starts_with("-cpu"), "the controller is taken back: {control}");
    }

    #[test]
    fn groups_of_a_killed_owner_are_swept() {
        let (dir, root) =
            root_with(&[("cgroup/cgroup.controllers", "cpu"), ("cgroup/cgroup.subtree_control", "cpu")]);
        fs::create_dir(dir.path().join("cgroup/mpcap-3")).unwrap();
        fs::create_dir(dir.path().join("cgroup/theirs")).unwrap();
        let _ = Cap::place(&root, Pid(7), 100);
        assert!(!dir.path().join("cgroup/mpcap-3").exists());
        assert!(dir.path().join("cgroup/theirs").exists());
    }

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_of_ours_is_capped_and_let_go() {
        let sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let sleeper = Sleeper(sleeper);
        let pid = Pid(sleeper.0.id());
        let root = Root::live(std::env::temp_dir());
        let groups = || fs::read_to_string(format!("/proc/{}/cgroup", pid.0)).unwrap();
        let before = groups();
        match Cap::weigh(&root, pid, 10_000) {
            Err(absent) => println!("skipped: a_process_of_ours_is_capped_and_let_go: {absent}"),
            Ok(weight) => {
                let read = |file: &str| fs::read_to_string(weight.group.join(file)).ok();
                let found = read("cpu.shares").or_else(|| read("cpu.weight")).unwrap();
                assert!(["102400", "10000"].contains(&found.trim()), "{found}");
            }
        }
        assert!(!groups().contains("mpcap"), "{}", groups());
        match Cap::place(&root, pid, 50) {
            Err(absent) => println!("skipped: a_process_of_ours_is_capped_and_let_go: {absent}"),
            Ok(cap) => {
                assert!(groups().contains(&format!("/mpcap-{}", pid.0)), "{}", groups());
                let limit = ["cpu.max", "cpu.cfs_quota_us"]
                    .iter()
                    .find_map(|f| fs::read_to_string(cap.group.join(f)).ok());
                assert!(limit.unwrap().starts_with("50000"));
                let group = cap.group.clone();
                drop(cap);
                assert!(!group.exists());
                assert!(!groups().contains("mpcap"), "{before} became {}", groups());
            }
        }
    }
}
