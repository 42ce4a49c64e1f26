//! The laws on synthetic roots, in both cgroup versions.

use crate::common::HandMade;
use millpond_linux::LinuxMachine;
use millpond_machine::laws::{self, Abilities, Law, Times};
use millpond_machine::{Machine, Refusal, Subject, Writer};
use millpond_model::{CpuId, Lwp, LwpId, Pid};

/// A synthetic machine and its processes. Foreign masks are tested by name in `sets.rs`: one that a set narrows cannot be
/// distinguished from a binding, and random scripts would run into this repeatedly.
struct Paper {
    made: HandMade,
    machine: LinuxMachine,
    next: u32,
    v1: bool,
}

impl Paper {
    fn new(cpus: u32, v1: bool, kernel: &str) -> Self {
        let made = HandMade::new(cpus, v1);
        made.file("proc/sys/kernel/osrelease", kernel);
        made.process(2, &[2], "kthreadd", 0x0020_0000);
        made.process(3, &[3], "ksoftirqd/1", 0x0420_0000);
        for dir in ["docker", "docker/a"] {
            made.file(&format!("{}/{dir}/cpuset.cpus", made.group_root()), "1-2\n");
            made.file(&format!("{}/{dir}/tasks", made.group_root()), "");
            made.file(&format!("{}/{dir}/cgroup.procs", made.group_root()), "");
            if v1 {
                made.file(&format!("{}/{dir}/cpuset.mems", made.group_root()), "0-1\n");
            } else {
                made.file(&format!("{}/{dir}/cgroup.subtree_control", made.group_root()), "");
                made.file(&format!("{}/{dir}/cpuset.cpus.partition", made.group_root()), "member\n");
            }
        }
        if v1 {
            made.file("cgroup/cpuset/cpuset.mems", "0-1\n");
        } else {
            made.file("cgroup/cgroup.subtree_control", "cpuset\n");
        }
        for node in 0..2 {
            let dir = format!("sys/devices/system/node/node{node}");
            let (first, each) = (node * cpus / 2, cpus / 2);
            made.file(&format!("{dir}/cpulist"), &format!("{first}-{}\n", first + each - 1));
            made.file(&format!("{dir}/distance"), if node == 0 { "10 21\n" } else { "21 10\n" });
            made.file(&format!("{dir}/meminfo"), &format!("Node {node} MemTotal:  2040832 kB\n"));
        }
        let machine = made.machine();
        Paper { made, machine, next: 100, v1 }
    }

    /// Where a kernel forgets masks, the file of a mask can be out of date. There the kernel's answer counts.
    fn answer(&self, path: &str) -> Option<String> {
        let os = self.machine.os();
        let file = path.strip_prefix("proc/")?.strip_suffix("/stat").filter(|_| !os.remembers_masks())?;
        let (pid, tid) = file.split_once("/task/")?;
        let (pid, tid) = (pid.parse().ok()?, tid.parse().ok()?);
        let (task, _) = os.identify(pid, Some(tid)).unwrap();
        let mask = os.mask(task).unwrap();
        Some(format!("{}, on {mask}", self.made.read(path)))
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

impl laws::Subject for Paper {
    fn machine(&self) -> &dyn Machine {
        &self.machine
    }

    fn abilities(&self) -> Abilities {
        let cpus = self.machine.processors().unwrap().topology().unwrap().cpus();
        let mut all = Abilities::all(&cpus);
        all.thread_sets = self.v1;
        all.sees_lone_heirs = false;
        all.sees_wide_heirs = false;
        all.free_clock = false;
        // Files run no programs, and the files of interrupts only show where these may go.
        (all.programs, all.classes, all.controls, all.prompt_interrupts) = (false, false, false, false);
        all
    }

    fn snapshot(&self, times: Times) -> Result<String, String> {
        let mut text = String::new();
        for (path, content) in self.made.snapshot() {
            let path = path.strip_prefix(self.made.dir.path()).unwrap().display().to_string();
            if times == Times::LeftOut && path.starts_with("state") {
                continue;
            }
            if path.ends_with("/mask") && !self.machine.os().remembers_masks() {
                continue;
            }
            let content = self.answer(&path).unwrap_or(content);
            text.push_str(&format!("{path}: {content}\n"));
        }
        Ok(text)
    }

    fn spawn(&mut self) -> Result<Pid, String> {
        let pid = self.number();
        // Every new process is a child of the first one, and starts in its cgroup.
        self.made.born(pid, pid, (1, 1));
        Ok(Pid(pid))
    }

    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String> {
        let tid = self.number();
        let lwp = Lwp { pid, lwp: LwpId(tid) };
        self.made.born(pid.0, tid, (pid.0, pid.0));
        Ok(lwp)
    }

    fn fork(&mut self, parent: Pid) -> Result<Pid, String> {
        let pid = self.number();
        self.made.born(pid, pid, (parent.0, parent.0));
        Ok(Pid(pid))
    }

    fn exit(&mut self, pid: Pid) -> Result<(), String> {
        if self.made.read(&format!("proc/{pid}/stat")) == "(absent)" {
            return Err(format!("no process {pid}"));
        }
        self.made.exit(pid.0);
        // The next change removes all baselines and records of an ended process.
        Writer::open(&self.machine).and_then(|w| w.settle()).map_err(|e| e.to_string())?;
        Ok(())
    }

    fn excuses(&self, refusal: &Refusal) -> bool {
        // Since 6.5 CPU 0 has no such file.
        refusal.subject == Subject::Processor(CpuId(0))
            && refusal.reason.to_string().contains("no `online` file")
    }
}

const PROCESSORS: u32 = 4;
/// Scripts per machine: limited to a few seconds. The virtual machines run more.
const CASES: u32 = 40;
// Laws about CPU time need running threads.
const NOT_HERE: [Law; 9] = [
    Law::IdleIsNoLongerThanElapsed,
    Law::BooksBalance,
    Law::StoppedRunsNothing,
    Law::RunsWhereAllowed,
    Law::ClassesSurvive,
    Law::UndoneClassReturns,
    Law::InterruptsArrive,
    Law::CapsHold,
    Law::SharesAreKept,
];

/// A kernel before 6.2 forgets masks when cpusets change.
const KERNELS: [&str; 2] = ["6.17.0\n", "6.1.0\n"];

#[test]
fn a_hand_made_machine_of_version_2_obeys_every_law() {
    for kernel in KERNELS {
        let report = laws::run(|| Paper::new(PROCESSORS, false, kernel), laws::cases(CASES), 1);
        report.expect_all_but(&NOT_HERE);
    }
}

#[test]
fn a_hand_made_machine_of_version_1_obeys_every_law() {
    for kernel in KERNELS {
        let report = laws::run(|| Paper::new(PROCESSORS, true, kernel), laws::cases(CASES), 1);
        report.expect_all_but(&NOT_HERE);
    }
}
