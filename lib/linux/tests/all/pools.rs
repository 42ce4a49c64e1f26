//! Pools on synthetic roots, in both cgroup versions.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, create};
use millpond_machine::facets::Member;
use millpond_machine::laws::Faulty;
use millpond_machine::{Knob, Knobs, Machine, Reason, Refusal, Writer};
use millpond_model::pools::{PoolNode, PoolsConf, PoolsState, PsetNode};
use millpond_model::{CpuId, Pid, PoolId, PsetId, State};
use std::collections::BTreeMap;

const BOTH: [bool; 2] = [false, true];

fn commit(machine: &dyn Machine, to: Option<PoolsState>) -> Result<Option<PoolsState>, Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.pools()?.prepare_commit(to)?).map(|c| c.outcome)
}

fn join(machine: &dyn Machine, member: &Member, pool: u32) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.pools()?.prepare_join(member, PoolId(pool))?).map(|_| ())
}

fn enable(machine: &dyn Machine, keep_others: bool) {
    let cpus = (0..4).map(|n| (CpuId(n), State::OnLine));
    let state = PoolsState { conf: PoolsConf::fresh(cpus), keep_others, zones: BTreeMap::new() };
    commit(machine, Some(state)).unwrap();
}

/// Adds a pool with a set of these CPUs.
fn add(machine: &dyn Machine, name: &str, cpus: &[u32]) {
    let mut state = machine.pools().unwrap().state().unwrap().unwrap();
    state.conf.psets.push(PsetNode::new(name, name, None));
    state.conf.pools.push(PoolNode::new(name, format!("pool {name}"), name, None));
    for cpu in cpus {
        assert!(state.conf.move_cpu(CpuId(*cpu), name));
    }
    commit(machine, Some(state)).unwrap();
}

/// Moves CPUs to the set with this name.
fn moved(machine: &dyn Machine, cpus: &[u32], to: &str) -> Result<(), Refusal> {
    let mut state = machine.pools().unwrap().state().unwrap().unwrap();
    cpus.iter().for_each(|cpu| assert!(state.conf.move_cpu(CpuId(*cpu), to)));
    commit(machine, Some(state)).map(|_| ())
}

fn allowed(machine: &dyn Machine, pid: u32) -> String {
    machine.threads().unwrap().lwps(Pid(pid)).unwrap()[0].allowed.to_string()
}

fn sets(machine: &dyn Machine) -> String {
    let state = machine.pools().unwrap().state().unwrap().unwrap();
    let one = |s: &PsetNode| format!("{}={}", s.name, s.cpu_set());
    state.conf.psets.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn members_of_a_pool_run_in_its_set_and_everything_is_undone() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20, 21], "mine", 0);
        let machine = made.machine();
        let before = made.snapshot();
        enable(&machine, false);
        add(&machine, "web", &[2, 3]);
        join(&machine, &Member::Process(Pid(20)), 1).unwrap();
        let leaf = if v1 { "cgroup/cpuset/mpset1/pool1+" } else { "cgroup/mpset1/pool1+" };
        assert!(made.dir.path().join(leaf).is_dir(), "{v1}");
        assert_eq!(allowed(&machine, 20), "2-3");
        assert_eq!(machine.psets().unwrap().list().unwrap()[0].members, [CpuId(2), CpuId(3)]);
        made.born(30, 30, (20, 21));
        assert_eq!(
            machine.pools().unwrap().members().unwrap()[&Pid(30)],
            PoolId(1),
            "children are born there"
        );
        moved(&machine, &[1], "web").unwrap();
        assert_eq!(allowed(&machine, 30), "1-3");
        join(&machine, &Member::Process(Pid(30)), 0).unwrap();
        assert_eq!(allowed(&machine, 30), "0");
        assert!(Machine::psets(&machine).unwrap().prepare_destroy(PsetId(1)).is_err(), "sets are theirs");
        commit(&machine, None).unwrap();
        made.exit(30);
        assert_eq!(allowed(&machine, 20), "0-3");
        assert_eq!(made.snapshot(), before, "version 1: {v1}");
        assert!(machine.journal().baselines().is_empty());
    }
}

#[test]
fn cpus_that_other_programs_have_for_themselves_are_in_no_set() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        if v1 {
            made.group("shield", "3", "member");
            made.file("cgroup/cpuset/shield/cpuset.cpu_exclusive", "1\n");
        } else {
            made.file("cgroup/cgroup.subtree_control", "cpuset\n");
            made.group("rt.slice", "3", "isolated");
        }
        let machine = made.machine();
        let before = made.snapshot();
        enable(&machine, false);
        assert_eq!(sets(&machine), "pset_default=0-2", "version 1: {v1}");
        add(&machine, "web", &[2]);
        moved(&machine, &[1], "web").unwrap();
        assert_eq!(sets(&machine), "pset_default=0 web=1-2", "version 1: {v1}");
        // CPU 3 belongs to another program, so it does not count for the default set.
        assert_eq!(moved(&machine, &[0], "web").unwrap_err().reason, Reason::LastOfDefault);
        let (file, shared, apart) = match v1 {
            true => ("cgroup/cpuset/shield/cpuset.cpu_exclusive", "0\n", "1\n"),
            false => ("cgroup/rt.slice/cpuset.cpus.partition", "member\n", "isolated\n"),
        };
        made.file(file, shared);
        assert_eq!(sets(&machine), "pset_default=0,3 web=1-2", "version 1: {v1}");
        made.file(file, apart);
        commit(&machine, None).unwrap();
        assert_eq!(made.snapshot(), before, "version 1: {v1}");
    }
}

#[test]
fn a_pool_that_gets_another_set_takes_its_processes_along() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        let machine = made.machine();
        let before = made.snapshot();
        enable(&machine, false);
        add(&machine, "web", &[2]);
        add(&machine, "shop", &[3]);
        join(&machine, &Member::Process(Pid(20)), 1).unwrap();
        let associate = |pool: &str, res: &str| {
            let mut state = machine.pools().unwrap().state().unwrap().unwrap();
            let ref_id = state.conf.pset(res).unwrap().ref_id.clone();
            state.conf.pool_mut(pool).unwrap().pset = ref_id;
            commit(&machine, Some(state)).unwrap();
        };
        associate("web", "shop");
        assert_eq!(allowed(&machine, 20), "3", "version 1: {v1}");
        associate("web", "pset_default");
        assert_eq!(allowed(&machine, 20), "0-1", "version 1: {v1}");
        assert_eq!(
            machine.pools().unwrap().members().unwrap()[&Pid(20)],
            PoolId(1),
            "it is still in the pool"
        );
        associate("web", "web");
        assert_eq!(allowed(&machine, 20), "2", "version 1: {v1}");
        commit(&machine, None).unwrap();
        assert_eq!(made.snapshot(), before, "version 1: {v1}");
    }
}

#[test]
fn a_pool_leaves_a_set_that_ends_for_one_that_grows_in_the_same_commit() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        let machine = made.machine();
        enable(&machine, false);
        add(&machine, "web", &[1]);
        add(&machine, "shop", &[3]);
        join(&machine, &Member::Process(Pid(20)), 2).unwrap();
        let mut state = machine.pools().unwrap().state().unwrap().unwrap();
        let web = state.conf.pset("web").unwrap().ref_id.clone();
        state.conf.pool_mut("shop").unwrap().pset = web;
        assert!(state.conf.move_cpu(CpuId(2), "web") && state.conf.move_cpu(CpuId(3), "pset_default"));
        state.conf.psets.retain(|s| s.name != "shop");
        commit(&machine, Some(state)).unwrap();
        assert_eq!(allowed(&machine, 20), "1-2", "version 1: {v1}");
        assert_eq!(sets(&machine), "pset_default=0,3 web=1-2");
    }
}

#[test]
fn a_zone_stays_where_it_stands() {
    let made = HandMade::new(4, false);
    for group in ["a.slice", "a.slice/web.service"] {
        made.file(&format!("cgroup/{group}/cgroup.procs"), "");
        made.file(&format!("cgroup/{group}/cgroup.subtree_control"), "");
    }
    let machine = made.machine();
    let before = made.snapshot();
    enable(&machine, false);
    add(&machine, "web", &[2, 3]);
    join(&machine, &Member::Zone("web.service".into()), 1).unwrap();
    assert_eq!(made.read("cgroup/a.slice/web.service/cpuset.cpus.exclusive"), "2-3");
    assert_eq!(made.read("cgroup/a.slice/web.service/cpuset.cpus.partition"), "root");
    moved(&machine, &[1], "web").unwrap();
    assert_eq!(made.read("cgroup/a.slice/web.service/cpuset.cpus.exclusive"), "1-3");
    join(&machine, &Member::Zone("web.service".into()), 0).unwrap();
    commit(&machine, None).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_zone_that_is_bound_before_it_is_there_is_bound_when_it_appears_and_again_when_it_comes_back() {
    let made = HandMade::new(4, false);
    made.file("cgroup/a.slice/cgroup.procs", "");
    made.file("cgroup/a.slice/cgroup.subtree_control", "");
    let machine = made.machine();
    let before = made.snapshot();
    enable(&machine, false);
    add(&machine, "web", &[2, 3]);
    let mut state = machine.pools().unwrap().state().unwrap().unwrap();
    state.zones.insert("/a.slice/web.service".into(), PoolId(1));
    state.zones.insert("/b.slice/c.slice/late.service".into(), PoolId(1));
    commit(&machine, Some(state)).unwrap();
    let settle = || Writer::open(&machine).unwrap().settle().unwrap().steps;
    assert_eq!(settle(), 0);
    for _ in 0..2 {
        made.file("cgroup/a.slice/web.service/cgroup.procs", "");
        made.file("cgroup/a.slice/web.service/cgroup.subtree_control", "");
        assert!(settle() > 0);
        assert_eq!(made.read("cgroup/a.slice/web.service/cpuset.cpus.exclusive"), "2-3");
        assert_eq!(made.read("cgroup/a.slice/web.service/cpuset.cpus.partition"), "root");
        assert_eq!(settle(), 0);
        // The unit and its cgroup end. The set can still be changed.
        std::fs::remove_dir_all(made.dir.path().join("cgroup/a.slice/web.service")).unwrap();
        moved(&machine, &[1], "web").unwrap();
        moved(&machine, &[1], "pset_default").unwrap();
        settle();
    }
    commit(&machine, None).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_zone_that_comes_with_its_pool_is_bound_by_one_change_that_is_undone_as_one() {
    for v1 in BOTH {
        let top = if v1 { "cgroup/cpuset" } else { "cgroup" };
        let made = || {
            let made = HandMade::new(4, v1);
            for file in ["cgroup.procs", if v1 { "tasks" } else { "cgroup.subtree_control" }] {
                made.file(&format!("{top}/web/{file}"), "");
            }
            for (file, text) in [("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n")].iter().filter(|_| v1) {
                made.file(&format!("{top}/web/{file}"), text);
            }
            made
        };
        let wanted = |machine: &dyn Machine| {
            let cpus = (0..4).map(|n| (CpuId(n), State::OnLine));
            let mut conf = PoolsConf::fresh(cpus);
            conf.psets.push(PsetNode::new("tmp", "tmp", None));
            conf.pools.push(PoolNode::new("tmp", "pool tmp", "tmp", None));
            assert!(conf.move_cpu(CpuId(2), "tmp"));
            let key = machine.pools().unwrap().zone_key("/web").unwrap();
            let zones = BTreeMap::from([(key, PoolId(1))]);
            let state = PoolsState { conf, keep_others: false, zones };
            machine.pools().unwrap().prepare_commit(Some(state)).unwrap()
        };
        let steps = wanted(&made().machine()).steps.len();
        for applied in 0..=steps {
            let made = made();
            let before = made.snapshot();
            let machine = made.machine();
            let change = wanted(&machine);
            machine.journal().begin(&change.what, &machine.boot_id(), &change.steps).unwrap();
            for step in change.steps[..applied].iter().filter(|step| !step.falls) {
                machine.write(&step.knob, step.after.as_ref()).unwrap();
            }
            drop(Writer::open(&machine).unwrap());
            assert_eq!(made.snapshot(), before, "{applied} of {steps}, version 1: {v1}");
        }
        let made = made();
        let before = made.snapshot();
        let machine = made.machine();
        let change = wanted(&machine);
        Writer::open(&machine).unwrap().commit(change).unwrap();
        let list = if v1 { "cpuset.cpus" } else { "cpuset.cpus.exclusive" };
        assert_eq!(made.read(&format!("{top}/web/{list}")), "2");
        commit(&machine, None).unwrap();
        assert_eq!(made.snapshot(), before);
    }
}

#[test]
fn a_slice_is_a_zone_with_all_that_is_below_it() {
    let made = HandMade::new(4, false);
    for group in ["user.slice", "user.slice/user-1000.slice", "user.slice/user-1000.slice/session-3.scope"] {
        made.file(&format!("cgroup/{group}/cgroup.procs"), "");
        made.file(&format!("cgroup/{group}/cgroup.subtree_control"), "");
    }
    let machine = made.machine();
    let before = made.snapshot();
    enable(&machine, false);
    add(&machine, "web", &[2, 3]);
    join(&machine, &Member::Zone("user-1000.slice".into()), 1).unwrap();
    assert_eq!(made.read("cgroup/user.slice/user-1000.slice/cpuset.cpus.exclusive"), "2-3");
    assert_eq!(made.read("cgroup/user.slice/user-1000.slice/cpuset.cpus.partition"), "root");
    let zones = machine.zones().unwrap().list().unwrap();
    let bound: Vec<&str> = zones.iter().filter(|z| z.set == PsetId(1)).map(|z| z.name.as_str()).collect();
    assert_eq!(bound, ["user-1000.slice"]);
    join(&machine, &Member::Zone("user-1000.slice".into()), 0).unwrap();
    commit(&machine, None).unwrap();
    assert_eq!(made.snapshot(), before);
}

#[test]
fn the_load_of_a_set_is_who_runs_or_waits_on_its_processors() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20, 21, 22], "mine", 0);
        let stat = |tid: u32, state: &str, cpu: u32| {
            let rest = "1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1020 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17";
            made.file(
                &format!("proc/20/task/{tid}/stat"),
                &format!("{tid} (mine) {state} {rest} {cpu} 0 0\n"),
            );
        };
        stat(20, "R", 3);
        stat(21, "R", 0);
        stat(22, "S", 3);
        let machine = made.machine();
        enable(&machine, false);
        add(&machine, "web", &[2, 3]);
        let load = machine.accounting().unwrap().load().unwrap();
        assert_eq!(load.into_iter().collect::<Vec<_>>(), [(PsetId::DEFAULT, 1), (PsetId(1), 1)], "{v1}");
    }
}

#[test]
fn pools_and_sets_of_hand_exclude_each_other() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        let machine = made.machine();
        create(&machine, &[3], EXCLUSIVE).unwrap();
        let state = PoolsState { conf: PoolsConf::fresh([]), keep_others: false, zones: BTreeMap::new() };
        let refusal = commit(&machine, Some(state)).unwrap_err();
        assert_eq!(refusal.reason.to_string(), "there are processor sets already: 1");
        assert!(machine.pools().unwrap().state().unwrap().is_none());
    }
}

#[test]
fn neither_the_default_set_nor_one_with_processes_can_be_emptied() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        let machine = made.machine();
        enable(&machine, false);
        add(&machine, "web", &[2]);
        assert_eq!(moved(&machine, &[2], "pset_default"), Ok(()), "nobody is in it");
        moved(&machine, &[2], "web").unwrap();
        join(&machine, &Member::Process(Pid(20)), 1).unwrap();
        let before = made.snapshot();
        let refusal = moved(&machine, &[2], "pset_default").unwrap_err();
        assert_eq!(refusal.to_string(), "processor set 1: set 1 is empty");
        let refusal = moved(&machine, &[0, 1, 3], "web").unwrap_err();
        assert_eq!(refusal.to_string(), "CPU 0: it is the last one in the default set");
        assert_eq!(made.snapshot(), before);
    }
}

#[test]
fn a_commit_that_was_killed_half_way_comes_back_whole() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20, 21], "mine", 0);
        let machine = made.machine();
        enable(&machine, false);
        add(&machine, "web", &[2]);
        add(&machine, "shop", &[3]);
        join(&machine, &Member::Process(Pid(20)), 1).unwrap();
        let before = made.snapshot();
        let mut state = machine.pools().unwrap().state().unwrap().unwrap();
        // The pool of the process ends with its set, and another pool grows.
        state.conf.move_cpu(CpuId(2), "shop");
        state.conf.psets.retain(|s| s.name != "web");
        state.conf.pools.retain(|p| p.name != "web");
        let change = machine.pools().unwrap().prepare_commit(Some(state)).unwrap();
        for killed_after in 0..=change.steps.len() {
            machine.journal().begin(&change.what, &machine.boot_id(), &change.steps).unwrap();
            for step in change.steps[..killed_after].iter().filter(|s| !s.falls && !s.is_note()) {
                machine.write(&step.knob, step.after.as_ref()).unwrap();
            }
            assert!(Writer::open(&machine).unwrap().repaired().is_some());
            assert_eq!(made.snapshot(), before, "version 1: {v1}, killed after {killed_after} steps");
        }
        Writer::open(&machine).unwrap().commit(change).unwrap();
        assert_eq!(sets(&machine), "pset_default=0-1 shop=2-3");
        assert!(machine.pools().unwrap().members().unwrap().is_empty());
    }
}

#[test]
fn who_keeps_others_pushes_nobody_out() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        made.process(20, &[20], "mine", 0);
        made.process(40, &[40], "other", 0);
        let machine = made.machine();
        enable(&machine, true);
        add(&machine, "web", &[2, 3]);
        join(&machine, &Member::Process(Pid(20)), 1).unwrap();
        assert_eq!(allowed(&machine, 20), "2-3");
        assert_eq!(allowed(&machine, 40), "0-3");
    }
}

#[test]
fn a_list_that_the_kernel_does_not_take_away_names_every_processor_in_the_end() {
    for (release, left) in [("6.17.0", "0-3"), ("7.2.0", "")] {
        let made = HandMade::new(4, false);
        made.file("proc/sys/kernel/osrelease", &format!("{release}\n"));
        made.file("cgroup/cgroup.subtree_control", "cpuset\n");
        for (group, pid) in [("one", 20), ("two", 30)] {
            made.process(pid, &[pid], group, 0);
            for file in ["cgroup.procs", "cgroup.threads"] {
                made.file(&format!("cgroup/{group}/{file}"), &format!("{pid}\n"));
            }
            for file in ["cpuset.cpus", "cpuset.cpus.exclusive", "cgroup.subtree_control"] {
                made.file(&format!("cgroup/{group}/{file}"), "\n");
            }
            made.file(&format!("cgroup/{group}/cpuset.cpus.partition"), "member\n");
            for file in [format!("proc/{pid}/cgroup"), format!("proc/{pid}/task/{pid}/cgroup")] {
                made.file(&file, &format!("0::/{group}\n"));
            }
        }
        let machine = made.machine();
        enable(&machine, false);
        add(&machine, "web", &[2, 3]);
        // Two existing cgroups in one set are steered in place.
        for group in ["/one", "/two"] {
            join(&machine, &Member::Zone(group.into()), 1).unwrap();
        }
        assert_eq!(made.read("cgroup/one/cpuset.cpus"), "2-3");
        commit(&machine, None).unwrap();
        for group in ["one", "two"] {
            assert_eq!(made.read(&format!("cgroup/{group}/cpuset.cpus")), left, "{release}");
        }
        assert!(machine.journal().baselines().is_empty(), "{release}");
        assert!(machine.settle().unwrap().is_empty(), "{release}");
        // The same once more, from this state.
        enable(&machine, false);
        add(&machine, "web", &[2, 3]);
        join(&machine, &Member::Zone("/one".into()), 1).unwrap();
        commit(&machine, None).unwrap();
        assert!(machine.settle().unwrap().is_empty(), "{release}");
    }
}

#[test]
fn a_group_that_is_born_in_a_member_grows_with_it_and_one_with_a_list_of_its_own_does_not() {
    let made = HandMade::new(4, true);
    let list = |group: &str, list: &str| {
        for (file, text) in [("cpuset.cpus", list), ("cpuset.mems", "0"), ("cgroup.procs", ""), ("tasks", "")]
        {
            made.file(&format!("cgroup/cpuset/{group}/{file}"), &format!("{text}\n"));
        }
    };
    let is = |group: &str| made.read(&format!("cgroup/cpuset/{group}/cpuset.cpus"));
    list("shop", "0-3");
    list("shop/small", "1");
    let machine = made.machine();
    let before = made.snapshot();
    enable(&machine, false);
    add(&machine, "web", &[1]);
    join(&machine, &Member::Zone("/shop".into()), 1).unwrap();
    assert_eq!((is("shop"), is("shop/small")), ("1".into(), "1".into()));
    // A new cgroup copies the list of its parent.
    list("shop/inner", "1");
    list("shop/inner/deep", "1");
    assert!(machine.settle().unwrap().is_empty());
    moved(&machine, &[2], "web").unwrap();
    assert_eq!((is("shop"), is("shop/small")), ("1-2".into(), "1".into()), "it had no more before");
    assert_eq!((is("shop/inner"), is("shop/inner/deep")), ("1-2".into(), "1-2".into()));
    // The same holds for cgroups of the default set.
    list("guest", "0,3");
    assert!(machine.settle().unwrap().is_empty());
    commit(&machine, None).unwrap();
    assert_eq!((is("shop/inner"), is("shop/inner/deep")), ("0-3".into(), "0-3".into()));
    for group in ["shop/inner/deep", "shop/inner", "guest"] {
        std::fs::remove_dir_all(made.dir.path().join("cgroup/cpuset").join(group)).unwrap();
    }
    assert!(machine.journal().baselines().is_empty());
    assert_eq!(made.snapshot(), before);
}

#[test]
fn a_processor_that_vanishes_half_way_through_a_commit_breaks_nothing() {
    for v1 in BOTH {
        let mut struck = 0;
        for moment in 0..64 {
            let made = HandMade::new(4, v1);
            made.process(20, &[20], "mine", 0);
            let machine = made.machine();
            enable(&machine, false);
            add(&machine, "web", &[1]);
            join(&machine, &Member::Process(Pid(20)), 1).unwrap();
            let online = Knob("sys:devices/system/cpu/cpu3/online".into());
            let turn = |on: &str| machine.write(&online, Some(&on.to_owned())).unwrap();
            let faulty = Faulty::meanwhile(&machine, moment, || turn("0"));
            let mut state = machine.pools().unwrap().state().unwrap().unwrap();
            assert!(state.conf.move_cpu(CpuId(3), "web"));
            let done = commit(&faulty, Some(state));
            if !faulty.hit() {
                break;
            }
            struck += 1;
            let when = format!("version 1: {v1}, moment {moment}: {done:?}");
            let (with, without) = (["pset_default=0,2 web=1,3"], ["pset_default=0,2-3 web=1"]);
            let want = if done.is_ok() { with } else { without };
            assert_eq!([sets(&machine)], want, "{when}");
            assert!(machine.journal().unfinished().unwrap().is_none(), "{when}");
            // Settles without the CPU, and again when it is back.
            Writer::open(&machine).unwrap().settle().unwrap();
            assert_eq!(allowed(&machine, 20), "1", "{when}");
            turn("1");
            Writer::open(&machine).unwrap().settle().unwrap();
            assert_eq!(allowed(&machine, 20), if done.is_ok() { "1,3" } else { "1" }, "{when}");
            assert!(machine.psets().unwrap().list().unwrap()[0].breaches.is_empty(), "{when}");
            commit(&machine, None).unwrap();
            assert_eq!(allowed(&machine, 20), "0-3", "{when}");
            assert!(machine.journal().baselines().is_empty(), "{when}");
        }
        assert!(struck > 4, "only {struck} moments");
    }
}

#[test]
fn a_record_of_pools_that_is_damaged_is_noticed_and_dropped_by_a_repair() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        let machine = made.machine();
        enable(&machine, false);
        add(&machine, "web", &[2, 3]);
        for damage in ["", "{\"conf\":"] {
            let whole = made.read("state/records/pools");
            made.file("state/records/pools", damage);
            let wants = machine.settle().unwrap();
            let knobs: Vec<&str> = wants.iter().map(|step| step.knob.0.as_str()).collect();
            assert_eq!(knobs, ["record:pools"], "{v1} {damage}");
            made.file("state/records/pools", &whole);
            assert!(machine.settle().unwrap().is_empty());
        }
        made.file("state/records/pools", "");
        Writer::open(&machine).unwrap().settle().unwrap();
        assert_eq!(made.read("state/records/pools"), "(absent)");
        assert!(machine.pools().unwrap().state().unwrap().is_none());
        let left: Vec<PsetId> = machine.psets().unwrap().list().unwrap().iter().map(|set| set.id).collect();
        assert_eq!(left, [PsetId(1)], "its set stays, and can be destroyed");
    }
}
