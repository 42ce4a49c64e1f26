//! A synthetic machine: a directory with just the files that this crate reads.

#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the test of descriptors uses a part")]

pub mod commands;
pub mod shape;

use millpond_linux::{LinuxMachine, Root};
use millpond_machine::{Journal, MemoryJournal};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A synthetic root in a temporary directory.
pub struct HandMade {
    pub dir: tempfile::TempDir,
    pub v1: bool,
}

impl HandMade {
    /// `cpus` CPUs, two strands per core, one node; cgroup version 2 or 1.
    pub fn new(cpus: u32, v1: bool) -> HandMade {
        // On a tmpfs if possible, because labels are synced to disk.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let made = HandMade { dir, v1 };
        let all = format!("0-{}", cpus - 1);
        made.file("proc/stat", "btime 1732090442\n");
        made.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 58\nstepping\t: 9\nmodel name\t: Some CPU\ncpu MHz\t\t: 2600.000\nfpu\t\t: yes\n");
        made.file("proc/sys/kernel/osrelease", "6.17.0\n");
        made.file("proc/sys/kernel/random/boot_id", "one\n");
        for name in ["possible", "present", "online"] {
            made.file(&format!("sys/devices/system/cpu/{name}"), &format!("{all}\n"));
        }
        for cpu in 0..cpus {
            let dir = format!("sys/devices/system/cpu/cpu{cpu}");
            let first = cpu / 2 * 2;
            made.file(&format!("{dir}/topology/core_cpus_list"), &format!("{first}-{}\n", first + 1));
            made.file(&format!("{dir}/topology/physical_package_id"), "0\n");
            if cpu > 0 {
                made.file(&format!("{dir}/online"), "1\n");
            }
        }
        made.file("proc/irq/default_smp_affinity", &format!("{:x}\n", (1u64 << cpus) - 1));
        for irq in 24..28 {
            made.file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("{all}\n"));
            made.file(&format!("proc/irq/{irq}/eth0-rx-{irq}/.keep"), "");
        }
        made.file("sys/devices/virtual/workqueue/cpumask", &format!("{:x}\n", (1u64 << cpus) - 1));
        if v1 {
            made.file("cgroup/cpuset/cpuset.cpus", &format!("{all}\n"));
            made.file("cgroup/cpuset/cpuset.mems", "0\n");
            made.file("cgroup/cpuset/cgroup.procs", "");
            made.file("cgroup/cpuset/tasks", "");
        } else {
            made.file("cgroup/cgroup.controllers", "cpuset cpu memory\n");
            made.file("cgroup/cgroup.subtree_control", "");
            made.file("cgroup/cgroup.procs", "");
            made.file("cgroup/cgroup.threads", "");
        }
        fs::create_dir_all(made.dir.path().join("state")).unwrap();
        made.process(1, &[1], "init", 0);
        made
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path))
            .unwrap_or_else(|_| "(absent)".into())
            .trim_end()
            .to_owned()
    }

    pub fn group_root(&self) -> &'static str {
        if self.v1 { "cgroup/cpuset" } else { "cgroup" }
    }

    /// Adds a process to the root cgroup.
    pub fn process(&self, pid: u32, tids: &[u32], name: &str, flags: u64) {
        let cgroup = if self.v1 { "1:cpuset:/\n" } else { "0::/\n" };
        let stat = |tid: u32| {
            format!("{tid} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", 1000 + tid)
        };
        self.file(&format!("proc/{pid}/stat"), &stat(pid));
        self.file(&format!("proc/{pid}/cgroup"), cgroup);
        for tid in tids {
            self.file(&format!("proc/{pid}/task/{tid}/stat"), &stat(*tid));
            self.file(&format!("proc/{pid}/task/{tid}/cgroup"), cgroup);
            if tid != &pid {
                self.file(&format!("proc/{tid}/stat"), &stat(*tid));
            }
            self.file(&format!("proc/{tid}/status"), &format!("Name:\t{name}\nTgid:\t{pid}\n"));
            self.note("tasks", *tid);
            self.note("cgroup.threads", *tid);
        }
        self.note("cgroup.procs", pid);
    }

    fn note(&self, file: &str, number: u32) {
        self.note_in("/", file, number, true);
    }

    /// Adds a foreign cgroup without tasks. `partition` is the text of its partition file (version 2).
    pub fn group(&self, path: &str, cpus: &str, partition: &str) {
        let dir = format!("{}/{path}", self.group_root());
        self.file(&format!("{dir}/cpuset.cpus"), &format!("{cpus}\n"));
        self.file(&format!("{dir}/cgroup.procs"), "");
        if self.v1 {
            self.file(&format!("{dir}/tasks"), "");
            self.file(&format!("{dir}/cpuset.mems"), "0\n");
        } else {
            self.file(&format!("{dir}/cgroup.threads"), "");
            self.file(&format!("{dir}/cpuset.cpus.partition"), &format!("{partition}\n"));
            self.file(&format!("{dir}/cgroup.subtree_control"), "");
        }
    }

    /// Moves a thread of the root cgroup, or the first one of a process, to another cgroup.
    pub fn put(&self, pid: u32, tid: u32, group: &str) {
        for file in ["tasks", "cgroup.threads"] {
            self.note_in("/", file, tid, false);
            self.note_in(group, file, tid, true);
        }
        let line = if self.v1 { format!("1:cpuset:{group}\n") } else { format!("0::{group}\n") };
        self.file(&format!("proc/{pid}/task/{tid}/cgroup"), &line);
        if pid == tid {
            self.note_in("/", "cgroup.procs", pid, false);
            self.note_in(group, "cgroup.procs", pid, true);
            self.file(&format!("proc/{pid}/cgroup"), &line);
        }
    }

    /// Moves a single-threaded process to another cgroup, as the kernel does.
    pub fn moved(&self, pid: u32, from: &str, to: &str) {
        for file in ["tasks", "cgroup.threads", "cgroup.procs"] {
            self.note_in(from, file, pid, false);
            self.note_in(to, file, pid, true);
        }
        let line = if self.v1 { format!("1:cpuset:{to}\n") } else { format!("0::{to}\n") };
        self.file(&format!("proc/{pid}/cgroup"), &line);
        self.file(&format!("proc/{pid}/task/{pid}/cgroup"), &line);
    }

    /// Adds a number to a task list of a cgroup, or removes it.
    fn note_in(&self, group: &str, file: &str, number: u32, add: bool) {
        let dir = self.dir.path().join(self.group_root()).join(group.trim_start_matches('/'));
        let Ok(text) = fs::read_to_string(dir.join(file)) else { return };
        let mut numbers: Vec<u32> =
            text.lines().map(|l| l.parse().unwrap()).filter(|n| *n != number).collect();
        if add {
            numbers.push(number);
            numbers.sort_unstable();
        }
        fs::write(dir.join(file), numbers.iter().map(|n| format!("{n}\n")).collect::<String>()).unwrap();
    }

    fn group_of(&self, pid: u32, tid: u32) -> String {
        let line = self.read(&format!("proc/{pid}/task/{tid}/cgroup"));
        line.rsplit_once(':').unwrap().1.to_owned()
    }

    /// Adds a forked thread or process, with the cgroup and the mask of its creator.
    pub fn born(&self, pid: u32, tid: u32, creator: (u32, u32)) {
        let group = self.group_of(creator.0, creator.1);
        let mask = self.read(&format!("proc/{}/task/{}/mask", creator.0, creator.1));
        if pid == tid {
            self.process(pid, &[pid], "child", 0);
            let stat = self
                .read(&format!("proc/{pid}/stat"))
                .replace(" S 1 1 1 ", &format!(" S {} 1 1 ", creator.0));
            for path in [format!("proc/{pid}/stat"), format!("proc/{pid}/task/{pid}/stat")] {
                self.file(&path, &(stat.clone() + "\n"));
            }
        } else {
            let stat = self.read(&format!("proc/{pid}/stat"));
            let stat = stat.replacen(&pid.to_string(), &tid.to_string(), 1);
            let stat = stat.replace(&format!(" {} 0 0", 1000 + pid), &format!(" {} 0 0", 1000 + tid));
            for path in [format!("proc/{pid}/task/{tid}/stat"), format!("proc/{tid}/stat")] {
                self.file(&path, &(stat.clone() + "\n"));
            }
            self.file(&format!("proc/{tid}/status"), &format!("Name:\tchild\nTgid:\t{pid}\n"));
        }
        self.put(pid, tid, &group);
        if mask != "(absent)" {
            self.file(&format!("proc/{pid}/task/{tid}/mask"), &mask);
        }
    }

    /// Ends a process.
    pub fn exit(&self, pid: u32) {
        let proc = self.dir.path().join("proc");
        for entry in fs::read_dir(proc.join(pid.to_string()).join("task")).unwrap() {
            let tid: u32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
            let group = self.group_of(pid, tid);
            for file in ["tasks", "cgroup.threads", "cgroup.procs"] {
                self.note_in(&group, file, tid, false);
            }
            if tid != pid {
                fs::remove_dir_all(proc.join(tid.to_string())).unwrap();
            }
        }
        fs::remove_dir_all(proc.join(pid.to_string())).unwrap();
    }

    pub fn machine(&self) -> LinuxMachine {
        self.machine_with(Box::new(MemoryJournal::default()))
    }

    pub fn machine_with(&self, journal: Box<dyn Journal>) -> LinuxMachine {
        LinuxMachine::open(Root::captured(self.dir.path()), journal)
    }

    /// The text of every file, for comparisons.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        collect(self.dir.path(), &mut files);
        files
    }
}

fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() || (kind.is_symlink() && path.is_dir()) {
            files.insert(path.clone(), "(directory)".into());
            collect(&path, files);
        } else {
            let mut numbers: Vec<_> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
            numbers.sort();
            files.insert(path, numbers.join("\n"));
        }
    }
}
