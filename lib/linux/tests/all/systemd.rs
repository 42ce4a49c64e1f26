//! Sets on a host whose cgroup tree belongs to systemd: all changes go through its manager, and are undone.

use crate::common::HandMade;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Change, Knobs, Machine, Refusal, Writer};
use millpond_model::{CpuId, Pid, PsetId, PsetMode};

/// A machine of eight CPUs that systemd manages: a session and two services, without CPU lists.
fn managed(kernel: &str) -> HandMade {
    let made = HandMade::new(8, false);
    made.file("proc/sys/kernel/osrelease", kernel);
    made.file("proc/1/comm", "systemd\n");
    std::fs::create_dir_all(made.dir.path().join("run/systemd/system")).unwrap();
    std::fs::create_dir_all(made.dir.path().join("run/systemd/system.control")).unwrap();
    for path in [
        "init.scope",
        "system.slice",
        "system.slice/a.service",
        "system.slice/b.service",
        "user.slice",
        "user.slice/user-0.slice",
        "user.slice/user-0.slice/session-1.scope",
    ] {
        for file in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            made.file(&format!("cgroup/{path}/{file}"), "");
        }
    }
    made
}

const SESSION: &str = "/user.slice/user-0.slice/session-1.scope";

/// A single-threaded process in a unit.
fn process_in(made: &HandMade, pid: u32, unit: &str) {
    made.process(pid, &[pid], "work", 0);
    for file in ["cgroup.procs", "cgroup.threads"] {
        let root = made.read(&format!("cgroup/{file}"));
        let others: String =
            root.lines().filter(|l| *l != pid.to_string()).map(|l| format!("{l}\n")).collect();
        made.file(&format!("cgroup/{file}"), &others);
        let there = made.read(&format!("cgroup{unit}/{file}"));
        made.file(&format!("cgroup{unit}/{file}"), format!("{there}\n{pid}\n").trim_start());
    }
    for file in [format!("proc/{pid}/cgroup"), format!("proc/{pid}/task/{pid}/cgroup")] {
        made.file(&file, &format!("0::{unit}\n"));
    }
}

fn commit<T>(machine: &dyn Machine, change: impl FnOnce() -> Result<Change<T>, Refusal>) -> T {
    let writer = Writer::open(machine).unwrap();
    writer.commit(change().unwrap()).unwrap().outcome
}

fn cpus(list: &[u32]) -> Vec<CpuId> {
    list.iter().copied().map(CpuId).collect()
}

fn create(machine: &dyn Machine, list: &[u32]) -> PsetId {
    let psets = machine.psets().unwrap();
    commit(machine, || psets.prepare_create(&cpus(list), CreateOptions::default(), false)).0
}

fn assign(machine: &dyn Machine, set: u32, list: &[u32]) {
    let psets = machine.psets().unwrap();
    commit(machine, || psets.prepare_assign(PsetId(set), &cpus(list), false));
}

fn destroy(machine: &dyn Machine, set: u32) {
    let psets = machine.psets().unwrap();
    commit(machine, || psets.prepare_destroy(PsetId(set)));
}

fn bind(machine: &dyn Machine, pid: u32, set: Option<u32>) {
    let threads = machine.threads().unwrap();
    commit(machine, || threads.prepare_bind_set(Pid(pid), None, set.map(PsetId)));
}

fn bind_zone(machine: &dyn Machine, zone: &str, set: Option<u32>) {
    let zones = machine.zones().unwrap();
    commit(machine, || zones.prepare_bind(zone, set.map(PsetId)));
}

fn only(machine: &dyn Machine) -> (PsetMode, Vec<String>) {
    let set = machine.psets().unwrap().list().unwrap().remove(0);
    (set.mode, set.breaches)
}

#[test]
fn a_set_is_a_slice_of_its_own() {
    let made = managed("6.17.0\n");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[2, 3]);
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "2-3");
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus.partition"), "root");
    assert_eq!(made.read("cgroup/cgroup.subtree_control"), "cpuset", "given by systemd");
    assert!(machine.journal().baselines().is_empty(), "nothing of anybody else's was changed");
    assert_eq!(only(&machine), (PsetMode::Own, vec![]));
    // Resized in place, without passing through `member`.
    let psets = machine.psets().unwrap();
    let change = psets.prepare_assign(PsetId(1), &cpus(&[4]), false).unwrap();
    let knobs: Vec<&str> = change.steps.iter().map(|s| s.knob.0.as_str()).collect();
    assert_eq!(knobs, ["allowed:/mpset1.slice", "label:/mpset1.slice#set"]);
    Writer::open(&machine).unwrap().commit(change).unwrap();
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "2-4");
    destroy(&machine, 1);
    assert_eq!(made.snapshot(), before);
}

#[test]
fn without_systemd_as_first_process_nothing_is_asked_of_it() {
    let made = managed("6.17.0\n");
    made.file("proc/1/comm", "init\n");
    let machine = made.machine();
    create(&machine, &[2]);
    assert_eq!(made.read("cgroup/mpset1/cpuset.cpus"), "2");
}

#[test]
fn a_set_without_processors_shares_those_of_the_default_set() {
    let made = managed("6.17.0\n");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[]);
    create(&machine, &[7]);
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "0-6");
    assert_eq!(made.read("cgroup/mpset2.slice/cpuset.cpus.partition"), "root");
    assert_eq!(only(&machine), (PsetMode::Own, vec![]));
    assign(&machine, 1, &[5, 6]);
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "5-6");
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus.partition"), "root");
    assign(&machine, 0, &[5, 6]);
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "0-6");
    destroy(&machine, 2);
    destroy(&machine, 1);
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_process_moves_in_by_a_scope_and_goes_back_to_its_unit() {
    let made = managed("6.17.0\n");
    process_in(&made, 20, SESSION);
    process_in(&made, 21, SESSION);
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[2, 3]);
    create(&machine, &[5]);
    bind(&machine, 20, Some(1));
    assert_eq!(made.read("proc/20/cgroup"), "0::/mpset1.slice/mpset1-20-1.scope");
    assert_eq!(machine.os().label("/mpset1.slice/mpset1-20-1.scope", "origin").unwrap().unwrap(), SESSION);
    // Its children stay in the scope, even if it moves.
    made.born(22, 22, (20, 20));
    bind(&machine, 20, Some(2));
    assert_eq!(made.read("proc/20/cgroup"), "0::/mpset2.slice/mpset2-20-1.scope");
    assert_eq!(made.read("proc/22/cgroup"), "0::/mpset1.slice/mpset1-20-1.scope");
    bind(&machine, 20, Some(1));
    assert_eq!(made.read("proc/20/cgroup"), "0::/mpset1.slice/mpset1-20-2.scope");
    bind(&machine, 20, None);
    assert_eq!(made.read("proc/20/cgroup"), format!("0::{SESSION}"));
    destroy(&machine, 2);
    destroy(&machine, 1);
    assert_eq!(made.read("proc/22/cgroup"), format!("0::{SESSION}"));
    made.exit(22);
    assert_eq!(made.snapshot(), before);
}

#[test]
fn what_is_started_in_the_default_set_has_a_slice_too() {
    let made = managed("6.17.0\n");
    process_in(&made, 20, SESSION);
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[2, 3]);
    let threads = machine.threads().unwrap();
    commit(&machine, || threads.prepare_start_in_default(Pid(20)));
    assert_eq!(made.read("proc/20/cgroup"), "0::/mpdefault.slice/mpdefault-20-1.scope");
    assert_eq!(made.read("cgroup/mpdefault.slice/cpuset.cpus"), "0-1,4-7");
    assign(&machine, 1, &[7]);
    assert_eq!(made.read("cgroup/mpdefault.slice/cpuset.cpus"), "0-1,4-6");
    assert_eq!(machine.threads().unwrap().lwps(Pid(20)).unwrap()[0].set, PsetId::DEFAULT);
    destroy(&machine, 1);
    assert_eq!(made.snapshot(), before);
}

#[test]
fn one_service_becomes_a_partition_where_it_stands() {
    let made = managed("6.17.0\n");
    process_in(&made, 20, "/system.slice/a.service");
    let machine = made.machine();
    create(&machine, &[2]);
    bind_zone(&machine, "a.service", Some(1));
    assert_eq!(only(&machine), (PsetMode::InPlace, vec![]));
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus"), "0-7", "systemd wants the controller");
    assert_eq!(made.read("cgroup/system.slice/cpuset.cpus.exclusive"), "2");
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.exclusive"), "2");
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.partition"), "root");
    bind_zone(&machine, "a.service", None);
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.partition"), "(absent)");
    destroy(&machine, 1);
    assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
    assert_eq!(made.read("cgroup/cgroup.subtree_control"), "");
    assert_eq!(made.read("cgroup/system.slice/cgroup.subtree_control"), "");
    assert!(no_drop_ins(&made));
}

#[test]
fn several_services_are_steered_and_everybody_else_is_asked_aside_by_property() {
    for kernel in ["6.17.0\n", "7.2.0\n"] {
        let made = managed(kernel);
        process_in(&made, 20, "/system.slice/a.service");
        let machine = made.machine();
        create(&machine, &[2, 3]);
        bind_zone(&machine, "a.service", Some(1));
        bind_zone(&machine, "b.service", Some(1));
        assert_eq!(only(&machine).0, PsetMode::Steered);
        for (path, list) in [
            ("system.slice/a.service", "2-3"),
            ("system.slice/b.service", "2-3"),
            ("user.slice", "0-1,4-7"),
            ("init.scope", "0-1,4-7"),
        ] {
            assert_eq!(made.read(&format!("cgroup/{path}/cpuset.cpus")), list, "{path}");
        }
        let changed: Vec<String> = machine.journal().baselines().into_keys().map(|k| k.0).collect();
        assert!(changed.iter().all(|k| k.starts_with("allowed:")), "{changed:?}");
        assign(&machine, 1, &[4]);
        assert_eq!(made.read("cgroup/user.slice/cpuset.cpus"), "0-1,5-7");
        bind_zone(&machine, "b.service", None);
        assert_eq!(only(&machine), (PsetMode::InPlace, vec![]));
        assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.exclusive"), "2-4");
        destroy(&machine, 1);
        assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
        assert!(no_drop_ins(&made));
        // The lists that the kernel kept do not prevent a second set.
        create(&machine, &[5]);
        assert_eq!(only(&machine), (PsetMode::Own, vec![]));
        destroy(&machine, 1);
        assert!(machine.journal().baselines().is_empty() && no_drop_ins(&made));
    }
}

#[test]
fn a_list_that_somebody_gave_a_unit_comes_back() {
    let made = managed("6.17.0\n");
    let drop_in = "run/systemd/system.control/user.slice.d/50-AllowedCPUs.conf";
    made.file(drop_in, "[Slice]\nAllowedCPUs=\nAllowedCPUs=0-3\n");
    made.file("cgroup/cgroup.subtree_control", "cpuset\n");
    for path in ["init.scope", "system.slice", "user.slice"] {
        for (file, text) in
            [("cpuset.cpus", ""), ("cpuset.cpus.exclusive", ""), ("cpuset.cpus.partition", "member\n")]
        {
            made.file(&format!("cgroup/{path}/{file}"), text);
        }
    }
    made.file("cgroup/user.slice/cpuset.cpus", "0-3\n");
    let machine = made.machine();
    create(&machine, &[3]);
    assert_eq!(made.read("cgroup/user.slice/cpuset.cpus"), "0-2");
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus.partition"), "root");
    destroy(&machine, 1);
    assert_eq!(made.read("cgroup/user.slice/cpuset.cpus"), "0-3");
    assert!(made.read(drop_in).ends_with("AllowedCPUs=0-3"));
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn a_service_that_ended_does_not_come_back_with_our_list() {
    let made = managed("6.17.0\n");
    let machine = made.machine();
    create(&machine, &[2, 3]);
    bind_zone(&machine, "a.service", Some(1));
    bind_zone(&machine, "b.service", Some(1));
    let drop_in = made.dir.path().join("run/systemd/system.control/a.service.d");
    assert!(drop_in.exists());
    bind_zone(&machine, "a.service", None);
    std::fs::remove_dir_all(made.dir.path().join("cgroup/system.slice/a.service")).unwrap();
    Writer::open(&machine).unwrap().settle().unwrap();
    assert!(!drop_in.exists());
    assert_eq!(machine.settle().unwrap(), vec![]);
    destroy(&machine, 1);
    assert!(machine.journal().baselines().is_empty() && no_drop_ins(&made));
}

#[test]
fn a_writer_that_was_killed_is_put_back_through_systemd() {
    let made = managed("6.17.0\n");
    process_in(&made, 20, SESSION);
    let machine = made.machine();
    create(&machine, &[2, 3]);
    let before = made.snapshot();
    let change = machine.threads().unwrap().prepare_bind_set(Pid(20), None, Some(PsetId(1))).unwrap();
    for done in 0..=change.steps.len() {
        machine.journal().begin(&change.what, &machine.boot_id(), &change.steps).unwrap();
        for step in &change.steps[..done] {
            machine.write(&step.knob, step.after.as_ref()).unwrap();
        }
        assert!(Writer::open(&machine).unwrap().repaired().is_some());
        Writer::open(&machine).unwrap().settle().unwrap();
        assert_eq!(made.read("proc/20/cgroup"), format!("0::{SESSION}"), "after {done} steps");
        assert_eq!(made.snapshot(), before, "after {done} steps");
    }
}

fn no_drop_ins(made: &HandMade) -> bool {
    let dir = made.dir.path().join("run/systemd/system.control");
    std::fs::read_dir(dir).unwrap().next().is_none()
}
