//! Sets on synthetic roots, in both cgroup versions.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, SHARED, bind, bind_cpu, cpus, create, destroy};
use millpond_machine::{Knobs, Machine, MemoryJournal, Reason, Writer};
use millpond_model::{CpuId, Lwp, LwpId, Pid, PsetId, PsetMode, State};

#[test]
fn an_exclusive_set_on_version_2_is_a_partition_under_the_root() {
    let made = HandMade::new(4, false);
    let before = made.snapshot();
    let machine = made.machine();
    assert_eq!(create(&machine, &[2, 1], EXCLUSIVE), Ok(PsetId(1)));
    assert_eq!(made.read("cgroup/cgroup.subtree_control"), "cpuset");
    assert_eq!(made.read("cgroup/mpset1/cpuset.cpus"), "1-2");
    assert_eq!(made.read("cgroup/mpset1/cpuset.cpus.partition"), "root");
    assert_eq!(made.read("cgroup/mpset1/cgroup.subtree_control"), "cpuset", "the anchor");
    let sets = machine.psets().unwrap().list().unwrap();
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].members, cpus(&[2, 1]), "in order of arrival");
    assert_eq!(sets[0].mode, PsetMode::Own);
    assert_eq!(sets[0].breaches, Vec::<String>::new());
    destroy(&machine, 1).unwrap();
    assert_eq!(made.snapshot(), before);
    assert!(machine.journal().baselines().is_empty());
}

/// The knobs that the removal of set 1 writes, on a machine with that kernel.
fn written_to_remove(release: &str, v1: bool) -> Vec<String> {
    let made = HandMade::new(4, v1);
    made.file("proc/sys/kernel/osrelease", release);
    let machine = made.machine();
    create(&machine, &[2, 1], EXCLUSIVE).unwrap();
    let change = machine.psets().unwrap().prepare_destroy(PsetId(1)).unwrap();
    change.steps.iter().filter(|s| !s.falls && !s.is_note()).map(|s| s.knob.to_string()).collect()
}

#[test]
fn what_goes_with_a_directory_is_not_written_first() {
    assert_eq!(written_to_remove("6.17.0\n", false), ["dir:/mpset1", "controller:/"]);
    // Before 6.15 a removed partition keeps its CPUs for some time.
    let slow = ["cg:/mpset1/cpuset.cpus.partition", "dir:/mpset1", "controller:/"];
    assert_eq!(written_to_remove("6.12.0\n", false), slow);
}

#[test]
fn whoever_bound_a_thread_its_processor_stays() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "pinned", 0);
        made.file("proc/20/task/20/mask", "2");
        let machine = made.machine();
        let refusal = create(&machine, &[2], SHARED).unwrap_err();
        let lwp = Lwp { pid: Pid(20), lwp: LwpId(20) };
        assert_eq!(refusal.reason, Reason::BoundThreads(vec![lwp]));
        create(&machine, &[1], SHARED).unwrap();
        bind_cpu(&machine, 20, None).unwrap();
        create(&machine, &[2], SHARED).unwrap();
    }
}

#[test]
fn a_removal_that_was_killed_half_way_comes_back_whole() {
    for (release, v1) in [("6.17.0\n", false), ("6.12.0\n", false), ("6.1.0\n", true)] {
        let made = HandMade::new(4, v1);
        made.file("proc/sys/kernel/osrelease", release);
        let machine = made.machine();
        create(&machine, &[2, 1], EXCLUSIVE).unwrap();
        bind(&machine, 1, Some(1)).unwrap();
        let before = made.snapshot();
        let change = machine.psets().unwrap().prepare_destroy(PsetId(1)).unwrap();
        for killed_after in 0..=change.steps.len() {
            machine.journal().begin(&change.what, &machine.boot_id(), &change.steps).unwrap();
            for step in change.steps[..killed_after].iter().filter(|s| !s.falls && !s.is_note()) {
                machine.write(&step.knob, step.after.as_ref()).unwrap();
            }
            assert!(Writer::open(&machine).unwrap().repaired().is_some());
            assert_eq!(made.snapshot(), before, "{release} killed after {killed_after} steps");
        }
    }
}

#[test]
fn masks_of_kernel_threads_outlive_partitions() {
    const KERNEL: u64 = 0x0020_0000;
    for release in ["6.17.0\n", "6.12.0\n", "6.1.0\n"] {
        let made = HandMade::new(4, false);
        made.file("proc/sys/kernel/osrelease", release);
        made.process(2, &[2], "kthreadd", KERNEL);
        made.process(18, &[18], "kswapd0", KERNEL);
        // In the form that this kernel remembers until a partition takes CPUs.
        made.file("proc/18/task/18/mask", "0-1 in /:");
        made.process(19, &[19], "irq/24-nvme0q1", KERNEL);
        made.file("proc/19/task/19/mask", "1 in /:");
        let before = made.snapshot();
        let machine = made.machine();
        create(&machine, &[2, 1], EXCLUSIVE).unwrap();
        assert_eq!(made.read("proc/18/task/18/mask"), "0 in /:1-2", "{release}");
        create(&machine, &[3], EXCLUSIVE).unwrap();
        assert_eq!(
            made.read("proc/18/task/18/mask"),
            "0 in /:1-2",
            "{release}: all that is left is what it may"
        );
        destroy(&machine, 1).unwrap();
        assert_eq!(made.read("proc/18/task/18/mask"), "0-1 in /:3", "{release}");
        destroy(&machine, 2).unwrap();
        assert_eq!(made.read("proc/18/task/18/mask"), "0-1 in /:", "{release}");
        assert_eq!(
            made.read("proc/19/task/19/mask"),
            "1 in /:",
            "that of an interrupt follows its interrupt"
        );
        assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
        assert_eq!(made.snapshot(), before, "{release}");
    }
}

#[test]
fn masks_of_kernel_threads_outlive_the_default_set_of_version_1() {
    let made = HandMade::new(4, true);
    made.file("proc/sys/kernel/osrelease", "6.1.0\n");
    made.process(18, &[18], "kswapd0", 0x0020_0000);
    made.file("proc/18/task/18/mask", "0-1 in /:");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[1], EXCLUSIVE).unwrap();
    assert_eq!(made.read("proc/18/task/18/mask"), "0 in /mpdefault/from+:0,2-3");
    create(&machine, &[2], EXCLUSIVE).unwrap();
    destroy(&machine, 1).unwrap();
    assert_eq!(made.read("proc/18/task/18/mask"), "0-1 in /mpdefault/from+:0-1,3");
    destroy(&machine, 2).unwrap();
    assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
    assert_eq!(made.snapshot(), before);
}

#[test]
fn an_exclusive_set_on_version_1_moves_everybody_else_aside() {
    let made = HandMade::new(4, true);
    made.process(20, &[20, 21], "daemon", 0);
    made.process(2, &[2], "kthreadd", 0x0020_0000);
    made.process(3, &[3], "ksoftirqd/1", 0x0420_0000);
    made.file("cgroup/cpuset/docker/cpuset.cpus", "0-3\n");
    made.file("cgroup/cpuset/docker/cpuset.mems", "0\n");
    made.file("cgroup/cpuset/docker/tasks", "");
    made.file("cgroup/cpuset/docker/a/cpuset.cpus", "2-3\n");
    made.file("cgroup/cpuset/docker/a/cpuset.mems", "0\n");
    made.file("cgroup/cpuset/docker/a/tasks", "");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[3, 2], EXCLUSIVE).unwrap();
    assert_eq!(made.read("cgroup/cpuset/mpset1/cpuset.cpus"), "2-3");
    assert_eq!(made.read("cgroup/cpuset/mpset1/cpuset.mems"), "0");
    assert_eq!(made.read("cgroup/cpuset/mpdefault/cpuset.cpus"), "0-1");
    assert_eq!(made.read("cgroup/cpuset/mpdefault/from+/tasks"), "1\n2\n20\n21");
    assert_eq!(made.read("cgroup/cpuset/tasks"), "3", "what the kernel pins stays");
    assert_eq!(made.read("cgroup/cpuset/docker/cpuset.cpus"), "0-1");
    assert_eq!(made.read("cgroup/cpuset/docker/a/cpuset.cpus"), "0-1", "nothing was left of its own list");
    destroy(&machine, 1).unwrap();
    assert_eq!(made.snapshot(), before);
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn a_shared_set_pushes_nobody_out() {
    for v1 in [false, true] {
        let made = HandMade::new(2, v1);
        made.process(20, &[20, 21], "mine", 0);
        let machine = made.machine();
        create(&machine, &[1], SHARED).unwrap();
        bind(&machine, 20, Some(1)).unwrap();
        let lwps = machine.threads().unwrap().lwps(Pid(20)).unwrap();
        assert!(lwps.iter().all(|l| l.set == PsetId(1) && l.allowed.to_string() == "1"), "{lwps:?}");
        let init = machine.threads().unwrap().lwps(Pid(1)).unwrap();
        assert_eq!(init[0].allowed.to_string(), "0-1");
        assert_eq!(made.read(&format!("{}/mpset1/cpuset.cpus", made.group_root())), "1");
        assert_eq!(machine.psets().unwrap().list().unwrap()[0].mode, PsetMode::Shared);
    }
}

#[test]
fn a_process_returns_to_where_it_came_from() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(20, &[20, 21], "mine", 0);
        let before = made.snapshot();
        let machine = made.machine();
        create(&machine, &[1], EXCLUSIVE).unwrap();
        create(&machine, &[2], EXCLUSIVE).unwrap();
        bind(&machine, 20, Some(1)).unwrap();
        bind(&machine, 20, Some(2)).unwrap();
        let leaf = format!("{}/mpset2/from+/cgroup.procs", made.group_root());
        assert_eq!(made.read(&leaf), "20");
        destroy(&machine, 2).unwrap();
        let lwps = machine.threads().unwrap().lwps(Pid(20)).unwrap();
        assert!(
            lwps.iter().all(|l| l.set == PsetId::DEFAULT && l.allowed.to_string() == "0,2-3"),
            "{lwps:?}"
        );
        destroy(&machine, 1).unwrap();
        assert_eq!(made.snapshot(), before, "v1: {v1}");
    }
}

#[test]
fn one_thread_can_be_bound_alone_only_on_version_1() {
    let made = HandMade::new(4, true);
    made.process(20, &[20, 21], "mine", 0);
    let machine = made.machine();
    create(&machine, &[1], SHARED).unwrap();
    let writer = Writer::open(&machine).unwrap();
    let threads = machine.threads().unwrap();
    let change = threads.prepare_bind_set(Pid(20), Some(&[LwpId(21)]), Some(PsetId(1))).unwrap();
    writer.commit(change).unwrap();
    let sets: Vec<PsetId> = threads.lwps(Pid(20)).unwrap().iter().map(|l| l.set).collect();
    assert_eq!(sets, [PsetId::DEFAULT, PsetId(1)]);
    drop(writer);
    // Destroying the set moves a single thread back, too.
    destroy(&machine, 1).unwrap();
    assert!(threads.lwps(Pid(20)).unwrap().iter().all(|l| l.set.is_default()));

    let made = HandMade::new(4, false);
    made.process(20, &[20, 21], "mine", 0);
    let machine = made.machine();
    create(&machine, &[1], SHARED).unwrap();
    let threads = machine.threads().unwrap();
    let refusal = threads.prepare_bind_set(Pid(20), Some(&[LwpId(21)]), Some(PsetId(1))).unwrap_err();
    assert_eq!(refusal.to_string(), "thread 20/21: its process is in set 0");
    assert_eq!(refusal.hint.as_deref(), Some("bind the process"));
}

#[test]
fn processors_move_between_sets_without_a_moment_of_overlap() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    create(&machine, &[1, 2], EXCLUSIVE).unwrap();
    create(&machine, &[3], EXCLUSIVE).unwrap();
    let writer = Writer::open(&machine).unwrap();
    let change = machine.psets().unwrap().prepare_assign(PsetId(2), &cpus(&[2]), false).unwrap();
    let order: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
    let shrink = order.iter().position(|s| s == "cg:/mpset1/cpuset.cpus: 1-2 -> 1").unwrap();
    let grow = order.iter().position(|s| s == "cg:/mpset2/cpuset.cpus: 3 -> 2-3").unwrap();
    assert!(shrink < grow, "{order:?}");
    assert!(!order.iter().any(|s| s.contains("partition")), "a live partition is resized in place");
    writer.commit(change).unwrap();
    let sets = machine.psets().unwrap().list().unwrap();
    assert_eq!((&sets[0].members, &sets[1].members), (&cpus(&[1]), &cpus(&[3, 2])));
}

#[test]
fn refusals_name_the_processor_and_change_nothing() {
    let made = HandMade::new(4, false);
    made.process(20, &[20], "mine", 0);
    let machine = made.machine();
    create(&machine, &[1, 2], EXCLUSIVE).unwrap();
    bind(&machine, 20, Some(1)).unwrap();
    let before = made.snapshot();
    let reason = |list: &[u32]| create(&machine, list, EXCLUSIVE).unwrap_err().to_string();
    assert_eq!(reason(&[9]), "CPU 9: there is no such CPU (this machine has 0-3)");
    assert_eq!(reason(&[3, 3]), "CPU 3: it is named twice");
    assert_eq!(reason(&[0, 3]), "CPU 3: it is the last one in the default set");
    assert_eq!(reason(&[1, 2]), "CPU 2: it is the last one in set 1, and threads are bound to that set");
    assert_eq!(made.snapshot(), before);
}

#[test]
fn binding_to_nothing_is_refused() {
    let made = HandMade::new(2, false);
    made.process(20, &[20], "mine", 0);
    made.process(2, &[2], "kthreadd", 0x0020_0000);
    let machine = made.machine();
    create(&machine, &[], EXCLUSIVE).unwrap();
    let why = |pid, set| bind(&machine, pid, Some(set)).unwrap_err().reason;
    assert_eq!(why(20, 1), Reason::EmptyPset(PsetId(1)));
    assert_eq!(why(20, 7), Reason::NoSuchPset);
    assert_eq!(why(99, 1), Reason::NoSuchProcess);
    assert_eq!(why(2, 1), Reason::KernelThread);
}

#[test]
fn a_processor_binding_blocks_the_move_and_is_undone_exactly() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        made.file("proc/20/task/20/mask", "0-2");
        let machine = made.machine();
        let allowed = || machine.threads().unwrap().lwps(Pid(20)).unwrap()[0].allowed.to_string();
        bind_cpu(&machine, 20, Some(2)).unwrap();
        assert_eq!(allowed(), "2");
        let refusal = create(&machine, &[2], EXCLUSIVE).unwrap_err();
        assert_eq!(refusal.to_string(), "CPU 2: a thread is bound to it: 20/20");
        bind_cpu(&machine, 20, Some(1)).unwrap();
        create(&machine, &[2], EXCLUSIVE).unwrap();
        assert_eq!(
            bind(&machine, 20, Some(1)).unwrap_err().to_string(),
            "process 20: it is bound to CPU 1, which is not in set 1"
        );
        bind_cpu(&machine, 20, None).unwrap();
        destroy(&machine, 1).unwrap();
        assert_eq!(allowed(), "0-2", "the mask that somebody else had set is back");
        assert!(machine.journal().baselines().is_empty());
    }
}

#[test]
fn an_offline_processor_keeps_its_set_and_comes_back_to_it() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        let machine = made.machine();
        create(&machine, &[1, 2], EXCLUSIVE).unwrap();
        bind(&machine, 20, Some(1)).unwrap();
        for (state, on) in [(State::OffLine, "1"), (State::OnLine, "1-2")] {
            let writer = Writer::open(&machine).unwrap();
            let change = machine.processors().unwrap().prepare_state(CpuId(2), state, false).unwrap();
            writer.commit(change).unwrap();
            assert_eq!(machine.psets().unwrap().list().unwrap()[0].members, cpus(&[1, 2]));
            let lwps = machine.threads().unwrap().lwps(Pid(20)).unwrap();
            assert_eq!(lwps[0].allowed.to_string(), on, "v1: {v1}");
        }
    }
}

#[test]
fn an_overlapping_neighbour_is_narrowed_and_widened_again() {
    let made = HandMade::new(4, false);
    made.file("cgroup/cgroup.subtree_control", "cpuset\n");
    made.file("cgroup/system.slice/cpuset.cpus", "0-3\n");
    made.file("cgroup/system.slice/cpuset.cpus.partition", "member\n");
    made.file("cgroup/system.slice/cgroup.procs", "");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[3], EXCLUSIVE).unwrap();
    assert_eq!(made.read("cgroup/system.slice/cpuset.cpus"), "0-2");
    create(&machine, &[2], EXCLUSIVE).unwrap();
    assert_eq!(made.read("cgroup/system.slice/cpuset.cpus"), "0-1");
    destroy(&machine, 1).unwrap();
    assert_eq!(made.read("cgroup/system.slice/cpuset.cpus"), "0-1,3");
    destroy(&machine, 2).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_writer_that_dies_anywhere_is_repaired_to_the_byte() {
    for v1 in [false, true] {
        let steps = {
            let made = HandMade::new(4, v1);
            made.process(20, &[20, 21], "daemon", 0);
            let machine = made.machine();
            machine.psets().unwrap().prepare_create(&cpus(&[3, 2]), EXCLUSIVE, false).unwrap().steps.len()
        };
        assert!(steps > 4);
        for stop in 0..=steps {
            let made = HandMade::new(4, v1);
            made.process(20, &[20, 21], "daemon", 0);
            let before = made.snapshot();
            let journal = MemoryJournal::default();
            let machine = millpond_linux::LinuxMachine::open(
                millpond_linux::Root::captured(made.dir.path()),
                Box::new(journal),
            );
            let change = machine.psets().unwrap().prepare_create(&cpus(&[3, 2]), EXCLUSIVE, false).unwrap();
            let boot = millpond_machine::Knobs::boot_id(&machine);
            machine.journal().begin(&change.what, &boot, &change.steps).unwrap();
            for step in &change.steps[..stop] {
                millpond_machine::Knobs::write(&machine, &step.knob, step.after.as_ref()).unwrap();
            }
            let writer = Writer::open(&machine).unwrap();
            assert!(writer.repaired().is_some());
            assert_eq!(made.snapshot(), before, "v1: {v1}, killed after step {stop}");
        }
    }
}

#[test]
fn inside_a_namespace_that_is_no_partition_a_set_is_steered() {
    let made = HandMade::new(4, false);
    made.file("cgroup/cpuset.cpus.partition", "member\n");
    made.file("cgroup/cgroup.subtree_control", "cpuset\n");
    for (name, text) in [("cpuset.cpus", ""), ("cpuset.cpus.partition", "member\n"), ("cgroup.procs", "")] {
        made.file(&format!("cgroup/other/{name}"), text);
    }
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[3], EXCLUSIVE).unwrap();
    let set = machine.psets().unwrap().list().unwrap().remove(0);
    assert_eq!(set.mode, PsetMode::Steered);
    assert_eq!(set.breaches, ["new groups may intrude until the next check"]);
    assert_eq!(made.read("cgroup/mpset1/cpuset.cpus.partition"), "member");
    assert_eq!(made.read("cgroup/other/cpuset.cpus"), "0-2");
    destroy(&machine, 1).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn sets_of_a_hundred_thousand_processors_are_changed_in_proportion() {
    // Comparing every CPU with every other one would take minutes.
    let made = HandMade::new(4, false);
    for name in ["possible", "present", "online"] {
        made.file(&format!("sys/devices/system/cpu/{name}"), "0-99999\n");
    }
    let machine = made.machine();
    let members = |set: u32| {
        let sets = machine.psets().unwrap().list().unwrap();
        sets.iter().find(|is| is.id == PsetId(set)).unwrap().cpus().to_string()
    };
    let first: Vec<u32> = (1..=50_000).collect();
    let second: Vec<u32> = (25_001..=75_000).collect();
    create(&machine, &first, SHARED).unwrap();
    assert_eq!(members(1), "1-50000");
    create(&machine, &second, SHARED).unwrap();
    assert_eq!((members(1), members(2)), ("1-25000".to_owned(), "25001-75000".to_owned()));
    assert_eq!(machine.processors().unwrap().topology().unwrap().cpus().len(), 100_000);
    destroy(&machine, 1).unwrap();
}

/// A version 2 tree with foreign partitions: an isolated one with CPU 3, and one with a child partition.
fn with_partitions() -> HandMade {
    let made = HandMade::new(8, false);
    made.file("proc/sys/kernel/osrelease", "6.12.0\n");
    made.file("cgroup/cgroup.subtree_control", "cpuset");
    made.group("rt.slice", "3", "isolated");
    made.group("vm", "4-7", "root");
    made.file("cgroup/vm/cgroup.subtree_control", "cpuset");
    made.group("vm/one", "6-7", "root");
    made
}

#[test]
fn a_partition_of_another_program_is_not_taken() {
    let made = with_partitions();
    let before = made.snapshot();
    let machine = made.machine();
    for options in [EXCLUSIVE, SHARED] {
        for (cpu, group) in [(3, "group /rt.slice"), (4, "group /vm"), (6, "group /vm/one")] {
            let refusal = create(&machine, &[1, cpu], options).unwrap_err();
            assert_eq!(refusal.reason, Reason::InPartition(group.to_owned()));
            assert_eq!(
                refusal.reason.to_string(),
                format!("it belongs to the partition of {group}, which another program made")
            );
        }
    }
    assert_eq!(made.snapshot(), before);
}

/// A version 1 tree as `cset shield` creates it: two exclusive cpusets, one for the system and one for a program.
fn with_shield() -> HandMade {
    let made = HandMade::new(8, true);
    for (group, cpus) in [("system", "0-5"), ("user", "6-7")] {
        made.group(group, cpus, "member");
        made.file(&format!("cgroup/cpuset/{group}/cpuset.cpu_exclusive"), "1\n");
    }
    made
}

#[test]
fn an_exclusive_cpuset_of_another_program_is_not_taken() {
    let made = with_shield();
    let before = made.snapshot();
    let machine = made.machine();
    let refusal = create(&machine, &[5, 6], SHARED).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "CPU 6: it belongs to the exclusive cpuset of group /user, which another program made"
    );
    assert_eq!(
        refusal.hint.as_deref(),
        Some("choose another CPU, or use -F: the cpuset is restored when the CPU returns")
    );
    create(&machine, &[5], SHARED).unwrap();
    destroy(&machine, 1).unwrap();
    let forced = machine.psets().unwrap().prepare_create(&cpus(&[6]), SHARED, true).unwrap();
    Writer::open(&machine).unwrap().commit(forced).unwrap();
    assert_eq!(made.read("cgroup/cpuset/user/cpuset.cpus"), "6-7", "a shared set pushes nothing out");
    destroy(&machine, 1).unwrap();
    assert_eq!(made.snapshot(), before);
}

/// Another program takes CPUs 2 and 3, which are set 1, off-line and on-line again. Emulates the effects of version 1 on the set
/// and on process 20 in it.
fn lose_and_return(made: &HandMade) {
    for (online, state) in [("0-1", "0"), ("0-3", "1")] {
        made.file("sys/devices/system/cpu/online", &format!("{online}\n"));
        made.file("cgroup/cpuset/cpuset.cpus", &format!("{online}\n"));
        for cpu in [2, 3] {
            made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), &format!("{state}\n"));
        }
    }
    for group in ["mpset1", "mpset1/from+web"] {
        made.file(&format!("cgroup/cpuset/{group}/cpuset.cpus"), "\n");
    }
    made.moved(20, "/mpset1/from+web", "/");
}

/// A process in a foreign cgroup, bound to set 1.
fn with_member() -> HandMade {
    let made = HandMade::new(4, true);
    made.group("web", "0-3", "member");
    made.process(20, &[20], "job", 0);
    made.put(20, 20, "/web");
    made
}

#[test]
fn a_process_that_the_kernel_moved_out_of_a_set_is_reported_and_returns() {
    let made = with_member();
    let (before, machine) = (made.snapshot(), made.machine());
    create(&machine, &[2, 3], EXCLUSIVE).unwrap();
    bind(&machine, 20, Some(1)).unwrap();
    lose_and_return(&made);
    let breaches = || machine.psets().unwrap().list().unwrap()[0].breaches.clone();
    assert_eq!(breaches(), ["its CPUs are `` instead of `2-3`", "process 20 left it without a command"]);
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("proc/20/cgroup"), "1:cpuset:/mpset1/from+web");
    assert_eq!(breaches(), Vec::<String>::new());
    destroy(&machine, 1).unwrap();
    assert_eq!(made.read("proc/20/cgroup"), "1:cpuset:/web");
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_process_that_left_a_set_goes_where_it_came_from_when_the_set_ends() {
    let made = with_member();
    let (before, machine) = (made.snapshot(), made.machine());
    create(&machine, &[2, 3], EXCLUSIVE).unwrap();
    bind(&machine, 20, Some(1)).unwrap();
    lose_and_return(&made);
    destroy(&machine, 1).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_process_that_another_program_moved_is_no_member() {
    let made = with_member();
    let machine = made.machine();
    create(&machine, &[2, 3], EXCLUSIVE).unwrap();
    bind(&machine, 20, Some(1)).unwrap();
    made.moved(20, "/mpset1/from+web", "/web");
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].breaches, Vec::<String>::new());
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(made.read("proc/20/cgroup"), "1:cpuset:/web");
    destroy(&machine, 1).unwrap();
    assert_eq!(made.read("proc/20/cgroup"), "1:cpuset:/web");
}

#[test]
fn what_is_started_in_the_default_set_lists_no_cpu_of_a_partition() {
    // Before 7.0 a list that overlaps a sibling partition makes the partition invalid.
    let made = with_partitions();
    let machine = made.machine();
    create(&machine, &[1], EXCLUSIVE).unwrap();
    made.process(20, &[20], "job", 0);
    let change = machine.threads().unwrap().prepare_start_in_default(Pid(20)).unwrap();
    Writer::open(&machine).unwrap().commit(change).unwrap();
    assert_eq!(made.read("cgroup/mpdefault/cpuset.cpus"), "0,2");
}

#[test]
fn a_partition_that_is_taken_by_force_is_valid_again_afterwards() {
    for (taken, rt, one) in
        [(vec![3], "member", "root"), (vec![6, 7], "isolated", "member"), (vec![6], "isolated", "root")]
    {
        let made = with_partitions();
        let before = made.snapshot();
        let machine = made.machine();
        let change = machine.psets().unwrap().prepare_create(&cpus(&taken), EXCLUSIVE, true).unwrap();
        Writer::open(&machine).unwrap().commit(change).unwrap();
        assert_eq!(made.read("cgroup/rt.slice/cpuset.cpus.partition"), rt);
        assert_eq!(made.read("cgroup/vm/one/cpuset.cpus.partition"), one);
        assert_eq!(made.read("cgroup/vm/cpuset.cpus.partition"), "root");
        destroy(&machine, 1).unwrap();
        assert_eq!(made.snapshot(), before, "{taken:?}");
        assert!(machine.journal().baselines().is_empty(), "{taken:?}");
    }
}

#[test]
fn threads_of_threaded_groups_return_to_their_own() {
    let made = HandMade::new(4, false);
    made.file("cgroup/cgroup.subtree_control", "cpuset");
    for (group, cpus) in [("libvirt", "0-2"), ("libvirt/emulator", "0-1"), ("libvirt/vcpu0", "2")] {
        made.group(group, cpus, "member");
    }
    made.process(300, &[300, 301, 302], "qemu", 0);
    for (tid, group) in [(300, "emulator"), (301, "vcpu0"), (302, "emulator")] {
        made.put(300, tid, &format!("/libvirt/{group}"));
    }
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[3], EXCLUSIVE).unwrap();
    // At the end of the set, and by unbinding.
    for ends in [true, false] {
        bind(&machine, 300, Some(1)).unwrap();
        for tid in [300, 301, 302] {
            let place = made.read(&format!("proc/300/task/{tid}/cgroup"));
            assert!(place.starts_with("0::/mpset1/"), "{place}");
        }
        if ends {
            destroy(&machine, 1).unwrap();
            assert_eq!(made.snapshot(), before);
            create(&machine, &[3], EXCLUSIVE).unwrap();
        } else {
            bind(&machine, 300, None).unwrap();
            destroy(&machine, 1).unwrap();
            assert_eq!(made.snapshot(), before);
        }
    }
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn the_default_set_keeps_a_cpu_that_no_partition_has() {
    let made = with_partitions();
    for cpu in [1, 2] {
        made.file(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "0\n");
    }
    made.file("sys/devices/system/cpu/online", "0,3-7\n");
    let machine = made.machine();
    assert_eq!(create(&machine, &[0], EXCLUSIVE).unwrap_err().reason, Reason::LastOfDefault);
    let change = machine.psets().unwrap().prepare_create(&cpus(&[3]), EXCLUSIVE, true).unwrap();
    Writer::open(&machine).unwrap().commit(change).unwrap();
    destroy(&machine, 1).unwrap();
    assert_eq!(made.read("cgroup/rt.slice/cpuset.cpus.partition"), "isolated");
}

#[test]
fn a_partition_whose_cpus_the_root_has_as_well_is_reported_and_made_anew() {
    for by_a_change in [false, true] {
        let made = HandMade::new(4, false);
        let machine = made.machine();
        create(&machine, &[2, 3], EXCLUSIVE).unwrap();
        let breaches = || machine.psets().unwrap().list().unwrap()[0].breaches.clone();
        assert_eq!(breaches(), Vec::<String>::new());
        // As Linux 6.17 leaves it when CPUs 3 and 2 go off-line, and 2 and 3 come back, while a process is in the set.
        made.file("cgroup/cpuset.cpus.effective", "0-1,3\n");
        let breach = "the kernel lets others run on CPU 3 as well (cpuset.cpus.effective of the root group)";
        assert_eq!(breaches(), [breach]);
        let steps = machine.settle().unwrap();
        let flags: Vec<_> = steps.iter().map(|step| (step.knob.0.as_str(), step.after.as_deref())).collect();
        let flag = "cg:/mpset1/cpuset.cpus.partition";
        assert_eq!(flags, [(flag, None), (flag, Some("root"))]);
        if by_a_change {
            // Any change that comes next repairs it.
            create(&machine, &[1], SHARED).unwrap();
        } else {
            Writer::open(&machine).unwrap().settle().unwrap();
        }
        assert_eq!(made.read("cgroup/cpuset.cpus.effective"), "0-1");
        assert_eq!(breaches(), Vec::<String>::new());
        assert!(machine.settle().unwrap().is_empty());
    }
}
