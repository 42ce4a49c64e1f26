//! Lgroups, homes and memory of sets on synthetic roots with one, two and four nodes, in both cgroup versions.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, bind, bind_cpu, cpus, create, destroy};
use millpond_machine::facets::NodeMemory;
use millpond_machine::{Change, Knobs, Lgroups, Machine, Refusal, Writer};
use millpond_model::{Affinity, GroupId, LgrpId, LwpId, Pid, PsetId, SetMemory};
use std::collections::BTreeMap;

/// A machine of eight CPUs with one node per row of `distances`. The last node has the last CPUs.
fn with_nodes(distances: &[&[u32]], v1: bool) -> HandMade {
    let made = HandMade::new(8, v1);
    let count = distances.len();
    for (node, row) in distances.iter().enumerate() {
        let dir = format!("sys/devices/system/node/node{node}");
        let (first, each) = (node * 8 / count, 8 / count);
        made.file(&format!("{dir}/cpulist"), &format!("{first}-{}\n", first + each - 1));
        let row: Vec<String> = row.iter().map(ToString::to_string).collect();
        made.file(&format!("{dir}/distance"), &(row.join(" ") + "\n"));
        let free = 1_000_000 + 1_000 * node;
        let text = format!("Node {node} MemTotal:  2040832 kB\nNode {node} MemFree:  {free} kB\n");
        made.file(&format!("{dir}/meminfo"), &text);
    }
    if v1 {
        made.file("cgroup/cpuset/cpuset.mems", &format!("0-{}\n", count - 1));
    }
    made
}

fn two(v1: bool) -> HandMade {
    with_nodes(&[&[10, 21], &[21, 10]], v1)
}

fn commit<T>(machine: &dyn Machine, change: Result<Change<T>, Refusal>) -> Result<T, Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(change?).map(|done| done.outcome)
}

fn confine(machine: &dyn Machine, to: SetMemory) -> Result<SetMemory, Refusal> {
    commit(machine, machine.lgroups()?.prepare_set_memory(PsetId(1), to))
}

/// A process with these pages, with a thread that runs on `cpu`.
fn process(made: &HandMade, pid: u32, pages: &str, cpu: u32) {
    made.process(pid, &[pid], "job", 0);
    made.file(
        &format!("proc/{pid}/numa_maps"),
        &format!("7f00 default anon=1 {pages} kernelpagesize_kB=4\n"),
    );
    let mut fields = vec!["0".to_owned(); 37];
    (fields[0], fields[36]) = ("R".to_owned(), cpu.to_string());
    fields[19] = (1000 + pid).to_string();
    let stat = format!("{pid} (job) {}\n", fields.join(" "));
    for path in [format!("proc/{pid}/stat"), format!("proc/{pid}/task/{pid}/stat")] {
        made.file(&path, &stat);
    }
}

#[test]
fn a_kernel_without_nodes_has_the_root_alone() {
    let made = HandMade::new(4, false);
    made.file("proc/meminfo", "MemTotal:  4000 kB\nMemFree:  1000 kB\n");
    let machine = made.machine();
    assert_eq!(machine.tree().unwrap().groups().len(), 1);
    let nodes = machine.nodes().unwrap();
    assert_eq!((nodes.len(), nodes[0].cpus.to_string()), (1, "0-3".to_owned()));
    assert_eq!(nodes[0].memory, Some(NodeMemory { installed_kib: 4_000, free_kib: 1_000 }));
    assert_eq!(machine.own_reach().unwrap().cpus.to_string(), "0-3");
}

#[test]
fn two_nodes_are_two_leaves_with_what_runs_there() {
    let made = two(false);
    process(&made, 20, "N0=1", 5);
    process(&made, 21, "N0=1", 6);
    made.file("sys/devices/system/cpu/online", "0-6\n");
    let machine = made.machine();
    let tree = machine.tree().unwrap();
    let far = |a, b| tree.latency(GroupId(a), GroupId(b));
    assert_eq!([far(0, 0), far(1, 1), far(1, 2)], [Some(21), Some(10), Some(21)]);
    let nodes = machine.nodes().unwrap();
    assert_eq!(nodes[1].cpus.to_string(), "4-6", "CPU 7 is off-line");
    assert_eq!((nodes[0].load_milli, nodes[1].load_milli), (Some(0), Some(2_000)));
    assert_eq!(nodes[1].memory, Some(NodeMemory { installed_kib: 2_040_832, free_kib: 1_001_000 }));
}

#[test]
fn four_nodes_on_two_boards_have_two_lgroups_between() {
    let made =
        with_nodes(&[&[10, 16, 22, 22], &[16, 10, 22, 22], &[22, 22, 10, 16], &[22, 22, 16, 10]], false);
    let tree = made.machine().tree().unwrap();
    assert_eq!(tree.groups().len(), 7);
    assert_eq!(tree.nodes_of(GroupId(6)), [LgrpId(2), LgrpId(3)]);
    assert_eq!(tree.group(GroupId(3)).unwrap().parent, Some(GroupId(6)));
}

#[test]
fn a_home_is_by_mask_then_by_the_kernels_wish_then_by_memory_then_by_processor() {
    let made = two(false);
    process(&made, 20, "N0=1 N1=7", 0);
    process(&made, 21, "N0=3 N1=3", 5);
    process(&made, 22, "N0=9", 5);
    made.file("proc/22/task/22/sched", "job (22, #threads: 1)\nnuma_preferred_nid    :      1\n");
    process(&made, 23, "N0=9", 0);
    made.file("proc/23/task/23/mask", "6-7");
    let machine = made.machine();
    let home = |pid| {
        let homes = machine.homes(Pid(pid)).unwrap();
        (homes[0].home.0, homes[0].affinities.get(&LgrpId(1)).copied())
    };
    assert_eq!(home(20), (1, None), "most of its memory");
    assert_eq!(home(21), (1, None), "where it ran last");
    assert_eq!(home(22), (1, None), "where the kernel wants it");
    assert_eq!(home(23), (1, Some(Affinity::Strong)), "its mask");
    assert_eq!(machine.pages(Pid(20)).unwrap(), BTreeMap::from([(LgrpId(0), 4), (LgrpId(1), 28)]));
    assert!(machine.homes(Pid(99)).is_err());
}

#[test]
fn to_go_home_is_a_mask_and_memory_that_follows() {
    for v1 in [false, true] {
        let made = two(v1);
        process(&made, 20, "N0=9", 0);
        let machine = made.machine();
        let before = made.snapshot();
        let change = machine.prepare_homes(Pid(20), None, &[LgrpId(1)]).unwrap();
        let steps: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
        assert_eq!(steps, ["mask:20/20@1020: all -> 4-7", "pages:20@1020: absent -> 1"]);
        let was = commit(&machine, Ok(change)).unwrap();
        assert_eq!(was[0].home, LgrpId(0));
        assert_eq!(machine.homes(Pid(20)).unwrap()[0].home, LgrpId(1));
        assert!(machine.settle().unwrap().is_empty());
        // No preference means that all nodes are allowed.
        let none = BTreeMap::from([(LgrpId(1), Affinity::None)]);
        commit(&machine, machine.prepare_affinities(Pid(20), None, &none)).unwrap();
        assert_eq!(made.snapshot(), before);
        let weak = BTreeMap::from([(LgrpId(1), Affinity::Weak)]);
        let refusal = machine.prepare_affinities(Pid(20), None, &weak).unwrap_err();
        assert!(refusal.hint.is_some(), "{refusal}");
        bind_cpu(&machine, 20, Some(2)).unwrap();
        let refusal = machine.prepare_homes(Pid(20), Some(&[LwpId(20)]), &[LgrpId(1)]).unwrap_err();
        assert_eq!(refusal.reason.to_string(), "it is bound to processor 2");
    }
}

#[test]
fn a_set_keeps_its_threads_away_from_other_nodes() {
    let made = two(false);
    process(&made, 20, "N0=9", 0);
    let machine = made.machine();
    create(&machine, &[6, 7], EXCLUSIVE).unwrap();
    bind(&machine, 20, Some(1)).unwrap();
    let homed = machine.homes(Pid(20)).unwrap();
    assert_eq!((homed[0].home, homed[0].affinities.len()), (LgrpId(1), 0), "the set is no affinity");
    let refusal = machine.prepare_homes(Pid(20), None, &[LgrpId(0)]).unwrap_err();
    assert_eq!(refusal.reason.to_string(), "lgroup 1 has no CPU that it may use");
}

#[test]
fn the_memory_of_a_set_is_where_its_processors_are_until_it_ends() {
    for v1 in [false, true] {
        let made = two(v1);
        process(&made, 20, "N0=9", 0);
        let machine = made.machine();
        let before = made.snapshot();
        create(&machine, &[6, 7], EXCLUSIVE).unwrap();
        bind(&machine, 20, Some(1)).unwrap();
        let as_made = made.snapshot();
        let top = format!("{}/mpset1", made.group_root());
        let mems = |group: &str| made.read(&format!("{group}/cpuset.mems"));
        assert!(confine(&machine, SetMemory::Local).unwrap().is_all());
        assert_eq!(mems(&top), "1");
        if v1 {
            assert_eq!(mems(&format!("{top}/from+")), "1", "the leaf");
            assert_eq!(made.read(&format!("{top}/from+/cpuset.memory_migrate")), "1");
        }
        let set = &machine.psets().unwrap().list().unwrap()[0];
        assert_eq!(set.breaches, Vec::<String>::new());
        assert!(machine.settle().unwrap().is_empty());
        // The nodes follow the CPUs.
        let assigned = machine.psets().unwrap().prepare_assign(PsetId(1), &cpus(&[1]), false);
        commit(&machine, assigned).unwrap();
        assert_eq!(mems(&top), "0-1");
        let taken = machine.psets().unwrap().prepare_assign(PsetId::DEFAULT, &cpus(&[6, 7]), false);
        commit(&machine, taken).unwrap();
        assert_eq!(mems(&top), "0");
        let back = machine.psets().unwrap().prepare_assign(PsetId(1), &cpus(&[6, 7]), false);
        commit(&machine, back).unwrap();
        let taken = machine.psets().unwrap().prepare_assign(PsetId::DEFAULT, &cpus(&[1]), false);
        commit(&machine, taken).unwrap();
        assert_eq!(mems(&top), "1");
        // By number, and then without a limit: everything is as before.
        assert_eq!(confine(&machine, SetMemory::Nodes([LgrpId(0)].into())), Ok(SetMemory::Local));
        assert_eq!(mems(&top), "0");
        confine(&machine, SetMemory::All).unwrap();
        // A kernel before 7.0 does not clear the list of a cgroup with processes. A list of all nodes is equivalent.
        assert_eq!(mems(&top), "0-1");
        assert!(machine.settle().unwrap().is_empty());
        if !v1 {
            made.file(&format!("{top}/cpuset.mems"), "");
        }
        assert_eq!(made.snapshot(), as_made);
        confine(&machine, SetMemory::Local).unwrap();
        destroy(&machine, 1).unwrap();
        assert_eq!(made.snapshot(), before);
    }
}

#[test]
fn who_comes_to_a_set_comes_to_its_memory() {
    let made = two(true);
    process(&made, 20, "N0=9", 0);
    let machine = made.machine();
    create(&machine, &[6, 7], EXCLUSIVE).unwrap();
    confine(&machine, SetMemory::Local).unwrap();
    bind(&machine, 20, Some(1)).unwrap();
    assert_eq!(made.read("cgroup/cpuset/mpset1/from+/cpuset.mems"), "1");
    assert_eq!(made.read("cgroup/cpuset/mpset1/from+/cpuset.memory_migrate"), "1");
}

#[test]
fn a_writer_that_died_on_the_way_leaves_nothing() {
    for v1 in [false, true] {
        let made = two(v1);
        process(&made, 20, "N0=9", 0);
        let machine = made.machine();
        create(&machine, &[6, 7], EXCLUSIVE).unwrap();
        bind(&machine, 20, Some(1)).unwrap();
        // Once it was limited, the list exists, also on version 2.
        confine(&machine, SetMemory::Local).unwrap();
        confine(&machine, SetMemory::All).unwrap();
        let before = made.snapshot();
        let count = machine.prepare_set_memory(PsetId(1), SetMemory::Local).unwrap().steps.len();
        for died_after in 0..=count {
            let change = machine.prepare_set_memory(PsetId(1), SetMemory::Local).unwrap();
            machine.journal().begin(&change.what, &machine.boot_id(), &change.steps).unwrap();
            for step in &change.steps[..died_after] {
                machine.write(&step.knob, step.after.as_ref()).unwrap();
            }
            assert!(Writer::open(&machine).unwrap().repaired().is_some());
            assert_eq!(made.snapshot(), before, "after {died_after} steps");
            assert_eq!(machine.set_memory(PsetId(1)).unwrap().0, SetMemory::All);
        }
    }
}

#[test]
fn somebody_elses_list_is_told_and_put_right() {
    let made = two(false);
    let machine = made.machine();
    create(&machine, &[6, 7], EXCLUSIVE).unwrap();
    confine(&machine, SetMemory::Local).unwrap();
    made.file("cgroup/mpset1/cpuset.mems", "0\n");
    let set = &machine.psets().unwrap().list().unwrap()[0];
    assert_eq!(set.breaches, ["its memory comes from nodes `0` instead of `1`"]);
    let steps = machine.settle().unwrap();
    assert_eq!(steps.iter().map(ToString::to_string).collect::<Vec<_>>(), ["cg:/mpset1/cpuset.mems: 0 -> 1"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let made = two(false);
    let machine = made.machine();
    let why = |change: Result<Change<SetMemory>, Refusal>| change.unwrap_err().reason.to_string();
    assert_eq!(
        why(machine.prepare_set_memory(PsetId(1), SetMemory::Local)),
        "there is no such processor set"
    );
    let default = machine.prepare_set_memory(PsetId::DEFAULT, SetMemory::Local);
    assert!(why(default).starts_with("set 0 is the default set"));
    create(&machine, &[6, 7], EXCLUSIVE).unwrap();
    let beyond = SetMemory::Nodes([LgrpId(7)].into());
    assert_eq!(why(machine.prepare_set_memory(PsetId(1), beyond)), "one of the lgroups has no memory");
}
