//! Topologies of synthetic trees, compared with handwritten listings.

use crate::common::HandMade;
use crate::common::shape::Shape;
use millpond_linux::{LinuxMachine, Root, capture};
use millpond_machine::facets::{CreateOptions, FenceWish, Reserved};
use millpond_machine::{Fences, Lgroups, Machine, MemoryJournal, Processors, Writer};
use millpond_model::{CoreKind, CpuId, CpuSet, SetMemory, Shelter, State, Topology};
use std::fs;

/// A machine of this shape.
fn made(text: &str) -> HandMade {
    let shape = Shape::new(text);
    let made = HandMade::new(u32::try_from(shape.present().len()).unwrap(), false);
    shape.write(made.dir.path());
    made
}

/// The cores of each chip and the CPUs of each lgroup; kinds and instruction set only if they are unusual.
fn listing(topology: &Topology) -> String {
    let chips = topology.cores_by_chip().into_iter().map(|(chip, cores)| {
        let cores: Vec<String> = cores.iter().map(|core| core.cpus.to_string()).collect();
        format!("chip {chip}: {}", cores.join(" "))
    });
    let lgroups = topology.lgroups().iter().map(|l| format!("lgroup {}: {}", l.id, l.cpus));
    let of =
        |kind| -> CpuSet { topology.processors().iter().filter(|p| p.kind == kind).map(|p| p.id).collect() };
    let kinds = [CoreKind::Performance, CoreKind::Efficiency].map(|kind| (kind, of(kind)));
    let kinds =
        kinds.iter().filter(|(_, cpus)| !cpus.is_empty()).map(|(kind, cpus)| format!("{kind}: {cpus}"));
    let isa = Some(&topology.processors()[0].isa).filter(|isa| *isa != "i386");
    chips.chain(lgroups).chain(kinds).chain(isa.cloned()).collect::<Vec<_>>().join("; ")
}

fn read(made: &HandMade) -> String {
    listing(&made.machine().topology().unwrap())
}

/// The shared caches of a level.
fn caches(topology: &Topology, level: u32) -> Vec<String> {
    topology.caches().iter().filter(|c| c.level == level).map(|c| c.cpus.to_string()).collect()
}

#[test]
fn shapes_have_the_listings_of_their_hardware() {
    let two = "chip 0: 0-1 2-3; chip 1: 4-5 6-7; lgroup 0: 0-3; lgroup 1: 4-7";
    let split = "chip 0: 0,4 1,5; chip 1: 2,6 3,7; lgroup 0: 0-1,4-5; lgroup 1: 2-3,6-7";
    for (shape, expected) in [
        ("1x4x1", "chip 0: 0 1 2 3; lgroup 0: 0-3"),
        ("2x2x2 nodes=2", two),
        ("2x2x2 split nodes=2", split),
        // Off-line: one CPU of a core, a whole core, a whole chip.
        ("2x2x2 nodes=2 off=6", two),
        ("2x2x2 nodes=2 off=6-7", two),
        ("2x2x2 nodes=2 off=4-7", two),
        ("2x2x2 split nodes=2 off=5", split),
        ("2x2x2 split nodes=2 off=1,5", split),
        ("2x2x2 off=5-6", "chip 0: 0-1 2-3; chip 1: 4-5 6-7; lgroup 0: 0-7"),
        (
            "3x1x2 nodes=3 off=2-3",
            "chip 0: 0-1; chip 1: 2-3; chip 2: 4-5; lgroup 0: 0-1; lgroup 1: 2-3; lgroup 2: 4-5",
        ),
        // SMT is switched off.
        ("2x2x2 nodes=2 nosmt", two),
        ("2x2x2 split nodes=2 nosmt", split),
        ("1x2x4 arch=ppc64le smt=2", "chip 0: 0-3 4-7; lgroup 0: 0-7; ppc64le"),
        ("1x2x8 arch=ppc64le smt=4", "chip 0: 0-7 8-15; lgroup 0: 0-15; ppc64le"),
        // Emulated nodes; several nodes per chip; a node without on-line CPUs.
        (
            "1x4x1 fake=4 arch=aarch64",
            "chip 0: 0 1 2 3; lgroup 0: 0-3; lgroup 1: 0-3; lgroup 2: 0-3; lgroup 3: 0-3; aarch64",
        ),
        ("1x4x2 nodes=2 off=4-5", "chip 0: 0-1 2-3 4-5 6-7; lgroup 0: 0-3; lgroup 1: 4-7"),
        // Chips without a number.
        ("3x1x2 no-chip-id arch=s390x", "chip 0: 0-1; chip 1: 2-3; chip 2: 4-5; lgroup 0: 0-5; s390x"),
        ("2x2x2 nodes=2 no-chip-id masks", two),
        ("2x2x2 nodes=2 masks", two),
        ("2x2x2 nodes=2 no-lists off=6", two),
        // Hybrid machines.
        ("1x2x2 e=4", "chip 0: 0-1 2-3 4 5 6 7; lgroup 0: 0-7; performance: 0-3; efficiency: 4-7"),
        ("1x2x2 e=4 nosmt", "chip 0: 0-1 2-3 4 5 6 7; lgroup 0: 0-7; performance: 0-3; efficiency: 4-7"),
        ("1x2x2 e=4 off=6", "chip 0: 0-1 2-3 4 5 6 7; lgroup 0: 0-7; performance: 0-3; efficiency: 4-5,7"),
        (
            "1x6x1 arch=aarch64 little=0-3",
            "chip 0: 0 1 2 3 4 5; lgroup 0: 0-5; performance: 4-5; efficiency: 0-3; aarch64",
        ),
        ("1x2x1 arch=riscv64", "chip 0: 0 1; lgroup 0: 0-1; riscv64"),
        ("1x2x1 arch=loongarch64", "chip 0: 0 1; lgroup 0: 0-1; loongarch64"),
    ] {
        let made = made(shape);
        assert_eq!(read(&made), expected, "{shape}");
        // A capture of the machine has the same topology.
        let into = tempfile::tempdir().unwrap();
        let copy = into.path().join("copy");
        capture(&Root::captured(made.dir.path()), &copy).unwrap();
        let machine = LinuxMachine::open(Root::captured(&copy), Box::new(MemoryJournal::default()));
        assert_eq!(machine.topology(), made.machine().topology(), "{shape}");
    }
}

#[test]
fn what_was_on_line_keeps_its_place_however_many_go_off_line() {
    // Numbers without a pattern, and chips without a number.
    for text in [
        "2x3x2 split nodes=2",
        "2x3x2 nodes=2 l3=2",
        "1x2x2 e=4",
        "2x3x2 no-chip-id nodes=2",
        "2x3x2 no-chip-id masks",
    ] {
        let (shape, made) = (Shape::new(text), made(text));
        let before = made.machine().topology().unwrap();
        let gone: Vec<CpuId> = if text.contains("e=4") {
            vec![CpuId(1), CpuId(5), CpuId(6)]
        } else {
            // All CPUs of the first chip except CPU 0, the last one that the machine needs.
            vec![CpuId(1), CpuId(2), CpuId(3), CpuId(8)]
        };
        let machine = made.machine();
        let change = machine.prepare_states(&gone, State::OffLine, false).unwrap();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        shape.write_with(made.dir.path(), &(&shape.present() - &gone.iter().copied().collect()));
        let after = made.machine().topology().unwrap();
        assert_eq!(listing(&after), listing(&before), "{text}");
        assert_eq!(after.caches(), before.caches(), "{text}");
    }
}

#[test]
fn the_kernel_counts_more_than_the_record() {
    let made = made("1x1x4");
    let machine = made.machine();
    let change = machine.prepare_state(CpuId(3), State::OffLine, false).unwrap();
    Writer::open(&machine).unwrap().commit(change).unwrap();
    // Another machine boots with the same state directory.
    Shape::new("1x2x2").write_with(made.dir.path(), &"0-2".parse().unwrap());
    assert_eq!(read(&made), "chip 0: 0-1 2-3; lgroup 0: 0-3");
    made.file("state/records/topology", "{\"seen\": 7}");
    assert_eq!(read(&made), "chip 0: 0-1 2-3; lgroup 0: 0-3");
}

#[test]
fn a_second_change_writes_no_second_record() {
    let made = made("2x2x2 nodes=2");
    let machine = made.machine();
    let steps = |cpu: u32| {
        let change = machine.prepare_state(CpuId(cpu), State::OffLine, false).unwrap();
        let steps = change.steps.iter().filter(|step| step.knob.0 == "record:topology").count();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        steps
    };
    assert_eq!([steps(7), steps(6)], [1, 0]);
}

#[test]
fn a_cpu_that_was_replaced_has_its_new_place() {
    let made = made("2x2x1 nodes=2");
    let machine = made.machine();
    let switch = |to: State| {
        let change = machine.prepare_state(CpuId(3), to, false).unwrap();
        Writer::open(&machine).unwrap().commit(change).unwrap();
    };
    switch(State::OffLine);
    switch(State::OnLine);
    // A hypervisor removes CPU 3, and adds it to the first chip.
    let dir = "sys/devices/system";
    made.file(&format!("{dir}/cpu/cpu3/topology/physical_package_id"), "0\n");
    fs::remove_dir(made.dir.path().join(format!("{dir}/cpu/cpu3/node1"))).unwrap();
    fs::create_dir(made.dir.path().join(format!("{dir}/cpu/cpu3/node0"))).unwrap();
    made.file(&format!("{dir}/node/node0/cpulist"), "0-1,3\n");
    made.file(&format!("{dir}/node/node1/cpulist"), "2\n");
    let now = "chip 0: 0 1 3; chip 1: 2; lgroup 0: 0-1,3; lgroup 1: 2";
    assert_eq!(read(&made), now);
    switch(State::OffLine);
    // The kernel's view of an off-line CPU.
    fs::remove_dir_all(made.dir.path().join(format!("{dir}/cpu/cpu3/topology"))).unwrap();
    made.file(&format!("{dir}/node/node0/cpulist"), "0-1\n");
    assert_eq!(read(&made), now);
}

#[test]
fn caches_are_shared_by_the_cpus_that_share_them_on_line() {
    let topology = |text: &str| made(text).machine().topology().unwrap();
    assert_eq!(caches(&topology("2x4x1 l3=2"), 3), ["0-1", "2-3", "4-5", "6-7"]);
    assert_eq!(caches(&topology("1x4x1 l2=2 masks"), 2), ["0-1", "2-3"]);
}

#[test]
fn emulated_nodes_are_lgroups_with_the_same_cpus() {
    let made = made("1x4x1 fake=2 arch=aarch64");
    let machine = made.machine();
    let nodes = machine.nodes().unwrap();
    assert_eq!(nodes.iter().map(|n| n.cpus.to_string()).collect::<Vec<_>>(), ["0-3", "0-3"]);
    let topology = machine.topology().unwrap();
    assert!(topology.processors().iter().all(|p| p.lgroup.0 == 0));
    // Without links the first node is used.
    for cpu in 0..4 {
        fs::remove_dir(made.dir.path().join(format!("sys/devices/system/cpu/cpu{cpu}/node0"))).unwrap();
    }
    assert!(machine.topology().unwrap().processors().iter().all(|p| p.lgroup.0 == 0));
    fs::create_dir(made.dir.path().join("sys/devices/system/cpu/cpu3/node1")).unwrap();
    assert_eq!(machine.topology().unwrap().processor(CpuId(3)).unwrap().lgroup.0, 1);
}

#[test]
fn a_tree_without_cpus_is_refused() {
    let made = HandMade::new(2, false);
    fs::remove_dir_all(made.dir.path().join("sys/devices/system/cpu")).unwrap();
    let refusal = made.machine().states().unwrap_err();
    assert_eq!(refusal.reason.to_string(), "there are no CPUs in devices/system/cpu of sysfs");
}

#[test]
fn a_capture_is_of_the_architecture_of_its_machine() {
    let made = made("1x2x1 arch=ppc64le");
    let into = tempfile::tempdir().unwrap();
    let copy = into.path().join("copy");
    capture(&Root::captured(made.dir.path()), &copy).unwrap();
    assert_eq!(fs::read_to_string(copy.join("proc/sys/kernel/arch")).unwrap(), "ppc64le\n");
    let machine = LinuxMachine::open(Root::captured(&copy), Box::new(MemoryJournal::default()));
    let processor = machine.processors().unwrap().topology().unwrap().processors()[1].clone();
    assert_eq!(
        (
            processor.isa.as_str(),
            processor.fpu.as_deref(),
            processor.implementation.as_str(),
            processor.brand.as_str()
        ),
        ("ppc64le", Some("IEEE 754"), "ppc64le (revision 2.2 clock 2300 MHz)", "POWER9")
    );
}

#[test]
fn cpus_that_others_have_are_reserved() {
    let made = made("1x6x1");
    made.file("sys/devices/system/cpu/isolated", "5\n");
    for (group, flag, cpus) in
        [("rt.slice", "isolated", "3"), ("db.slice", "root", "2"), ("web.slice", "member", "1")]
    {
        made.file(&format!("cgroup/{group}/cpuset.cpus"), &format!("{cpus}\n"));
        made.file(&format!("cgroup/{group}/cpuset.cpus.partition"), &format!("{flag}\n"));
        made.file(&format!("cgroup/{group}/cgroup.procs"), "");
    }
    made.process(20, &[20], "job", 0);
    made.file("proc/20/task/20/mask", "4\n");
    let machine = made.machine();
    let sorted = |reserved: &Reserved| {
        [&reserved.isolated, &reserved.partitions, &reserved.bound].map(ToString::to_string)
    };
    assert_eq!(sorted(&machine.reserved().unwrap()), ["5", "2-3", "4"]);
    // Our own set does not count as another program's.
    let change =
        machine.psets().unwrap().prepare_create(&[CpuId(1)], CreateOptions::default(), false).unwrap();
    Writer::open(&machine).unwrap().commit(change).unwrap();
    assert_eq!(sorted(&machine.reserved().unwrap()), ["5", "2-3", "4"]);
}

#[test]
fn exclusive_cpusets_of_others_are_reserved_but_that_of_the_system() {
    let made = HandMade::new(6, true);
    for (group, flag, cpus) in [("system", "1", "0-2"), ("user", "1", "3-4"), ("web", "0", "5")] {
        made.group(group, cpus, "member");
        made.file(&format!("cgroup/cpuset/{group}/cpuset.cpu_exclusive"), &format!("{flag}\n"));
    }
    assert_eq!(made.machine().reserved().unwrap().partitions.to_string(), "3-4");
}

#[test]
fn of_a_partition_with_an_exclusive_list_that_list_is_reserved() {
    let made = HandMade::new(6, false);
    made.file("cgroup/cgroup.subtree_control", "cpuset\n");
    made.group("rt", "2-5", "root");
    made.file("cgroup/rt/cpuset.cpus.exclusive", "4-5\n");
    assert_eq!(made.machine().reserved().unwrap().partitions.to_string(), "4-5");
}

#[test]
fn in_a_container_cpus_of_the_host_are_reserved() {
    let made = HandMade::new(6, false);
    made.file("cgroup/cgroup.subtree_control", "cpuset\n");
    made.file("cgroup/cpuset.cpus", "2-5\n");
    made.file("cgroup/cpuset.cpus.partition", "root\n");
    made.file("cgroup/cpuset.cpus.effective", "2-5\n");
    assert_eq!(made.machine().reserved().unwrap().partitions.to_string(), "0-1");
}

#[test]
fn memory_that_a_fence_cannot_have_nearby_is_said() {
    let absent = |cpus: &[u32]| {
        let made = made("2x2x1 nodes=2 no-memory=1");
        let shelter = Shelter { memory: SetMemory::Local, ..Shelter::default() };
        let cpus = cpus.iter().copied().map(CpuId).collect();
        let wish = FenceWish { name: "a".parse().unwrap(), profile: "own".into(), shelter, cpus };
        made.machine().prepare_fence(&wish, false).unwrap().outcome.absent
    };
    assert_eq!(absent(&[2, 3]), ["memory: NUMA node 1 has none: it comes from any node"]);
    assert_eq!(absent(&[1, 2]), ["memory: NUMA node 1 has none: it comes from node 0"]);
    assert_eq!(absent(&[1]), [""; 0]);
}
