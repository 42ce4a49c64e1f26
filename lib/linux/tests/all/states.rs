//! Changes of many CPUs at once: the result for each CPU, and the cost.

use crate::common::HandMade;
use crate::common::commands::{SHARED, cpus, create};
use millpond_linux::LinuxMachine;
use millpond_machine::facets::StateChange;
use millpond_machine::{Processors, Refusal, Writer};
use millpond_model::{CpuId, State};

fn each(machine: &LinuxMachine, cpus: &[CpuId], to: State) -> Vec<Result<StateChange, Refusal>> {
    let writer = Writer::open(machine).unwrap();
    let change = machine.prepare_each_state(cpus, to, false).unwrap();
    writer.commit(change).unwrap().outcome
}

fn one_by_one(machine: &LinuxMachine, cpus: &[CpuId], to: State) -> Vec<Result<StateChange, Refusal>> {
    let writer = Writer::open(machine).unwrap();
    let one = |cpu: &CpuId| Ok(writer.commit(machine.prepare_state(*cpu, to, false)?)?.outcome);
    cpus.iter().map(one).collect()
}

#[test]
fn processors_that_are_named_together_are_told_what_each_would_be_told_alone() {
    for v1 in [false, true] {
        let roots = [HandMade::new(8, v1), HandMade::new(8, v1)];
        let [together, alone] = roots.each_ref().map(|made| {
            let machine = made.machine();
            create(&machine, &[6, 7], SHARED).unwrap();
            machine
        });
        // A missing CPU, a duplicate, the last CPU of the set, and the last CPU of the default set.
        for (numbers, to) in [
            (vec![1, 9, 2, 2, 7], State::OffLine),
            (vec![6, 0, 3, 4, 5, 1], State::OffLine),
            (vec![2, 2, 1, 8, 3, 4], State::OnLine),
            (vec![0, 1, 2, 3, 4, 5, 6, 7], State::NoIntr),
            (vec![0, 1, 2, 3, 4, 5, 6, 7], State::Spare),
            (vec![0, 5, 6], State::Faulted),
        ] {
            let numbers = cpus(&numbers);
            assert_eq!(each(&together, &numbers, to), one_by_one(&alone, &numbers, to), "{numbers:?} {to}");
            let states = |m: &LinuxMachine| m.states().unwrap().iter().map(|s| s.state).collect::<Vec<_>>();
            assert_eq!(states(&together), states(&alone), "{numbers:?} {to}");
        }
    }
}

/// Number of read system calls of this thread; `None` where the kernel does not count them.
fn reads() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

#[test]
fn many_processors_change_their_state_with_reads_in_proportion() {
    if reads().is_none() {
        println!(
            "skipped: many_processors_change_their_state_with_reads_in_proportion: the kernel does not count reads"
        );
        return;
    }
    for v1 in [false, true] {
        let cost = |count: u32| {
            let made = HandMade::new(4, v1);
            let all = format!("0-{}\n", count - 1);
            for name in ["possible", "present", "online"] {
                made.file(&format!("sys/devices/system/cpu/{name}"), &all);
            }
            (4..count).for_each(|cpu| made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "1\n"));
            if v1 {
                made.file("cgroup/cpuset/cpuset.cpus", &all);
            }
            let machine = made.machine();
            let half: Vec<CpuId> = (count / 2..count).map(CpuId).collect();
            let before = reads().unwrap();
            assert!(each(&machine, &half, State::OffLine).iter().all(Result::is_ok));
            assert!(each(&machine, &half, State::OnLine).iter().all(Result::is_ok));
            reads().unwrap() - before
        };
        let (few, many) = (cost(100), cost(400));
        // Four times as many CPUs. Reading every CPU for each of them would cost sixteen times as much.
        assert!(many < few * 6, "{few} and {many} reads, version 1: {v1}");
        // Per CPU: one record and one online file, each read before the change and when it is written, twice.
        assert!(many < 400 / 2 * 30, "{many} reads, version 1: {v1}");
    }
}
