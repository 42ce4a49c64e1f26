//! CPUs that a process reserved, and their return when the process is killed: on synthetic roots.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, create, destroy};
use millpond_linux::LinuxMachine;
use millpond_machine::facets::{LatencyProbe, PlacePlan};
use millpond_machine::laws::{Fault, Faulty};
use millpond_machine::{Machine, PutBack, Reason, Writer, put_back_abandoned};
use millpond_model::{CpuId, Pid, PsetId};

/// A machine on which process 20 has reserved CPU 2.
fn taken(made: &HandMade) -> LinuxMachine {
    made.process(20, &[20], "latstat", 0);
    let machine = made.machine();
    let writer = Writer::open(&machine).unwrap();
    let plan = PlacePlan { cpu: CpuId(2), keep_others: false, owner: Pid(20), timerlat: None };
    writer.commit(machine.prepare_place(&plan).unwrap()).unwrap();
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1,3");
    drop(writer);
    machine
}

fn put_back(machine: &LinuxMachine) -> Vec<PutBack> {
    Writer::open(machine).unwrap().put_back_abandoned(machine)
}

#[test]
fn a_place_goes_back_when_its_owner_is_gone_and_not_before() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        let before = made.snapshot();
        let machine = taken(&made);
        assert_eq!(put_back(&machine), [], "its owner lives");
        made.exit(20);
        let found = put_back(&machine);
        let said = "process 20 was killed: CPU 2, which it had for itself, was put back";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
        assert_eq!(found[0].result, Ok(Vec::new()));
        assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-3");
        assert!(machine.psets().unwrap().list().unwrap().is_empty());
        assert!(machine.journal().baselines().is_empty());
        let mut after = made.snapshot();
        after.retain(|path, _| !path.to_string_lossy().contains("state/records"));
        assert_eq!(after, before, "v1: {v1}");
        assert_eq!(put_back(&machine), [], "there is nothing left");
    }
}

#[test]
fn a_place_that_another_writer_put_back_is_not_put_back_again() {
    let made = HandMade::new(4, false);
    let machine = taken(&made);
    made.exit(20);
    let seen = machine.abandoned().unwrap();
    assert_eq!(seen.iter().map(|place| (place.owner, place.cpu)).collect::<Vec<_>>(), [(Pid(20), CpuId(2))]);
    assert_eq!(put_back(&machine).len(), 1);
    // Now another process owns the same set with the same CPU.
    let set = create(&machine, &[2], EXCLUSIVE).unwrap();
    assert_eq!(set, seen[0].set);
    assert_eq!(put_back_abandoned(&machine, &machine, &seen), Ok(Vec::new()));
    assert_eq!(machine.psets().unwrap().list().unwrap().len(), 1);
    // Without anything to restore, it does not become the writer. Here another writer exists.
    let _writer = Writer::open(&machine).unwrap();
    assert_eq!(put_back_abandoned(&machine, &machine, &[]), Ok(Vec::new()));
}

#[test]
fn of_a_place_whose_set_somebody_removed_the_rest_goes_back() {
    let made = HandMade::new(4, false);
    let machine = taken(&made);
    destroy(&machine, 1).unwrap();
    made.exit(20);
    assert_eq!(put_back(&machine).len(), 1);
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-3");
}

#[test]
fn a_place_that_resists_is_told_and_left_for_the_next() {
    let made = HandMade::new(4, false);
    let machine = taken(&made);
    made.exit(20);
    let full = Faulty::new(&machine, Fault::DiskFull(0));
    let found = Writer::open(&full).unwrap().put_back_abandoned(&machine);
    assert!(found[0].result.is_err());
    let said = found[0].to_string();
    assert!(said.starts_with("cannot put back what process 20 left: "), "{said}");
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1,3", "nothing is half-done");
    assert_eq!(put_back(&machine).len(), 1);
    assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-3");
}

#[test]
fn the_last_processor_of_the_default_set_is_a_place_where_nothing_is_pushed_out() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "latstat", 0);
        let machine = made.machine();
        create(&machine, &[0, 1, 3], EXCLUSIVE).unwrap();
        let before = machine.psets().unwrap().list().unwrap();
        let plan = |keep_others| PlacePlan { cpu: CpuId(2), keep_others, owner: Pid(20), timerlat: None };
        let refusal = machine.prepare_place(&plan(false)).unwrap_err();
        assert_eq!(refusal.reason, Reason::LastOfDefault);
        let writer = Writer::open(&machine).unwrap();
        let place = writer.commit(machine.prepare_place(&plan(true)).unwrap()).unwrap().outcome;
        assert_eq!((place.set, place.cpu), (PsetId::DEFAULT, CpuId(2)));
        assert_eq!(machine.psets().unwrap().list().unwrap(), before);
        writer.commit(machine.prepare_leave(&place).unwrap()).unwrap();
        assert_eq!(machine.psets().unwrap().list().unwrap(), before);
    }
}
