//! Sets for those who have no rights to cgroups.

#![allow(clippy::unwrap_used)]

mod common;

use common::HandMade;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, Writer};
use millpond_model::{CpuId, Pid, PsetId, PsetMode};

fn without_cgroups() -> HandMade {
    let made = HandMade::new(4, false);
    std::fs::remove_dir_all(made.dir.path().join("cgroup")).unwrap();
    std::fs::create_dir(made.dir.path().join("cgroup")).unwrap();
    made
}

fn allowed(machine: &dyn Machine, pid: u32) -> String {
    machine.threads().unwrap().lwps(Pid(pid)).unwrap()[0].allowed.to_string()
}

fn bind(machine: &dyn Machine, pid: u32, to: Option<u32>) {
    let writer = Writer::open(machine).unwrap();
    let change = machine.threads().unwrap().prepare_bind_set(Pid(pid), None, to.map(PsetId)).unwrap();
    writer.commit(change).unwrap();
}

fn create(machine: &dyn Machine, cpus: &[u32]) {
    let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
    let writer = Writer::open(machine).unwrap();
    let change = machine.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap();
    assert_eq!(change.notes, ["there are no rights to cgroups: members are confined, nobody is pushed out"]);
    writer.commit(change).unwrap();
}

#[test]
fn members_are_confined_by_their_masks_and_get_them_back() {
    let made = without_cgroups();
    made.process(20, &[20, 21], "mine", 0);
    made.file("proc/20/task/20/mask", "0-2");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[2, 3]);
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].mode, PsetMode::Affinity);
    bind(&machine, 20, Some(1));
    assert_eq!(allowed(&machine, 20), "2-3");
    let lwps = machine.threads().unwrap().bound().unwrap();
    assert!(lwps.iter().all(|l| l.set == PsetId(1)) && lwps.len() == 2, "{lwps:?}");
    let writer = Writer::open(&machine).unwrap();
    let change = machine.psets().unwrap().prepare_assign(PsetId::DEFAULT, &[CpuId(3)], false).unwrap();
    writer.commit(change).unwrap();
    assert_eq!(allowed(&machine, 20), "2", "members follow their set");
    let change = machine.psets().unwrap().prepare_destroy(PsetId(1)).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    assert_eq!(allowed(&machine, 20), "0-2");
    assert_eq!(made.snapshot(), before);
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn a_processor_binding_inside_a_set_ends_in_the_set() {
    let made = without_cgroups();
    made.process(20, &[20], "mine", 0);
    let machine = made.machine();
    create(&machine, &[2, 3]);
    bind(&machine, 20, Some(1));
    for (cpu, want) in [(Some(3), "3"), (None, "2-3")] {
        let writer = Writer::open(&machine).unwrap();
        let change = machine.threads().unwrap().prepare_bind_cpu(Pid(20), None, cpu.map(CpuId)).unwrap();
        writer.commit(change).unwrap();
        assert_eq!(allowed(&machine, 20), want);
    }
    bind(&machine, 20, None);
    assert_eq!(allowed(&machine, 20), "0-3");
}

#[test]
fn the_default_set_keeps_a_processor() {
    let made = without_cgroups();
    let machine = made.machine();
    let cpus: Vec<CpuId> = (0..4).map(CpuId).collect();
    let refusal =
        machine.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap_err();
    assert_eq!(refusal.to_string(), "processor 3: it is the last one in the default set");
}
