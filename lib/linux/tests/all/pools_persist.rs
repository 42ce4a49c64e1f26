//! Persistent pool membership: our drop-ins on a host that systemd manages, and units that were started in a set.

use crate::common::HandMade;
use millpond_machine::facets::Member;
use millpond_machine::{Change, Knobs, Machine, Refusal, Writer};
use millpond_model::pools::{PoolNode, PoolsConf, PoolsState, PsetNode};
use millpond_model::{CpuId, PoolId, State};
use std::collections::BTreeMap;
use std::path::Path;

const DROP_IN: &str = "etc/systemd/system/a.service.d/50-millpond-pool.conf";

fn unit(made: &HandMade, path: &str) {
    for file in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
        made.file(&format!("cgroup/{path}/{file}"), "");
    }
}

/// Four CPUs, a service, and a pool with two of them.
fn with_pool() -> HandMade {
    let made = HandMade::new(4, false);
    made.file("proc/sys/kernel/osrelease", "6.12.0");
    made.file("proc/1/comm", "systemd\n");
    std::fs::create_dir_all(made.dir.path().join("run/systemd/system")).unwrap();
    for path in ["system.slice", "system.slice/a.service", "user.slice", "init.scope"] {
        unit(&made, path);
    }
    let machine = made.machine();
    let cpus = (0..4).map(|n| (CpuId(n), State::OnLine));
    let mut conf = PoolsConf::fresh(cpus);
    conf.psets.push(PsetNode::new("webset", "webset", None));
    conf.pools.push(PoolNode::new("web", "pool web", "webset", None));
    assert!(conf.move_cpu(CpuId(2), "webset") && conf.move_cpu(CpuId(3), "webset"));
    let state = PoolsState { conf, keep_others: false, zones: BTreeMap::new() };
    commit(&machine, machine.pools().unwrap().prepare_commit(Some(state))).unwrap();
    made
}

fn commit<T>(machine: &dyn Machine, change: Result<Change<T>, Refusal>) -> Result<Vec<String>, Refusal> {
    Writer::open(machine)?.commit(change?).map(|done| done.notes)
}

fn keep(machine: &dyn Machine, zone: &str, pool: u32) -> Result<Vec<String>, Refusal> {
    commit(machine, machine.pools()?.prepare_persist(zone, PoolId(pool)))
}

fn exists(made: &HandMade, file: &str) -> bool {
    made.dir.path().join(file).exists()
}

#[test]
fn a_unit_starts_in_its_pool_until_that_is_taken_back() {
    let made = with_pool();
    let machine = made.machine();
    assert_eq!(keep(&machine, "a.service", 1), Ok(vec![]));
    let text = made.read(DROP_IN);
    assert!(text.starts_with("# millpond: "), "{text}");
    assert!(text.trim_end().ends_with("[Service]\nSlice=mpset1.slice"), "{text}");
    let steps = machine.pools().unwrap().prepare_persist("a.service", PoolId(1)).unwrap().steps;
    assert!(steps.is_empty(), "it is kept already");
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "2-3", "for its next start");
    assert_eq!(keep(&machine, "a.service", 0), Ok(vec![]));
    assert!(!exists(&made, "etc/systemd/system/a.service.d"), "the directory was only ours");
    assert_eq!(keep(&machine, "a.service", 0), Ok(vec!["nothing was kept for a.service".into()]));
}

#[test]
fn a_drop_in_of_an_earlier_version_is_written_anew_with_its_order() {
    let made = with_pool();
    let machine = made.machine();
    keep(&machine, "a.service", 1).unwrap();
    let text = made.read(DROP_IN);
    let order = "[Unit]\nAfter=millpond-pools.service\n";
    assert!(text.contains(order), "{text}");
    made.file(DROP_IN, &text.replace(order, ""));
    let told = "the drop-in of an earlier version is written anew: a.service waits for the pools";
    assert_eq!(keep(&machine, "a.service", 1), Ok(vec![told.into()]));
    assert_eq!(made.read(DROP_IN), text);
    assert_eq!(keep(&machine, "a.service", 1), Ok(vec![]));
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let made = with_pool();
    made.file(DROP_IN, "[Service]\nSlice=theirs.slice\n");
    let machine = made.machine();
    for pool in [0, 1] {
        let refusal = keep(&machine, "a.service", pool).unwrap_err();
        assert_eq!(
            refusal.reason.to_string(),
            "a.service has a drop-in 50-millpond-pool.conf that another program wrote"
        );
        assert!(refusal.hint.is_some());
    }
    assert!(made.read(DROP_IN).contains("theirs.slice"));
}

#[test]
fn what_systemd_does_not_take_is_not_left_lying() {
    let made = with_pool();
    made.file("run/systemd/refuses-reload", "");
    let machine = made.machine();
    let before = machine.pools().unwrap().state().unwrap();
    let refusal = keep(&machine, "a.service", 1).unwrap_err();
    assert_eq!(refusal.reason.to_string(), "the drop-in for a.service: systemd says: it is ending");
    assert!(!exists(&made, "etc/systemd/system/a.service.d"));
    assert_eq!(machine.pools().unwrap().state().unwrap(), before, "it is not bound either");
}

#[test]
fn who_else_has_a_say_is_told() {
    let made = with_pool();
    let machine = made.machine();
    let early = "etc/systemd/system/a.service.d/10-theirs.conf";
    made.file(early, "[Service]\nSlice=theirs.slice\n");
    let at = |file: &str| made.dir.path().join(file).display().to_string();
    let told = keep(&machine, "a.service", 1).unwrap();
    let expected =
        format!("a.service stands in theirs.slice by {}; it will start in mpset1.slice", at(early));
    assert_eq!(told, [expected]);
    let late = "run/systemd/system/a.service.d/90-theirs.conf";
    made.file(late, "[Service]\nSlice=last.slice\n");
    let told = keep(&machine, "a.service", 1).unwrap();
    let expected =
        format!("a.service will not start in mpset1.slice: {} is read later and says last.slice", at(late));
    assert_eq!(told[0], expected);
    keep(&machine, "a.service", 0).unwrap();
    assert!(exists(&made, early) && !exists(&made, DROP_IN));
}

#[test]
fn only_what_systemd_starts_is_kept() {
    let made = with_pool();
    let machine = made.machine();
    let why = |zone: &str| keep(&machine, zone, 1).unwrap_err().reason.to_string();
    assert!(why("user.slice").starts_with("nothing can be kept for a unit of its kind"));
    assert!(why("init.scope").starts_with("nothing can be kept for a unit of its kind"));
    assert_eq!(why("nobody.service"), "there is no such zone");
    let plain = HandMade::new(4, false);
    let machine = plain.machine();
    assert!(machine.pools().unwrap().prepare_persist("a.service", PoolId(1)).is_err(), "pools are disabled");
}

#[test]
fn a_unit_that_was_started_in_a_set_stands_there_and_is_left_there() {
    let made = with_pool();
    unit(&made, "mpset1.slice/a.service");
    std::fs::remove_dir_all(made.dir.path().join("cgroup/system.slice/a.service")).unwrap();
    made.process(300, &[300], "work", 0);
    made.file("cgroup/mpset1.slice/a.service/cgroup.procs", "300\n");
    made.file("proc/300/cgroup", "0::/mpset1.slice/a.service\n");
    let machine = made.machine();
    // It was bound in place and then restarted in the set.
    let stale =
        made.read("state/records/pools").replace(r#""zones":{}"#, r#""zones":{"/system.slice/a.service":1}"#);
    assert!(stale.contains("a.service"));
    made.file("state/records/pools", &stale);
    assert!(machine.zones().unwrap().list().unwrap().iter().any(|zone| zone.name == "a.service"));
    assert_eq!(keep(&machine, "a.service", 1), Ok(vec![]), "it is there already");
    assert!(machine.pools().unwrap().state().unwrap().unwrap().zones.is_empty());
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus.partition"), "root", "with nobody beside it");
    let member = Member::Zone("a.service".into());
    let refusal = machine.pools().unwrap().prepare_join(&member, PoolId(0)).unwrap_err();
    assert_eq!(
        refusal.reason.to_string(),
        "it was started in set 1, and stays there until it is started again"
    );
    let told = keep(&machine, "a.service", 0).unwrap();
    assert_eq!(told, ["a.service stays where it is until it is started again"]);

    // When the set ends, the unit stays in an ordinary slice.
    commit(&machine, machine.pools().unwrap().prepare_commit(None)).unwrap();
    assert!(exists(&made, "cgroup/mpset1.slice/a.service"));
    assert_eq!(made.read("cgroup/mpset1.slice/a.service/cgroup.procs").trim(), "300");
    assert!(machine.psets().unwrap().list().unwrap().is_empty());
    assert_eq!(machine.settle().unwrap(), [], "nothing is out of order");
}

#[test]
fn containers_are_told_in_the_words_of_who_starts_them() {
    let made = with_pool();
    let machine = made.machine();
    let options = |machine: &dyn Machine, pool| -> Vec<String> {
        let all = machine.pools().unwrap().start_options(PoolId(pool)).unwrap();
        all.into_iter().map(|o| format!("{}{}", o.text, if o.is_fixed { " now" } else { "" })).collect()
    };
    let expected = [
        "--cgroup-parent=mpset1.slice",
        "--cpuset-cpus=2-3 now",
        "\"cgroup_parent\": \"mpset1.slice\"",
        "--slice=mpset1.slice",
        "lxc.cgroup2.cpuset.cpus = 2-3 now",
    ];
    assert_eq!(options(&machine, 1), expected);
    assert_eq!(options(&machine, 0), [""; 0]);
    assert!(Path::new(&made.dir.path().join("cgroup/mpset1.slice")).exists());
}

#[test]
fn a_slice_that_systemd_made_for_units_that_will_start_in_it_is_left_alone_until_a_set_has_it() {
    let made = with_pool();
    let machine = made.machine();
    commit(&machine, machine.pools().unwrap().prepare_commit(None)).unwrap();
    assert!(!exists(&made, "cgroup/mpset1.slice"));
    // At boot, the unit waits for its start, and its slice exists.
    unit(&made, "mpset1.slice");
    let before = made.snapshot();
    assert!(machine.settle().unwrap().is_empty());
    let cpus = (0..4).map(|n| (CpuId(n), State::OnLine));
    let fresh = PoolsState { conf: PoolsConf::fresh(cpus), keep_others: false, zones: BTreeMap::new() };
    commit(&machine, machine.pools().unwrap().prepare_commit(Some(fresh.clone()))).unwrap();
    let mut state = fresh;
    state.conf.psets.push(PsetNode::new("webset", "webset", None));
    assert!(state.conf.move_cpu(CpuId(3), "webset"));
    commit(&machine, machine.pools().unwrap().prepare_commit(Some(state))).unwrap();
    assert_eq!(made.read("cgroup/mpset1.slice/cpuset.cpus"), "3");
    commit(&machine, machine.pools().unwrap().prepare_commit(None)).unwrap();
    assert!(made.snapshot().len() <= before.len(), "nothing of ours is left");
}
