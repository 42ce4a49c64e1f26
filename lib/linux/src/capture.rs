//! Capture of a machine: copies the kernel files that this crate reads into a directory that can be opened as a root.
//!
//! Nothing else is copied. Strings that could name a person, a company or a host are replaced: names of user programs, names of
//! cgroups that the system did not make, the boot id. Equal names get equal replacements, so the structure of the machine is
//! preserved.

use crate::cpu_info::{ARCHITECTURE, architecture};
use crate::cpu_lists::{CACHE, CHIP, CORE, ListAndMask, NODE};
use crate::fs::label_file;
use crate::procfs::{parse_stat, raw_comm};
use crate::{Os, Root, controls, names, offline};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The boot id in the copy.
const BOOT: &str = "captured";

/// cgroup names that every machine has. They do not identify a machine.
const COMMON_GROUPS: [&str; 16] = [
    "system.slice",
    "user.slice",
    "machine.slice",
    "init.scope",
    "docker",
    "kubepods",
    "kubepods.slice",
    "unified",
    "cpuset",
    "cpu",
    "cpuacct",
    "cpu,cpuacct",
    "besteffort",
    "burstable",
    "mpdefault",
    "systemd",
];

/// Control files of a cgroup that are copied.
const GROUP_FILES: [&str; 22] = [
    "cgroup.controllers",
    "cgroup.subtree_control",
    "cgroup.procs",
    "cgroup.threads",
    "cgroup.type",
    "tasks",
    "cpuset.cpus",
    "cpuset.mems",
    "cpuset.cpus.partition",
    "cpuset.cpus.exclusive",
    "cpuset.cpus.effective",
    "cpuset.effective_cpus",
    "cpuset.cpu_exclusive",
    "cpuset.cpus.isolated",
    "cpu.weight",
    "cpu.max",
    "cpu.idle",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.stat",
    "cpuacct.usage",
];

/// Kernel settings that affect scheduling latency and OS noise.
const SETTINGS: [&str; 5] = [
    "sys/kernel/sched_rt_runtime_us",
    "sys/kernel/sched_rt_period_us",
    "sys/kernel/nmi_watchdog",
    "sys/kernel/watchdog",
    "sys/vm/stat_interval",
];

/// Words of the kernel command line that are copied. The others may name a disk, a network or a host.
const BOOT_WORDS: [&str; 3] = ["preempt", "threadirqs", "rcu_nocbs"];

/// Counts of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Captured {
    /// Files written.
    pub files: usize,
    /// Files that could not be read, mostly of processes that ended meanwhile.
    pub skipped: usize,
}

/// Copies the machine under `from` into the directory `into`, which must be empty or not exist.
///
/// # Errors
/// When `into` is not empty or cannot be written.
pub fn capture(from: &Root, into: &Path) -> io::Result<Captured> {
    if into.exists() && fs::read_dir(into)?.next().is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the directory is not empty"));
    }
    let mut work = Capture {
        from,
        os: Os::new(from.clone()),
        into,
        done: Captured::default(),
        groups: Aliases::new("group"),
        names: Aliases::new("program"),
    };
    work.proc()?;
    work.sys()?;
    let mount = from.cgroup.clone();
    work.cgroups(&mount, &into.join("cgroup"))?;
    fs::create_dir_all(into.join("state"))?;
    work.controls()?;
    let places = Path::new("records").join(offline::RECORD);
    work.copy(&from.state.join(&places), &into.join("state").join(&places))?;
    Ok(work.done)
}

struct Capture<'a> {
    from: &'a Root,
    os: Os,
    into: &'a Path,
    done: Captured,
    groups: Aliases,
    names: Aliases,
}

/// Stable replacements: the first new name gets 1, and so on.
struct Aliases {
    stem: &'static str,
    known: BTreeMap<String, usize>,
}

impl Aliases {
    fn new(stem: &'static str) -> Self {
        Aliases { stem, known: BTreeMap::new() }
    }

    fn get(&mut self, name: &str) -> String {
        let next = self.known.len() + 1;
        let number = *self.known.entry(name.to_owned()).or_insert(next);
        format!("{}{number}", self.stem)
    }
}

impl Capture<'_> {
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(path, text)?;
        self.done.files += 1;
        Ok(())
    }

    /// Copies a file unchanged. A file that cannot be read is counted as skipped.
    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut bytes = Vec::new();
        match self.from.open(from).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => self.write(to, &String::from_utf8_lossy(&bytes)),
            Err(error) => {
                self.done.skipped += usize::from(error.kind() != io::ErrorKind::NotFound);
                Ok(())
            }
        }
    }

    fn copy_named(&mut self, from: &Path, to: &Path, names: &[&str]) -> io::Result<()> {
        for name in names {
            self.copy(&from.join(name), &to.join(name))?;
        }
        Ok(())
    }

    /// Copies a CPU list, or the equivalent mask where the kernel has no list.
    fn copy_cpus(&mut self, from: &Path, to: &Path, [list, mask]: &ListAndMask) -> io::Result<()> {
        let name = if from.join(list).exists() { list } else { mask };
        self.copy(&from.join(name), &to.join(name))
    }

    /// Copies the words of a file that `wanted` accepts.
    fn words(&mut self, from: &Path, to: &Path, name: &str, wanted: impl Fn(&str) -> bool) -> io::Result<()> {
        let Ok(Some(text)) = self.from.read(&from.join(name)) else { return Ok(()) };
        let kept: Vec<&str> = text.split_whitespace().filter(|word| wanted(word)).collect();
        self.write(&to.join(name), &(kept.join(" ") + "\n"))
    }

    fn proc(&mut self) -> io::Result<()> {
        let (from, to) = (self.from.proc.clone(), self.into.join("proc"));
        let whole =
            ["stat", "cpuinfo", "interrupts", "softirqs", "schedstat", "uptime", "sys/kernel/osrelease"];
        self.copy_named(&from, &to, &whole)?;
        if let Some(name) = architecture(self.from) {
            self.write(&to.join(ARCHITECTURE), &format!("{name}\n"))?;
        }
        self.copy_named(&from, &to, &SETTINGS)?;
        self.words(&from, &to, "cmdline", |word| {
            BOOT_WORDS.contains(&word.split('=').next().unwrap_or(word))
        })?;
        // The rest names the build host and date.
        self.words(&from, &to, "sys/kernel/version", |word| word == "SMP" || word.starts_with("PREEMPT"))?;
        self.write(&to.join("sys/kernel/random/boot_id"), &format!("{BOOT}\n"))?;
        self.copy_named(&from.join("irq"), &to.join("irq"), &["default_smp_affinity"])?;
        for irq in self.from.names(&from.join("irq"))? {
            let (irq_from, irq_to) = (from.join("irq").join(&irq), to.join("irq").join(&irq));
            self.copy_named(&irq_from, &irq_to, &["smp_affinity_list", "effective_affinity_list"])?;
            for action in self.from.names(&irq_from)?.iter().filter(|n| irq_from.join(n).is_dir()) {
                fs::create_dir_all(irq_to.join(action))?;
            }
        }
        for pid in self.from.names(&from)?.iter().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) {
            self.process(&from.join(pid), &to.join(pid))?;
            for tid in self.from.names(&from.join(pid).join("task"))? {
                let task = Path::new(pid).join("task").join(&tid);
                self.process(&from.join(&task), &to.join(&task))?;
            }
        }
        Ok(())
    }

    fn process(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let Ok(Some(text)) = self.from.read(&from.join("stat")) else {
            self.done.skipped += 1;
            return Ok(());
        };
        let Some(stat) = parse_stat(&text) else { return Ok(()) };
        let raw = raw_comm(&text).unwrap_or_default();
        let comm = if stat.kernel { stat.comm } else { self.names.get(raw) };
        let text = text.replacen(&format!("({raw})"), &format!("({comm})"), 1);
        self.write(&to.join("stat"), &(text + "\n"))?;
        if let Ok(Some(status)) = self.from.read(&from.join("status")) {
            let kept: String = status
                .lines()
                .filter(|l| {
                    ["Tgid:", "Pid:", "PPid:", "Uid:", "Cpus_allowed"].iter().any(|k| l.starts_with(k))
                })
                .map(|l| format!("{l}\n"))
                .collect();
            self.write(&to.join("status"), &kept)?;
            let mask = kept.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
            if to.parent().is_some_and(|p| p.ends_with("task")) {
                self.write(&to.join("mask"), mask.unwrap_or_default().trim())?;
            }
        }
        if let Ok(Some(cgroup)) = self.from.read(&from.join("cgroup")) {
            let lines: Vec<String> = cgroup.lines().map(|l| self.cgroup_line(l)).collect();
            self.write(&to.join("cgroup"), &(lines.join("\n") + "\n"))?;
        }
        Ok(())
    }

    fn cgroup_line(&mut self, line: &str) -> String {
        match line.rsplit_once(":/") {
            Some((head, path)) => {
                let parts: Vec<String> =
                    path.split('/').filter(|p| !p.is_empty()).map(|p| self.group_name(p)).collect();
                format!("{head}:/{}", parts.join("/"))
            }
            None => line.to_owned(),
        }
    }

    /// The name of a cgroup in the copy. Names chosen by users are replaced.
    fn group_name(&mut self, name: &str) -> String {
        let ours = name.starts_with("mpset")
            || name.starts_with("mpcap-")
            || name.starts_with("from+")
            || name.starts_with("own+");
        if ours || COMMON_GROUPS.contains(&name) {
            return name.to_owned();
        }
        let suffix =
            [".slice", ".service", ".scope", ".mount", ".socket"].iter().find(|s| name.ends_with(**s));
        format!("{}{}", self.groups.get(name), suffix.copied().unwrap_or_default())
    }

    fn sys(&mut self) -> io::Result<()> {
        let base = self.from.sys.clone();
        let into = self.into.join("sys");
        let cpu = "devices/system/cpu";
        self.copy_named(
            &base.join(cpu),
            &into.join(cpu),
            &[
                "possible",
                "present",
                "online",
                "offline",
                "isolated",
                "smt/active",
                "smt/control",
                "nohz_full",
            ],
        )?;
        for name in self.from.names(&base.join(cpu))? {
            let numbered = name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
            if numbered {
                self.one_cpu(&base.join(cpu).join(&name), &into.join(cpu).join(&name))?;
            }
        }
        self.copy_named(&base, &into, &["kernel/realtime", "kernel/debug/sched/preempt"])?;
        let server = Path::new("kernel/debug/sched/fair_server");
        for name in self.from.names(&base.join(server)).unwrap_or_default() {
            self.copy_named(&base.join(server).join(&name), &into.join(server).join(&name), &["runtime"])?;
        }
        let node = "devices/system/node";
        for name in self.from.names(&base.join(node))?.iter().filter(|n| n.starts_with("node")) {
            let (from, to) = (base.join(node).join(name), into.join(node).join(name));
            self.copy_cpus(&from, &to, &NODE)?;
            self.copy_named(&from, &to, &["distance", "meminfo"])?;
        }
        self.copy_named(&base, &into, &["devices/cpu_core/cpus", "devices/cpu_atom/cpus"])?;
        let queue = "devices/virtual/workqueue";
        self.copy_named(&base.join(queue), &into.join(queue), &["cpumask"])?;
        for name in self.from.names(&base.join(queue))? {
            self.copy_named(&base.join(queue).join(&name), &into.join(queue).join(&name), &["cpumask"])?;
        }
        for interface in self.from.names(&base.join("class/net"))? {
            let path = Path::new("class/net").join(&interface).join("queues");
            for queue in self.from.names(&base.join(&path))? {
                let names = ["rps_cpus", "xps_cpus"];
                self.copy_named(&base.join(&path).join(&queue), &into.join(&path).join(&queue), &names)?;
            }
        }
        Ok(())
    }

    fn one_cpu(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let names = [
            "online",
            "topology/physical_package_id",
            "topology/core_id",
            "topology/die_id",
            "cpu_capacity",
            "cpufreq/base_frequency",
            "cpufreq/cpuinfo_max_freq",
            "cpufreq/scaling_governor",
        ];
        self.copy_named(from, to, &names)?;
        for files in CORE.iter().chain(&CHIP) {
            self.copy_cpus(&from.join("topology"), &to.join("topology"), files)?;
        }
        for name in self.from.names(from)?.iter().filter(|n| n.starts_with("node")) {
            fs::create_dir_all(to.join(name))?;
        }
        for state in self.from.names(&from.join("cpuidle"))?.iter().filter(|n| n.starts_with("state")) {
            let path = Path::new("cpuidle").join(state);
            self.copy_named(&from.join(&path), &to.join(&path), &["name", "latency", "disable"])?;
        }
        for index in self.from.names(&from.join("cache"))?.iter().filter(|n| n.starts_with("index")) {
            let path = Path::new("cache").join(index);
            self.copy_named(&from.join(&path), &to.join(&path), &["level", "type", "size"])?;
            self.copy_cpus(&from.join(&path), &to.join(&path), &CACHE)?;
        }
        Ok(())
    }

    /// The labels of one of our cgroups, in the form that captured roots use.
    fn labels(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let Some(path) = self.os.hierarchy.mount().and_then(|m| from.strip_prefix(m).ok()) else {
            return Ok(());
        };
        let path = format!("/{}", path.display());
        if names::owner(&path).is_some() {
            for key in ["set", "origin"] {
                if let Ok(Some(text)) = self.os.label(&path, key) {
                    self.write(&label_file(to, key), &text)?;
                }
            }
        }
        Ok(())
    }

    /// The record of shares and caps, with the cgroup names of the copy.
    fn controls(&mut self) -> io::Result<()> {
        let file = self.os.record_file(controls::RECORD);
        let Ok(Some(text)) = self.from.read(&file) else { return Ok(()) };
        let boot = self.from.read_value(&self.from.proc.join("sys/kernel/random/boot_id")).ok().flatten();
        let path = |work: &mut Self, path: &str| work.cgroup_line(&format!("0:{path}")).split_off(2);
        let copy =
            controls::renamed(&text, boot.as_deref().unwrap_or_default().trim(), BOOT, |it| path(self, it));
        match copy {
            Some(copy) => self.write(&self.into.join("state/records").join(controls::RECORD), &copy),
            None => Ok(()),
        }
    }

    fn cgroups(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for name in GROUP_FILES {
            self.copy(&from.join(name), &to.join(name))?;
        }
        let mut dirs: Vec<(PathBuf, String)> = Vec::new();
        for name in self.from.names(from)? {
            let path = from.join(&name);
            // Links are not followed, because they could form a cycle. The exception is the usual link to the hierarchy of the
            // CPU controller. Hierarchies without sets and without CPU time are skipped.
            let is_top = from == self.from.cgroup;
            let is_cpu = is_top && name == "cpu" && path.is_dir();
            let real = is_cpu || fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
            let foreign = [
                "memory",
                "devices",
                "freezer",
                "blkio",
                "pids",
                "systemd",
                // `cpu` is a link to this one.
                "cpu,cpuacct",
                "cpuacct,cpu",
                "perf_event",
                "net_cls",
                "net_prio",
                "hugetlb",
                "rdma",
                "misc",
            ];
            if real && !(is_top && foreign.contains(&name.as_str())) {
                dirs.push((path, name));
            }
        }
        for (path, name) in dirs {
            let alias = to.join(self.group_name(&name));
            self.cgroups(&path, &alias)?;
            self.labels(&path, &alias)?;
        }
        Ok(())
    }
}
