//! Undo is exact on trees that other programs made: random changes, everything undone, and every file as it was.
//!
//! The observer is [`HandMade::snapshot`], which reads files and uses nothing of the crate. `MILLPOND_ENVIRONMENTS` sets how many trees
//! there are (200); `MILLPOND_ENVIRONMENT` runs a single one by its number.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, SHARED, bind, bind_cpu, cpus, destroy};
use millpond_linux::LinuxMachine;
use millpond_machine::facets::FenceWish;
use millpond_machine::{Machine, Refusal, Writer};
use millpond_model::{CpuId, CpuSet, Nanos, Others, PsetId, Shelter, State};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const TREES: u64 = 200;

/// Flags of a kernel thread.
const KERNEL: u64 = 0x20_0000;

/// The generator xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn some(&mut self, of: &[u32]) -> Vec<u32> {
        let mut chosen: Vec<u32> = of.iter().copied().filter(|_| self.one_in(2)).collect();
        if chosen.is_empty() && !of.is_empty() {
            chosen.push(of[self.below(of.len())]);
        }
        chosen
    }
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(|cpu| CpuId(*cpu)).collect::<CpuSet>().to_string()
}

/// A tree, and the processes that may be bound.
struct World {
    made: HandMade,
    cpus: Vec<u32>,
    /// Those that were on-line. The others stay off-line: the program that stopped them is the only one that can undo that.
    online: Vec<u32>,
    /// The CPUs of partitions.
    taken: Vec<u32>,
    pids: Vec<u32>,
}

impl World {
    fn new(random: &mut Random) -> World {
        let v1 = random.one_in(2);
        let count = [4, 6, 8, 10, 12][random.below(5)];
        let made = HandMade::new(count, v1);
        let cpus: Vec<u32> = (0..count).collect();
        let mut world = World { made, cpus, online: Vec::new(), taken: Vec::new(), pids: Vec::new() };
        world.made.file("proc/sys/kernel/osrelease", ["6.1.0\n", "6.12.0\n", "6.17.0\n"][random.below(3)]);
        let off: Vec<u32> = world.cpus[1..].iter().copied().filter(|_| random.one_in(6)).collect();
        let online: Vec<u32> = world.cpus.iter().copied().filter(|cpu| !off.contains(cpu)).collect();
        world.made.file("sys/devices/system/cpu/online", &format!("{}\n", list(&online)));
        for cpu in &off {
            world.made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "0\n");
        }
        if v1 {
            world.made.file("cgroup/cpuset/cpuset.cpus", &format!("{}\n", list(&online)));
        } else {
            world.made.file("cgroup/cgroup.subtree_control", "cpuset\n");
        }
        for irq in 24..28 {
            let to = list(&random.some(&online));
            world.made.file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("{to}\n"));
        }
        let width = count.div_ceil(4) as usize;
        let mask: u64 = random.some(&world.cpus).iter().map(|cpu| 1 << cpu).sum();
        world.made.file("sys/devices/virtual/workqueue/cpumask", &format!("{mask:0width$x}\n"));
        let taken = world.groups(random, &online);
        world.online.clone_from(&online);
        let left: Vec<u32> = online.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        world.taken.clone_from(&taken);
        for pid in 17..21 {
            world.made.process(pid, &[pid], "kworker", KERNEL);
            if random.one_in(2) && !v1 {
                // With the CPUs of partitions when it was set: the kernel forgets it when they change. All that is left is no limit.
                let mask = random.some(&left);
                if mask != left {
                    let text = format!("{} in /:{}", list(&mask), list(&taken));
                    world.made.file(&format!("proc/{pid}/task/{pid}/mask"), &text);
                }
            }
        }
        world.made.process(100, &[100, 101], "free", 0);
        world.pids.push(100);
        world
    }

    /// Every file. A mask that the kernel forgot, because the partitions are others than when it was set, is none.
    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut files = self.made.snapshot();
        let taken = list(&self.taken);
        files.retain(|path, text| {
            !path.ends_with("mask") || text.split_once(" in /:").is_none_or(|(_, when)| when == taken)
        });
        files
    }

    /// Groups of others: lists of their own, and with version 2 valid partitions and threaded groups. Gives the CPUs of partitions.
    fn groups(&mut self, random: &mut Random, online: &[u32]) -> Vec<u32> {
        let mut taken = Vec::new();
        // The first CPU is left to the root.
        let mut free: Vec<u32> = online[1..].to_vec();
        for (name, pid) in [("g0", 200), ("g1", 210), ("g2", 220)].into_iter().take(random.below(4)) {
            let is_partition = !self.made.v1 && !free.is_empty() && random.one_in(2);
            let has = random.some(if is_partition || !free.is_empty() { &free } else { online });
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

    /// A process with its first thread in `group` and another one in the group below it.
    fn threaded(&mut self, pid: u32, group: &str) {
        self.made.process(pid, &[pid, pid + 1], "vm", 0);
        self.made.put(pid, pid, &format!("/{group}"));
        self.made.put(pid, pid + 1, &format!("/{group}/one"));
        self.pids.push(pid);
    }
}

fn shelter(random: &mut Random) -> Shelter {
    Shelter {
        others: [Others::Isolated, Others::Out, Others::In][random.below(3)],
        interrupts: random.one_in(2),
        kernel_threads: random.one_in(2),
        idle_latency: random.one_in(2).then_some(Nanos(0)),
        ..Shelter::default()
    }
}

fn state(machine: &LinuxMachine, cpu: u32, to: State) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.processors()?.prepare_state(CpuId(cpu), to, false)?).map(drop)
}

/// One random change. A refusal changes nothing, which is another law.
fn change(machine: &LinuxMachine, world: &World, random: &mut Random) -> (String, Result<(), Refusal>) {
    let chosen = random.some(&world.cpus);
    let pid = world.pids[random.below(world.pids.len())];
    let sets: Vec<PsetId> = machine.psets().unwrap().list().unwrap().iter().map(|set| set.id).collect();
    let set = (!sets.is_empty()).then(|| sets[random.below(sets.len())]);
    let forced = random.one_in(3);
    match random.below(8) {
        0 | 1 => {
            let options = if random.one_in(3) { SHARED } else { EXCLUSIVE };
            let done = Writer::open(machine).and_then(|writer| {
                writer.commit(machine.psets()?.prepare_create(&cpus(&chosen), options, forced)?).map(drop)
            });
            (format!("create {chosen:?} forced {forced}"), done)
        }
        2 | 3 => {
            let name = format!("f{}", random.below(3)).parse().unwrap();
            let shelter = shelter(random);
            let wish = FenceWish { name, profile: "own".into(), shelter, cpus: cpus(&chosen[..1]) };
            let done = Writer::open(machine)
                .and_then(|writer| writer.commit(machine.fences()?.prepare_fence(&wish, forced)?).map(drop));
            (format!("fence {} {:?} forced {forced}", wish.name, &chosen[..1]), done)
        }
        4 => (format!("bind {pid} to {set:?}"), set.map_or(Ok(()), |set| bind(machine, pid, Some(set.0)))),
        5 => (format!("bind {pid} to CPU {}", chosen[0]), bind_cpu(machine, pid, Some(chosen[0]))),
        6 => {
            // The mask of a kernel thread that another program narrowed is read without off-line CPUs, and restored so.
            let is_narrowed = |pid| world.made.read(&format!("proc/{pid}/task/{pid}/mask")) != "(absent)";
            let off = if (17..21).any(is_narrowed) { State::OnLine } else { State::OffLine };
            let to = [off, State::OnLine, State::NoIntr][random.below(3)];
            let cpu = world.online[random.below(world.online.len())];
            (format!("CPU {cpu} {to}"), state(machine, cpu, to))
        }
        _ => {
            let done = set.map_or(Ok(()), |set| {
                let writer = Writer::open(machine)?;
                writer.commit(machine.psets()?.prepare_assign(set, &cpus(&chosen), forced)?).map(drop)
            });
            (format!("assign {chosen:?} to {set:?} forced {forced}"), done)
        }
    }
}

/// Everything that was changed is undone by the commands for it, until nothing is left.
fn undo(
    machine: &LinuxMachine,
    world: &World,
    states: &BTreeMap<CpuId, State>,
    random: &mut Random,
) -> Vec<String> {
    let mut story = Vec::new();
    for pid in &world.pids {
        bind_cpu(machine, *pid, None).unwrap();
    }
    let mut left: Vec<PsetId> = machine.psets().unwrap().list().unwrap().iter().map(|set| set.id).collect();
    while !left.is_empty() {
        let set = left.swap_remove(random.below(left.len()));
        let fence = machine.fences().unwrap().list().unwrap().into_iter().find(|fence| fence.set == set);
        match fence {
            Some(fence) => {
                let change = machine.fences().unwrap().prepare_off(&fence.fencing.name).unwrap();
                Writer::open(machine).unwrap().commit(change).unwrap();
                story.push(format!("fence {} is taken down", fence.fencing.name));
            }
            None => {
                destroy(machine, set.0).unwrap();
                story.push(format!("set {set} is destroyed"));
            }
        }
    }
    let running = |state: &&State| state.runs_threads();
    for is_first in [true, false] {
        for (cpu, to) in states.iter().filter(|(_, state)| running(state) == is_first) {
            state(machine, cpu.0, *to).unwrap();
        }
    }
    story
}

fn is_ours(path: &Path, root: &Path) -> bool {
    path.strip_prefix(root).is_ok_and(|path| path.starts_with("state"))
}

#[test]
fn everything_returns_whatever_other_programs_made() {
    let count = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let numbers = match count("MILLPOND_ENVIRONMENT") {
        Some(one) => one..one + 1,
        None => 0..count("MILLPOND_ENVIRONMENTS").unwrap_or(TREES),
    };
    let mut changed = 0;
    for number in numbers {
        let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.below(2);
        let world = World::new(&mut random);
        let machine = world.made.machine();
        let states: BTreeMap<CpuId, State> =
            machine.processors().unwrap().states().unwrap().iter().map(|p| (p.cpu, p.state)).collect();
        let before = world.snapshot();
        let mut story = Vec::new();
        for _ in 0..1 + random.below(8) {
            let (what, done) = change(&machine, &world, &mut random);
            changed += u64::from(done.is_ok());
            story.push(format!(
                "{what}: {}",
                done.map_or_else(|refusal| refusal.to_string(), |()| "done".into())
            ));
        }
        story.extend(undo(&machine, &world, &states, &mut random));
        let (root, after) = (world.made.dir.path(), world.snapshot());
        let paths: BTreeSet<&PathBuf> =
            before.keys().chain(after.keys()).filter(|path| !is_ours(path, root)).collect();
        let differing: Vec<String> = paths
            .into_iter()
            .filter(|path| before.get(*path) != after.get(*path))
            .map(|path| format!("{}: {:?} -> {:?}", path.display(), before.get(path), after.get(path)))
            .collect();
        assert!(differing.is_empty(), "tree {number}: {story:#?}\n{}", differing.join("\n"));
    }
    println!("{changed} changes were made and undone");
    assert!(changed > 0);
}
