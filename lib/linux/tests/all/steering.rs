//! Steering of interrupts, unbound workqueues and packet steering away from CPUs, on synthetic roots.

use crate::common::HandMade;
use crate::common::commands::cpus;
use millpond_machine::{Knobs, Machine, Writer};
use millpond_model::State;
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// Detects each open of an interrupt's list. Two consecutive opens of the same list count once.
fn listening(made: &HandMade) -> OwnedFd {
    let inotify = init(CreateFlags::NONBLOCK).unwrap();
    for irq in 24..28 {
        let list = made.dir.path().join(format!("proc/irq/{irq}/smp_affinity_list"));
        add_watch(&inotify, list, WatchFlags::OPEN).unwrap();
    }
    inotify
}

/// The number of opens since the last call.
fn heard(inotify: &OwnedFd) -> usize {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(inotify, &mut buffer);
    std::iter::from_fn(|| events.next().ok().map(drop)).count()
}

#[test]
fn a_change_of_states_looks_at_each_interrupt_once() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    let processors = machine.processors().unwrap();
    let inotify = listening(&made);
    for to in [State::NoIntr, State::OffLine] {
        let change = processors.prepare_states(&cpus(&[2, 3]), to, false).unwrap();
        assert!(change.steps.iter().any(|step| step.knob.0 == "proc:irq/24/smp_affinity_list"));
        assert_eq!(heard(&inotify), 4, "{to}");
    }
    processors.prepare_states(&cpus(&[2, 3]), State::OnLine, false).unwrap();
    assert!(machine.settle().unwrap().is_empty());
    assert_eq!(heard(&inotify), 0, "where nothing is to be steered nothing is looked at");
}

#[test]
fn an_interrupt_that_went_with_its_processor_comes_back_with_it() {
    let made = HandMade::new(4, false);
    made.file("proc/irq/25/smp_affinity_list", "3\n");
    // It accepts lists and does not apply them.
    made.file("state/refused", "proc:irq/25/smp_affinity_list\n");
    let machine = made.machine();
    let set = |state| {
        let writer = Writer::open(&machine).unwrap();
        let change = machine.processors().unwrap().prepare_states(&cpus(&[3]), state, false).unwrap();
        writer.commit(change).unwrap();
    };
    set(State::OffLine);
    assert_eq!(made.read("proc/irq/25/smp_affinity_list"), "3", "it is not asked again");
    // The kernel moves it with its CPU.
    made.file("proc/irq/25/smp_affinity_list", "0-2\n");
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("proc/irq/25/smp_affinity_list"), "0-2");
    set(State::OnLine);
    assert_eq!(made.read("proc/irq/25/smp_affinity_list"), "3");
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn no_intr_moves_every_interrupt_and_on_line_brings_it_back() {
    let made = HandMade::new(4, false);
    made.file("proc/irq/25/smp_affinity_list", "3\n");
    made.file("sys/class/net/eth0/queues/rx-0/rps_cpus", "c\n");
    made.file("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n");
    let before = made.snapshot();
    let machine = made.machine();
    let set = |state| {
        let writer = Writer::open(&machine).unwrap();
        let change = machine.processors().unwrap().prepare_states(&cpus(&[2, 3]), state, false).unwrap();
        writer.commit(change).unwrap();
    };
    set(State::NoIntr);
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1");
    assert_eq!(made.read("proc/irq/25/smp_affinity_list"), "0-1", "nothing was left of its own list");
    assert_eq!(made.read("proc/irq/default_smp_affinity"), "3");
    assert_eq!(made.read("sys/devices/virtual/workqueue/cpumask"), "3");
    assert_eq!(made.read("sys/class/net/eth0/queues/rx-0/rps_cpus"), "3");
    assert_eq!(made.read("sys/class/net/eth0/queues/rx-1/rps_cpus"), "0", "steering that is off stays off");
    let states: Vec<State> =
        machine.processors().unwrap().states().unwrap().iter().map(|s| s.state).collect();
    assert_eq!(states, [State::OnLine, State::OnLine, State::NoIntr, State::NoIntr]);
    let last = machine.processors().unwrap().prepare_states(&cpus(&[0, 1]), State::NoIntr, false);
    assert_eq!(last.unwrap_err().to_string(), "CPU 1: it is the last one that takes interrupts");
    // A new device is steered at the next change.
    made.file("proc/irq/40/smp_affinity_list", "0-3\n");
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("proc/irq/40/smp_affinity_list"), "0-1");
    set(State::OnLine);
    assert_eq!(made.read("proc/irq/40/smp_affinity_list"), "0-3");
    std::fs::remove_dir_all(made.dir.path().join("proc/irq/40")).unwrap();
    let mut after = made.snapshot();
    after.retain(|path, _| !path.to_string_lossy().contains("state/records"));
    assert_eq!(after, before);
    assert!(machine.journal().baselines().is_empty());
}
