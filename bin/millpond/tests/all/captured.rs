//! The program on a captured machine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

pub fn millpond() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().env("TZ", "UTC0").env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

pub fn run<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Output {
    millpond().args(words).output().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A synthetic tree of a machine with four CPUs and two programs: cgroup version 1.
pub struct Captured(tempfile::TempDir);

impl Captured {
    pub fn new() -> Self {
        let made = Captured(tempfile::tempdir().unwrap());
        made.file("proc/stat", "btime 1732090442\n");
        made.file(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU\nfpu\t\t: yes\n",
        );
        made.file("proc/sys/kernel/osrelease", "6.17.0\n");
        made.file("proc/sys/kernel/random/boot_id", "one\n");
        for name in ["possible", "present", "online"] {
            made.file(&format!("sys/devices/system/cpu/{name}"), "0-3\n");
        }
        for cpu in 0..4 {
            let dir = format!("sys/devices/system/cpu/cpu{cpu}");
            made.file(&format!("{dir}/topology/core_cpus_list"), &format!("{cpu}\n"));
            made.file(&format!("{dir}/topology/physical_package_id"), "0\n");
            made.file(&format!("{dir}/online"), "1\n");
        }
        made.file("proc/irq/default_smp_affinity", "f\n");
        made.file("cgroup/cpuset/cpuset.cpus", "0-3\n");
        made.file("cgroup/cpuset/cpuset.mems", "0\n");
        made.file("cgroup/cpuset/cgroup.procs", "1\n77\n");
        made.file("cgroup/cpuset/tasks", "1\n77\n");
        fs::create_dir_all(made.dir().join("state")).unwrap();
        for pid in [1, 77] {
            let stat = format!("{pid} (some) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", 1000 + pid);
            made.file(&format!("proc/{pid}/stat"), &stat);
            made.file(&format!("proc/{pid}/task/{pid}/stat"), &stat);
            made.file(&format!("proc/{pid}/cgroup"), "1:cpuset:/\n");
            made.file(&format!("proc/{pid}/task/{pid}/cgroup"), "1:cpuset:/\n");
            made.file(&format!("proc/{pid}/status"), &format!("Name:\tsome\nTgid:\t{pid}\n"));
        }
        made
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.dir().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn journal(&self) -> PathBuf {
        self.dir().join("state/journal")
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = millpond();
        command.arg(words[0]).arg("--root").arg(self.dir()).args(&words[1..]);
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}
