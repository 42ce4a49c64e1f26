//! Existing cgroups that become members of a set: as partitions in place where the kernel supports it, else by narrowing others.

use crate::common::HandMade;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, Reason, Refusal, Writer};
use millpond_model::{CpuId, Pid, PsetId, PsetMode};

fn group(made: &HandMade, path: &str, cpus: &str) {
    let dir = format!("{}/{path}", made.group_root());
    for (name, text) in [("cpuset.cpus", cpus), ("cgroup.procs", ""), ("tasks", "")] {
        made.file(&format!("{dir}/{name}"), text);
    }
    if made.group_root() == "cgroup" {
        made.file(&format!("{dir}/cgroup.subtree_control"), "cpuset\n");
        // This file exists since 6.7.
        if !made.read("proc/sys/kernel/osrelease").starts_with("6.1.") {
            made.file(&format!("{dir}/cpuset.cpus.exclusive"), "");
        }
        made.file(&format!("{dir}/cpuset.cpus.partition"), "member\n");
    } else {
        made.file(&format!("{dir}/cpuset.mems"), "0\n");
    }
}

/// A machine with two services in a slice, and a user slice next to it.
fn served(v1: bool, kernel: &str) -> HandMade {
    let made = HandMade::new(4, v1);
    made.file("proc/sys/kernel/osrelease", kernel);
    if !v1 {
        made.file("cgroup/cgroup.subtree_control", "cpuset\n");
    }
    let all = if v1 { "0-3\n" } else { "" };
    for path in ["system.slice", "system.slice/a.service", "system.slice/b.service", "user.slice"] {
        group(&made, path, all);
    }
    made
}

fn set_of(machine: &dyn Machine, cpus: &[u32]) -> PsetId {
    let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
    let writer = Writer::open(machine).unwrap();
    let change = machine.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap();
    writer.commit(change).unwrap().outcome.0
}

fn bind_zone(machine: &dyn Machine, zone: &str, set: Option<u32>) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.zones()?.prepare_bind(zone, set.map(PsetId))?).map(|_| ())
}

fn assign(machine: &dyn Machine, set: u32, cpus: &[u32]) {
    let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
    let writer = Writer::open(machine).unwrap();
    let change = machine.psets().unwrap().prepare_assign(PsetId(set), &cpus, false).unwrap();
    writer.commit(change).unwrap();
}

fn mode(machine: &dyn Machine) -> PsetMode {
    machine.psets().unwrap().list().unwrap()[0].mode
}

fn destroy(machine: &dyn Machine, set: u32) {
    let writer = Writer::open(machine).unwrap();
    writer.commit(machine.psets().unwrap().prepare_destroy(PsetId(set)).unwrap()).unwrap();
}

#[test]
fn one_standing_group_becomes_a_partition_where_it_stands() {
    let made = served(false, "6.17.0\n");
    let before = made.snapshot();
    let machine = made.machine();
    set_of(&machine, &[2]);
    bind_zone(&machine, "a.service", Some(1)).unwrap();
    assert_eq!(mode(&machine), PsetMode::InPlace);
    assert_eq!(made.read("cgroup/system.slice/cpuset.cpus.exclusive"), "2");
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.exclusive"), "2");
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.partition"), "root");
    assert_eq!(made.read("cgroup/mpset1/cpuset.cpus"), "", "ours only holds the label");
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].breaches, Vec::<String>::new());
    // Resized by that file alone.
    let writer = Writer::open(&machine).unwrap();
    let change = machine.psets().unwrap().prepare_assign(PsetId(1), &[CpuId(3)], false).unwrap();
    assert!(!change.steps.iter().any(|s| s.knob.0.ends_with("partition")), "{:?}", change.steps);
    writer.commit(change).unwrap();
    drop(writer);
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.exclusive"), "2-3");
    bind_zone(&machine, "a.service", None).unwrap();
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.partition"), "member");
    assert_eq!(made.read("cgroup/system.slice/cpuset.cpus.exclusive"), "");
    destroy(&machine, 1);
    assert_eq!(made.snapshot(), before);
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn several_standing_groups_are_steered_and_everybody_else_is_asked_aside() {
    let made = served(false, "6.17.0\n");
    let before = made.snapshot();
    let machine = made.machine();
    set_of(&machine, &[2, 3]);
    bind_zone(&machine, "a.service", Some(1)).unwrap();
    bind_zone(&machine, "b.service", Some(1)).unwrap();
    assert_eq!(mode(&machine), PsetMode::Steered);
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.partition"), "member");
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus"), "2-3");
    assert_eq!(made.read("cgroup/system.slice/b.service/cpuset.cpus"), "2-3");
    assert_eq!(made.read("cgroup/user.slice/cpuset.cpus"), "0-1");
    assert_eq!(
        made.read("cgroup/system.slice/cpuset.cpus"),
        "",
        "a slice leaves its services their processors"
    );
    // A new sibling is narrowed at the next settling.
    group(&made, "system.slice/c.service", "");
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("cgroup/system.slice/c.service/cpuset.cpus"), "0-1");
    destroy(&machine, 1);
    std::fs::remove_dir_all(made.dir.path().join("cgroup/system.slice/c.service")).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_set_with_a_zone_and_a_process_is_steered() {
    let made = served(false, "6.17.0\n");
    made.process(20, &[20], "mine", 0);
    let before = made.snapshot();
    let machine = made.machine();
    set_of(&machine, &[3]);
    bind_zone(&machine, "a.service", Some(1)).unwrap();
    let writer = Writer::open(&machine).unwrap();
    let change = machine.threads().unwrap().prepare_bind_set(Pid(20), None, Some(PsetId(1))).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    assert_eq!(mode(&machine), PsetMode::Steered);
    assert_eq!(made.read("cgroup/system.slice/a.service/cpuset.cpus.partition"), "member");
    assert_eq!(made.read("cgroup/mpset1/cpuset.cpus"), "3");
    destroy(&machine, 1);
    assert_eq!(made.snapshot(), before);
}

#[test]
fn an_older_kernel_and_version_1_steer() {
    for (v1, kernel) in [(false, "6.1.0\n"), (true, "6.1.0\n")] {
        let made = served(v1, kernel);
        let before = made.snapshot();
        let machine = made.machine();
        set_of(&machine, &[2, 3]);
        bind_zone(&machine, "a.service", Some(1)).unwrap();
        assert_eq!(mode(&machine), PsetMode::Steered, "v1: {v1}");
        let root = made.group_root();
        assert_eq!(made.read(&format!("{root}/system.slice/a.service/cpuset.cpus")), "2-3");
        assert_eq!(made.read(&format!("{root}/system.slice/b.service/cpuset.cpus")), "0-1");
        assert_eq!(made.read(&format!("{root}/user.slice/cpuset.cpus")), "0-1");
        assign(&machine, 0, &[3]);
        assert_eq!(made.read(&format!("{root}/system.slice/a.service/cpuset.cpus")), "2");
        assert_eq!(made.read(&format!("{root}/user.slice/cpuset.cpus")), "0-1,3");
        destroy(&machine, 1);
        assert_eq!(made.snapshot(), before, "v1: {v1}");
        assert!(machine.journal().baselines().is_empty());
    }
}

#[test]
fn zones_that_are_not_ours_to_bind_are_refused() {
    let made = served(false, "6.17.0\n");
    group(&made, "kubepods.slice", "");
    group(&made, "kubepods.slice/pod1", "");
    let machine = made.machine();
    set_of(&machine, &[3]);
    assert_eq!(bind_zone(&machine, "nope", Some(1)).unwrap_err().reason, Reason::NoSuchZone);
    assert_eq!(
        bind_zone(&machine, "/kubepods.slice/pod1", Some(1)).unwrap_err().to_string(),
        "zone /kubepods.slice/pod1: it is managed by the kubelet"
    );
    assert_eq!(bind_zone(&machine, "a.service", Some(9)).unwrap_err().reason, Reason::NoSuchPset);
}

#[test]
fn a_group_of_a_user_does_not_hide_the_unit_of_the_system() {
    let made = served(false, "6.12.1\n");
    let user = "user.slice/user-4002.slice/user@4002.service/app.slice";
    let mut path = String::new();
    for part in user.split('/').skip(1).chain(["a.service"]) {
        path = if path.is_empty() { format!("user.slice/{part}") } else { format!("{path}/{part}") };
        group(&made, &path, "");
    }
    let machine = made.machine();
    set_of(&machine, &[2, 3]);
    bind_zone(&machine, "a.service", Some(1)).unwrap();
    let label = made.read("cgroup/mpset1/.label.set");
    assert!(label.contains(r#""zones":["/system.slice/a.service"]"#), "{label}");
    for (pid, group) in
        [(50, "/system.slice/a.service"), (51, "/system.slice/a.service/in"), (52, &*format!("/{path}"))]
    {
        made.process(pid, &[pid], "x", 0);
        made.file(&format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
    }
    assert_eq!(machine.zones().unwrap().processes("a.service").unwrap(), [Pid(50), Pid(51)]);
    let theirs = format!("/{path}");
    let refused = bind_zone(&machine, &theirs, Some(1)).unwrap_err();
    assert!(matches!(refused.reason, Reason::ManagedElsewhere(_)), "by its path it is meant: {refused}");
}

#[test]
fn of_containers_that_ended_a_set_remembers_the_last_ones() {
    for v1 in [false, true] {
        let made = served(v1, "6.1.0\n");
        let all = if v1 { "0-3\n" } else { "" };
        group(&made, "docker", all);
        let machine = made.machine();
        set_of(&machine, &[2, 3]);
        bind_zone(&machine, "b.service", Some(1)).unwrap();
        for restart in 0..80 {
            let path = format!("docker/{restart:064x}");
            group(&made, &path, all);
            bind_zone(&machine, &format!("/{path}"), Some(1)).unwrap();
            std::fs::remove_dir_all(made.dir.path().join(made.group_root()).join(&path)).unwrap();
        }
        let dir = made.dir.path().join(made.group_root());
        std::fs::remove_dir_all(dir.join("system.slice/b.service")).unwrap();
        let label = made.read(&format!("{}/mpset1/.label.set", made.group_root()));
        assert_eq!(
            label.matches("/docker/").count(),
            33,
            "{v1}: the last 32, and the one that was just bound"
        );
        assert!(label.contains(&format!("{:064x}", 79)) && !label.contains(&format!("{:064x}", 46)));
        assert!(label.contains("/system.slice/b.service"), "a unit may start again");
    }
}
