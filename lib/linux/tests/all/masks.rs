//! Affinity masks of threads while CPUs are off-line, for different kernels: before 6.2 a mask loses its off-line CPUs when it
//! changes.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, bind_cpu, cpus, create, destroy};
use millpond_linux::LinuxMachine;
use millpond_machine::{Machine, Writer};
use millpond_model::{Pid, PsetId};

/// Flags of a kernel thread.
const KERNEL: u64 = 0x20_0000;

/// Four CPUs, of which another program took CPU 2 off-line. Thread 17 is a kernel thread, thread 20 a user thread.
fn made(release: &str, v1: bool) -> HandMade {
    let made = HandMade::new(4, v1);
    made.file("proc/sys/kernel/osrelease", release);
    made.process(17, &[17], "kworker/u8", KERNEL);
    made.process(20, &[20], "job", 0);
    hotplug(&made, "0-1,3", "0");
    made
}

/// Another program takes CPU 2 off-line or on-line.
fn hotplug(made: &HandMade, online: &str, state: &str) {
    made.file("sys/devices/system/cpu/online", &format!("{online}\n"));
    made.file("sys/devices/system/cpu/cpu2/online", &format!("{state}\n"));
    if made.v1 {
        made.file("cgroup/cpuset/cpuset.cpus", &format!("{online}\n"));
    }
}

/// CPU 2 returns, and then a command of Millpond runs.
fn returns(made: &HandMade, machine: &LinuxMachine) {
    hotplug(made, "0-3", "1");
    Writer::open(machine).unwrap().settle().unwrap();
}

fn mask(machine: &LinuxMachine, pid: u32) -> String {
    let (task, _) = machine.os().identify(Pid(pid), Some(pid)).unwrap();
    machine.os().mask(task).unwrap().to_string()
}

#[test]
fn a_cpu_that_was_off_line_while_a_set_came_and_went_is_in_every_mask_again() {
    for release in ["6.1.0\n", "6.17.0\n"] {
        for v1 in [false, true] {
            let made = made(release, v1);
            let machine = made.machine();
            create(&machine, &[1, 3], EXCLUSIVE).unwrap();
            destroy(&machine, 1).unwrap();
            returns(&made, &machine);
            let masks = [17, 20].map(|pid| mask(&machine, pid));
            assert_eq!(masks, ["0-3", "0-3"], "{release} version 1: {v1}");
            assert!(machine.journal().baselines().is_empty(), "{release} version 1: {v1}");
        }
    }
}

#[test]
fn a_cpu_that_returns_while_a_set_exists_is_in_every_mask_again() {
    let made = made("6.1.0\n", false);
    let machine = made.machine();
    create(&machine, &[3], EXCLUSIVE).unwrap();
    returns(&made, &machine);
    assert_eq!([17, 20].map(|pid| mask(&machine, pid)), ["0-2", "0-2"]);
    destroy(&machine, 1).unwrap();
    assert_eq!([17, 20].map(|pid| mask(&machine, pid)), ["0-3", "0-3"]);
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn a_mask_that_another_program_set_keeps_a_cpu_that_is_off_line() {
    // The kernel's answer is 0-1, while the status of the thread has 0-2.
    for (release, pids) in [("6.1.0\n", &[17, 20][..]), ("6.17.0\n", &[17])] {
        let made = made(release, false);
        for pid in pids {
            made.file(&format!("proc/{pid}/task/{pid}/mask"), "0-2 in /:");
        }
        let machine = made.machine();
        create(&machine, &[3], EXCLUSIVE).unwrap();
        destroy(&machine, 1).unwrap();
        returns(&made, &machine);
        for pid in pids {
            assert_eq!(mask(&machine, *pid), "0-2", "{release} {pid}");
        }
        assert!(machine.journal().baselines().is_empty(), "{release}");
    }
}

#[test]
fn a_thread_that_is_bound_and_unbound_while_a_cpu_is_off_line_may_use_it_later() {
    for release in ["6.1.0\n", "6.17.0\n"] {
        for (is, later) in [(None, "0-3"), (Some("0-2"), "0-2")] {
            let made = made(release, false);
            if let Some(mask) = is {
                made.file("proc/20/task/20/mask", mask);
            }
            let machine = made.machine();
            bind_cpu(&machine, 20, Some(1)).unwrap();
            bind_cpu(&machine, 20, None).unwrap();
            returns(&made, &machine);
            assert_eq!(mask(&machine, 20), later, "{release}");
        }
    }
}

#[test]
fn a_mask_survives_a_set_that_grows() {
    // Before 6.2 every change of a partition replaces the masks of threads in the root cgroup.
    let made = HandMade::new(4, false);
    made.file("proc/sys/kernel/osrelease", "6.1.0\n");
    made.process(20, &[20], "job", 0);
    made.file("proc/20/task/20/mask", "0-1 in /:");
    let machine = made.machine();
    create(&machine, &[3], EXCLUSIVE).unwrap();
    assert_eq!(mask(&machine, 20), "0-1");
    let grown = machine.psets().unwrap().prepare_assign(PsetId(1), &cpus(&[2]), false).unwrap();
    Writer::open(&machine).unwrap().commit(grown).unwrap();
    destroy(&machine, 1).unwrap();
    assert_eq!(mask(&machine, 20), "0-1");
    assert!(machine.journal().baselines().is_empty());
}
