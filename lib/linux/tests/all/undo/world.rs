//! Trees with cgroups, masks and states from other programs.

use super::Files;
use super::random::Random;
use crate::common::HandMade;
use millpond_model::{CpuId, CpuSet};
use std::path::Path;

/// Flags of a kernel thread.
const KERNEL: u64 = 0x20_0000;

/// Separates the mask from the name of its cpuset in the file of a mask.
const SET_IN: &str = " in ";

/// A tree, and the processes that may be bound.
pub struct World {
    pub made: HandMade,
    pub cpus: Vec<u32>,
    /// The CPUs that were on-line. The others stay off-line: only the program that stopped them can undo that.
    pub online: Vec<u32>,
    pub off: Vec<u32>,
    /// The CPUs of partitions.
    taken: Vec<u32>,
    pub pids: Vec<u32>,
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(|cpu| CpuId(*cpu)).collect::<CpuSet>().to_string()
}

impl World {
    pub fn new(random: &mut Random) -> World {
        let v1 = random.one_in(2);
        let count = [4, 6, 8, 10, 12][random.below(5)];
        let made = HandMade::new(count, v1);
        let cpus: Vec<u32> = (0..count).collect();
        made.file("proc/sys/kernel/osrelease", ["6.1.0\n", "6.12.0\n", "6.17.0\n"][random.below(3)]);
        let off: Vec<u32> = cpus[1..].iter().copied().filter(|_| random.one_in(6)).collect();
        let online: Vec<u32> = cpus.iter().copied().filter(|cpu| !off.contains(cpu)).collect();
        made.file("sys/devices/system/cpu/online", &format!("{}\n", list(&online)));
        for cpu in &off {
            made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "0\n");
        }
        for cpu in &cpus {
            let latency = ["0\n", "n/a\n", "50\n"][random.below(3)];
            made.file(&format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"), latency);
        }
        if v1 {
            made.file("cgroup/cpuset/cpuset.cpus", &format!("{}\n", list(&online)));
        } else {
            made.file("cgroup/cgroup.subtree_control", "cpuset\n");
        }
        for irq in 24..28 {
            let to = list(&random.some(&online));
            made.file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("{to}\n"));
        }
        let width = count.div_ceil(4) as usize;
        let mask: u64 = random.some(&cpus).iter().map(|cpu| 1 << cpu).sum();
        made.file("sys/devices/virtual/workqueue/cpumask", &format!("{mask:0width$x}\n"));
        let mut world = World { made, cpus, online, off, taken: Vec::new(), pids: Vec::new() };
        world.taken = world.groups(random);
        let left = world.left();
        for pid in 17..21 {
            world.made.process(pid, &[pid], "kworker", KERNEL);
            if random.one_in(2) && !v1 {
                // The mask with the CPUs of partitions when it was set: the kernel forgets it when they change. A mask of all
                // remaining CPUs is no limit.
                let mut mask = random.some(&left);
                // The kernel refuses a mask without an on-line CPU.
                if mask.iter().all(|cpu| world.off.contains(cpu)) {
                    mask.insert(0, 0);
                }
                if mask != left {
                    let text = format!("{}{SET_IN}{}", list(&mask), world.memory());
                    world.made.file(&format!("proc/{pid}/task/{pid}/mask"), &text);
                }
            }
        }
        world.made.process(100, &[100, 101], "free", 0);
        world.pids.push(100);
        world
    }

    fn snapshot(&self, wanted: impl Fn(&Path) -> bool) -> Files {
        let (mut files, root) = (self.made.snapshot(), self.made.dir.path());
        let is_ours = |path: &Path| path.strip_prefix(root).is_ok_and(|path| path.starts_with("state"));
        files.retain(|path, _| wanted(path) && !is_ours(path));
        files
    }

    /// Every file except those of masks and of Millpond itself.
    pub fn files(&self) -> Files {
        self.snapshot(|path| !path.ends_with("mask"))
    }

    /// Every mask. A mask that the kernel forgot, because partitions have changed since it was set, is left out; so is a mask of
    /// all remaining CPUs.
    pub fn masks(&self) -> Files {
        let mut files = self.snapshot(|path| path.ends_with("mask"));
        let (now, left) = (self.memory(), list(&self.left()));
        let is_one = |text: &str| {
            let (mask, when) = text.split_once(SET_IN).unwrap_or((text, &now));
            when == now && mask != left
        };
        files.retain(|_, text| is_one(text));
        files
    }

    /// The partition state with which the kernel remembers a mask of the root cgroup.
    fn memory(&self) -> String {
        format!("/:{}", list(&self.taken))
    }

    /// The CPUs outside partitions.
    fn left(&self) -> Vec<u32> {
        self.cpus.iter().copied().filter(|cpu| !self.taken.contains(cpu)).collect()
    }

    /// Another program takes the CPUs on-line that it had stopped.
    pub fn all_return(&self) {
        let all = format!("{}\n", list(&self.cpus));
        self.made.file("sys/devices/system/cpu/online", &all);
        for cpu in &self.off {
            self.made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "1\n");
        }
        if self.made.v1 {
            self.made.file("cgroup/cpuset/cpuset.cpus", &all);
        }
    }

    /// Foreign cgroups: lists of their own, and on version 2 valid partitions and threaded cgroups. Returns the CPUs of
    /// partitions.
    fn groups(&mut self, random: &mut Random) -> Vec<u32> {
        let mut taken = Vec::new();
        // The first CPU stays in the root.
        let mut free: Vec<u32> = self.online[1..].to_vec();
        for (name, pid) in [("g0", 200), ("g1", 210), ("g2", 220)].into_iter().take(random.below(4)) {
            let is_partition = !self.made.v1 && !free.is_empty() && random.one_in(2);
            let has = random.some(if is_partition || !free.is_empty() { &free } else { &self.online });
            let flag = match random.below(3) {
                _ if !is_partition => "member",
                0 => "isolated",
                _ => "root",
            };
            if is_partition {
                free.retain(|cpu| !has.contains(cpu));
                taken.extend(&has);
            }
            self.made.group(name, &list(&has), flag);
            let inside = random.some(&has);
            if flag == "root" && inside.len() < has.len() {
                self.made.file(&format!("cgroup/{name}/cgroup.subtree_control"), "cpuset\n");
                self.made.group(&format!("{name}/one"), &list(&inside), "root");
            } else if flag == "member" {
                self.made.group(&format!("{name}/one"), &list(&inside), "member");
                self.threaded(pid, name);
            }
        }
        taken
    }

    /// A process with its first thread in `group` and another one in its child.
    fn threaded(&mut self, pid: u32, group: &str) {
        self.made.process(pid, &[pid, pid + 1], "vm", 0);
        self.made.put(pid, pid, &format!("/{group}"));
        self.made.put(pid, pid + 1, &format!("/{group}/one"));
        self.pids.push(pid);
    }
}
