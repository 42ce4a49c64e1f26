//! Pools on roots made by hand, in both cgroup versions.

#![allow(clippy::unwrap_used)]

mod common;

use common::HandMade;
use common::commands::{EXCLUSIVE, create};
use millpond_machine::facets::Member;
use millpond_machine::{Knobs, Machine, Refusal, Writer};
use millpond_model::pools::{PoolNode, PoolsConf, PoolsState, PsetNode};
use millpond_model::{CpuId, Pid, PoolId, PsetId};
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
    let cpus = (0..4).map(|n| (CpuId(n), "on-line".to_owned()));
    let state = PoolsState { conf: PoolsConf::fresh(cpus), keep_others, zones: BTreeMap::new() };
    commit(machine, Some(state)).unwrap();
}

/// Adds a pool with a set of these processors.
fn add(machine: &dyn Machine, name: &str, cpus: &[u32]) {
    let mut state = machine.pools().unwrap().state().unwrap().unwrap();
    state.conf.psets.push(PsetNode::new(name, name, -2));
    state.conf.pools.push(PoolNode::new(name, &format!("pool {name}"), name, None));
    for cpu in cpus {
        assert!(state.conf.move_cpu(CpuId(*cpu), name));
    }
    commit(machine, Some(state)).unwrap();
}

/// Moves processors, by the names of sets.
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
    let one = |s: &PsetNode| format!("{}={}", s.name(), s.cpu_set());
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
            let ref_id = state.conf.pset(res).unwrap().ref_id().to_owned();
            state.conf.pool_mut(pool).unwrap().props.set("pool.res", ref_id.as_str());
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
        let web = state.conf.pset("web").unwrap().ref_id().to_owned();
        state.conf.pool_mut("shop").unwrap().props.set("pool.res", web.as_str());
        assert!(state.conf.move_cpu(CpuId(2), "web") && state.conf.move_cpu(CpuId(3), "pset_default"));
        state.conf.psets.retain(|s| s.name() != "shop");
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
        assert_eq!(refusal.to_string(), "processor 0: it is the last one in the default set");
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
        // The pool of the process ends with its set, and another one grows.
        state.conf.move_cpu(CpuId(2), "shop");
        state.conf.psets.retain(|s| s.name() != "web");
        state.conf.pools.retain(|p| p.name() != "web");
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
