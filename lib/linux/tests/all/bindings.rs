//! Bindings to CPUs together with sets, on synthetic roots, in both cgroup versions.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, SHARED, bind, bind_cpu, bind_cpus, cpus, create, destroy};
use millpond_machine::{Knob, Knobs, Machine, Reason, Writer, is_at_rest};
use millpond_model::{CpuId, CpuSet, Pid, PsetId, State};

#[test]
fn who_is_bound_to_a_processor_of_a_set_does_not_leave_the_set() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        let machine = made.machine();
        create(&machine, &[1, 2], EXCLUSIVE).unwrap();
        bind(&machine, 20, Some(1)).unwrap();
        bind_cpu(&machine, 20, Some(2)).unwrap();
        let refusal = bind(&machine, 20, None).unwrap_err();
        assert_eq!(refusal.to_string(), "process 20: it is bound to CPU 2, which is not in set 0");
        assert_eq!(refusal.hint.as_deref(), Some("unbind it first (pbind -u 20)"));
        bind_cpu(&machine, 20, None).unwrap();
        bind(&machine, 20, None).unwrap();
        let thread = &machine.threads().unwrap().lwps(Pid(20)).unwrap()[0];
        assert_eq!((thread.set, thread.cpus.is_empty()), (PsetId::DEFAULT, true));
    }
}

#[test]
fn a_child_of_a_bound_thread_is_not_bound_to_a_set_without_its_processor() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(103, &[103], "parent", 0);
        let machine = made.machine();
        create(&machine, &[2], SHARED).unwrap();
        bind_cpu(&machine, 103, Some(3)).unwrap();
        made.born(105, 105, (103, 103));
        let refusal = bind(&machine, 105, Some(1)).unwrap_err();
        assert_eq!(refusal.reason, Reason::BoundElsewhere { cpu: CpuId(3), set: PsetId(1) });
        bind_cpu(&machine, 105, None).unwrap();
        bind(&machine, 105, Some(1)).unwrap();
    }
}

#[test]
fn a_binding_that_force_breaks_is_not_seen_again_where_one_processor_is_left() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.process(103, &[103], "parent", 0);
        let machine = made.machine();
        bind_cpu(&machine, 103, Some(3)).unwrap();
        made.born(105, 105, (103, 103));
        let writer = Writer::open(&machine).unwrap();
        let change = machine.psets().unwrap().prepare_create(&cpus(&[0, 1, 3]), EXCLUSIVE, true).unwrap();
        writer.commit(change).unwrap();
        for pid in [103, 105] {
            assert!(machine.threads().unwrap().lwps(Pid(pid)).unwrap()[0].cpus.is_empty(), "{v1} {pid}");
        }
    }
}

#[test]
fn an_inherited_binding_is_seen_where_one_processor_is_left_and_afterwards() {
    for v1 in [false, true] {
        for release in ["6.1.0\n", "6.17.0\n"] {
            let made = HandMade::new(4, v1);
            made.file("proc/sys/kernel/osrelease", release);
            made.process(103, &[103], "parent", 0);
            let machine = made.machine();
            bind_cpu(&machine, 103, Some(3)).unwrap();
            made.born(103, 104, (103, 103));
            let seen = |when: &str| {
                for thread in machine.threads().unwrap().lwps(Pid(103)).unwrap() {
                    assert_eq!(thread.cpus.to_string(), "3", "{when}, version 1: {v1}, {release}");
                }
            };
            seen("before");
            create(&machine, &[0, 1, 2], EXCLUSIVE).unwrap();
            seen("with one left");
            destroy(&machine, 1).unwrap();
            seen("afterwards");
            bind_cpu(&machine, 103, None).unwrap();
            assert!(machine.journal().baselines().is_empty());
        }
    }
}

#[test]
fn what_inherited_a_binding_and_is_unbound_stays_unbound_although_a_processor_is_off_line() {
    for v1 in [false, true] {
        for release in ["6.1.0\n", "6.17.0\n"] {
            let made = HandMade::new(4, v1);
            made.file("proc/sys/kernel/osrelease", release);
            made.process(103, &[103], "parent", 0);
            let machine = made.machine();
            bind_cpu(&machine, 103, Some(2)).unwrap();
            let state = |to| {
                let writer = Writer::open(&machine).unwrap();
                writer
                    .commit(machine.processors().unwrap().prepare_state(CpuId(1), to, false).unwrap())
                    .unwrap();
            };
            state(State::OffLine);
            made.born(104, 104, (103, 103));
            bind_cpu(&machine, 104, None).unwrap();
            let bound = || machine.threads().unwrap().lwps(Pid(104)).unwrap()[0].cpus.lowest();
            assert_eq!(bound(), None, "version 1: {v1}, {release}");
            state(State::OnLine);
            assert_eq!(bound(), None, "version 1: {v1}, {release}");
            bind_cpu(&machine, 103, None).unwrap();
            assert!(machine.journal().baselines().is_empty());
        }
    }
}

/// Before 6.2 a kernel forgets masks, so they are recorded, except one that the same change ends.
#[test]
fn a_binding_that_force_breaks_does_not_come_back_with_the_end_of_the_set() {
    for v1 in [false, true] {
        for release in ["6.1.0\n", "6.17.0\n"] {
            let made = HandMade::new(4, v1);
            made.file("proc/sys/kernel/osrelease", release);
            made.process(103, &[103], "parent", 0);
            let machine = made.machine();
            bind_cpu(&machine, 103, Some(3)).unwrap();
            made.born(103, 104, (103, 103));
            create(&machine, &[], EXCLUSIVE).unwrap();
            let writer = Writer::open(&machine).unwrap();
            let change = machine.psets().unwrap().prepare_assign(PsetId(1), &cpus(&[3]), true).unwrap();
            writer.commit(change).unwrap();
            drop(writer);
            destroy(&machine, 1).unwrap();
            for thread in machine.threads().unwrap().lwps(Pid(103)).unwrap() {
                assert!(thread.cpus.is_empty(), "version 1: {v1}, {release}, {:?}", thread.lwp);
            }
            assert!(machine.journal().baselines().is_empty());
        }
    }
}

#[test]
fn what_is_kept_of_a_thread_that_has_ended_is_no_disorder_and_goes_with_the_next_change() {
    for release in ["6.1.0\n", "6.17.0\n"] {
        for v1 in [false, true] {
            let made = HandMade::new(4, v1);
            made.file("proc/sys/kernel/osrelease", release);
            made.process(20, &[20, 21], "ends", 0);
            made.process(30, &[30], "lives", 0);
            let machine = made.machine();
            bind_cpu(&machine, 20, Some(1)).unwrap();
            bind_cpu(&machine, 30, Some(2)).unwrap();
            assert!(machine.stale().is_empty(), "{release} {v1}");
            made.exit(20);
            assert!(machine.settle().unwrap().is_empty(), "{release} {v1}");
            let kept = |thread: u32| {
                let of_it = format!("mask:{}/{thread}@{}", if thread < 30 { 20 } else { 30 }, 1000 + thread);
                machine.journal().baseline(&Knob(of_it)).is_some()
            };
            assert!(kept(20) && kept(21) && kept(30));
            assert!(!is_at_rest(&machine).unwrap(), "poold forgets it");
            bind_cpu(&machine, 30, None).unwrap();
            assert!(!kept(20) && !kept(21), "{release} {v1}");
            assert!(machine.stale().is_empty());
            let records = std::fs::read_dir(made.dir.path().join("state/records")).map_or(0, Iterator::count);
            assert_eq!(records, 0, "{release} {v1}");
        }
    }
}

#[test]
fn a_number_that_another_thread_has_now_is_that_of_one_that_has_ended() {
    let made = HandMade::new(4, true);
    made.process(20, &[20], "ends", 0);
    let machine = made.machine();
    bind_cpu(&machine, 20, Some(1)).unwrap();
    let text = made.read("proc/20/stat").replace(" 1020 ", " 2040 ");
    made.file("proc/20/stat", &text);
    made.file("proc/20/task/20/stat", &text);
    assert!(machine.settle().unwrap().is_empty());
    assert_eq!(machine.stale().iter().map(|s| s.knob.0.as_str()).collect::<Vec<_>>(), ["mask:20/20@1020"]);
    Writer::open(&machine).unwrap().settle().unwrap();
    assert!(machine.stale().is_empty() && machine.journal().baselines().is_empty());
}

#[test]
fn a_thread_is_bound_to_several_processors_by_its_mask_and_a_record() {
    for v1 in [false, true] {
        for release in ["6.1.0\n", "6.17.0\n"] {
            let when = format!("version 1: {v1}, {release}");
            let made = HandMade::new(6, v1);
            made.file("proc/sys/kernel/osrelease", release);
            made.process(20, &[20], "mine", 0);
            let machine = made.machine();
            let thread = |pid| machine.threads().unwrap().lwps(Pid(pid)).unwrap()[0].clone();
            let (shown, allowed) =
                (|pid| thread(pid).cpus.to_string(), |pid| thread(pid).allowed.to_string());
            bind_cpus(&machine, 20, &[1, 2, 4]).unwrap();
            assert_eq!(shown(20), "1-2,4", "{when}");
            made.born(21, 21, (20, 20));
            assert_eq!(shown(21), "1-2,4", "a child inherits it, {when}");
            let all: Vec<_> = machine.threads().unwrap().bound().unwrap().iter().map(|t| t.lwp.pid).collect();
            assert_eq!(all, [Pid(20), Pid(21)], "{when}");

            let refusal = create(&machine, &[4], EXCLUSIVE).unwrap_err();
            let said = refusal.to_string();
            assert!(said.starts_with("CPU 4: ") && said.contains("20/20"), "{said}, {when}");
            assert_eq!(refusal.hint.as_deref(), Some("unbind them (pbind -u), or use -F"));
            let writer = Writer::open(&machine).unwrap();
            let change = machine.psets().unwrap().prepare_create(&cpus(&[4]), EXCLUSIVE, true).unwrap();
            writer.commit(change).unwrap();
            drop(writer);
            for pid in [20, 21] {
                assert_eq!((shown(pid), allowed(pid)), (String::new(), "0-3,5".to_owned()), "{when}");
            }
            let refusal = bind_cpus(&machine, 20, &[3, 4]).unwrap_err();
            assert_eq!(refusal.to_string(), "process 20: CPU 4 is in set 1, the thread in set 0");
            assert!(is_at_rest(&machine).unwrap(), "{when}");
        }
    }
}

#[test]
fn a_mask_of_several_processors_that_others_set_is_no_binding_and_comes_back() {
    for release in ["6.1.0\n", "6.17.0\n"] {
        let made = HandMade::new(6, false);
        made.file("proc/sys/kernel/osrelease", release);
        made.process(20, &[20], "mine", 0);
        made.file("proc/20/task/20/mask", "1-2");
        let machine = made.machine();
        let thread = || machine.threads().unwrap().lwps(Pid(20)).unwrap()[0].clone();
        let (shown, allowed) = (|| thread().cpus.to_string(), || thread().allowed.to_string());
        assert_eq!(shown(), "");
        for list in [&[1, 2][..], &[0, 1, 2, 3, 4, 5], &[3, 4]] {
            bind_cpus(&machine, 20, list).unwrap();
            assert_eq!(shown(), cpus(list).into_iter().collect::<CpuSet>().to_string(), "{release}");
            bind_cpus(&machine, 20, &[]).unwrap();
            assert_eq!((shown(), allowed()), (String::new(), "1-2".to_owned()), "{release} {list:?}");
        }
    }
}
