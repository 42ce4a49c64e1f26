//! This machine as a subject of the laws.

use crate::puppet;
use millpond_linux::{Hierarchy, LinuxMachine, Root};
use millpond_machine::laws::{Abilities, Subject, Times};
use millpond_machine::{Machine, Refusal, Writer};
use millpond_model::{Lwp, LwpId, Nanos, Pid};
use millpond_session::FileJournal;
use rustix::process::{Pid as RawPid, Signal, kill_process};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// This machine.
pub struct Live {
    machine: LinuxMachine,
    base: String,
    puppets: Vec<Pid>,
    v1: bool,
}

impl Live {
    /// Opens the machine, with a state directory of its own.
    pub fn new() -> Result<Self, String> {
        puppet::ignore_children();
        let state = std::env::temp_dir().join(format!("live-laws.{}", std::process::id()));
        std::fs::create_dir_all(&state).map_err(|e| e.to_string())?;
        let machine = LinuxMachine::open(Root::live(state.clone()), Box::new(FileJournal::in_dir(&state)));
        let v1 = matches!(machine.os().hierarchy, Hierarchy::V1(_));
        if machine.os().hierarchy.mount().is_none() {
            return Err("there is no cpuset hierarchy".into());
        }
        Ok(Live { machine, base: format!("puppet.{}", std::process::id()), puppets: Vec::new(), v1 })
    }

    fn tree(&self, dir: &Path, text: &mut String) {
        const FILES: [&str; 8] = [
            "cpuset.cpus",
            "cpuset.mems",
            "cpuset.cpus.partition",
            "cpuset.cpus.exclusive",
            "cpuset.cpus.effective",
            "cpuset.effective_cpus",
            "cgroup.subtree_control",
            "cpuset.cpu_exclusive",
        ];
        for file in FILES {
            if let Ok(content) = std::fs::read_to_string(dir.join(file)) {
                let _ = writeln!(text, "{}/{file}: {}", dir.display(), content.trim());
            }
        }
        for child in sorted(dir).into_iter().filter(|p| p.is_dir()) {
            let _ = writeln!(text, "{}", child.display());
            self.tree(&child, text);
        }
    }

    fn steering(text: &mut String) {
        let irqs = sorted(Path::new("/proc/irq")).into_iter().map(|d| d.join("smp_affinity_list"));
        let fixed = [
            "/proc/irq/default_smp_affinity",
            "/sys/devices/virtual/workqueue/cpumask",
            "/sys/devices/system/cpu/online",
        ];
        for file in irqs.chain(fixed.iter().map(PathBuf::from)) {
            if let Ok(content) = std::fs::read_to_string(&file) {
                let _ = writeln!(text, "{}: {}", file.display(), content.trim());
            }
        }
    }
}

fn sorted(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).map(|d| d.flatten().map(|e| e.path()).collect()).unwrap_or_default();
    all.sort();
    all
}

impl Subject for Live {
    fn machine(&self) -> &dyn Machine {
        &self.machine
    }

    fn abilities(&self) -> Abilities {
        let cpus = self.machine.processors().and_then(|p| p.topology().map_err(|_| unreachable_facet()));
        let mut all = Abilities::all(&cpus.map(|t| t.cpus()).unwrap_or_default());
        all.thread_sets = self.v1;
        all.sees_lone_heirs = false;
        all.sees_wide_heirs = false;
        all.free_clock = false;
        // Puppets are idle between commands, classes are the kernel's, and an interrupt moves only when it next occurs.
        (all.programs, all.classes, all.controls, all.prompt_interrupts) = (false, false, false, false);
        // Idle time is counted by ticks of at most 10 ms, and an emulated machine delivers them late. Before 6.2 a CPU that comes back
        // on-line may count the idle time of its absence.
        let old = self.machine.os().kernel < (6, 2);
        all.tick = if old { Nanos::from_secs(600) } else { Nanos::from_millis(200) };
        all
    }

    fn snapshot(&self, times: Times) -> Result<String, String> {
        let mut text = String::new();
        if let Some(mount) = self.machine.os().hierarchy.mount() {
            self.tree(&mount.clone(), &mut text);
        }
        Self::steering(&mut text);
        for pid in &self.puppets {
            for tid in sorted(&PathBuf::from(format!("/proc/{pid}/task"))) {
                let group = std::fs::read_to_string(tid.join("cgroup")).unwrap_or_default();
                let status = std::fs::read_to_string(tid.join("status")).unwrap_or_default();
                let mask = status.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap_or_default();
                let _ = writeln!(text, "{}: {} {mask}", tid.display(), group.trim());
            }
        }
        if times == Times::Shown {
            for record in sorted(&self.machine.os().root.state.join("records")) {
                let content = std::fs::read_to_string(&record).unwrap_or_default();
                let _ = writeln!(text, "{}: {content}", record.display());
            }
        }
        Ok(text)
    }

    fn spawn(&mut self) -> Result<Pid, String> {
        let pid = puppet::start_child(&self.base).map_err(|e| e.to_string())?;
        puppet::tell(&self.base, pid, "hello").map_err(|e| e.to_string())?;
        self.puppets.push(Pid(pid));
        Ok(Pid(pid))
    }

    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String> {
        let tid = puppet::tell(&self.base, pid.0, "thread").map_err(|e| e.to_string())?;
        Ok(Lwp { pid, lwp: LwpId(tid) })
    }

    fn fork(&mut self, parent: Pid) -> Result<Pid, String> {
        let pid = puppet::tell(&self.base, parent.0, "fork").map_err(|e| e.to_string())?;
        puppet::tell(&self.base, pid, "hello").map_err(|e| e.to_string())?;
        self.puppets.push(Pid(pid));
        Ok(Pid(pid))
    }

    fn exit(&mut self, pid: Pid) -> Result<(), String> {
        let raw = i32::try_from(pid.0).ok().and_then(RawPid::from_raw).ok_or("no such process")?;
        kill_process(raw, Signal::KILL).map_err(|e| e.to_string())?;
        let proc = PathBuf::from(format!("/proc/{pid}"));
        while proc.exists() {
            std::thread::yield_now();
        }
        self.puppets.retain(|p| *p != pid);
        // The next change removes an ended process from the journal; this empty change does so.
        Writer::open(&self.machine).and_then(|w| w.settle()).map_err(|e| e.to_string())?;
        Ok(())
    }

    fn excuses(&self, refusal: &Refusal) -> bool {
        let reason = refusal.reason.to_string();
        // CPU 0 has no such file since 6.5. Before 6.18 the last CPU of a partition cannot go off-line while the kernel reserves bandwidth
        // for it.
        reason.contains("no `online` file") || reason.contains("says that it is in use")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        for pid in std::mem::take(&mut self.puppets) {
            if let Some(raw) = i32::try_from(pid.0).ok().and_then(RawPid::from_raw) {
                let _ = kill_process(raw, Signal::KILL);
            }
        }
        let _ = std::fs::remove_dir_all(&self.machine.os().root.state);
    }
}

fn unreachable_facet() -> millpond_machine::Absent {
    millpond_machine::Absent::because("the topology cannot be read")
}
