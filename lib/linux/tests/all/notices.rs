//! Pool notices: a file per pool, correct again after any failure.

use crate::common::HandMade;
use millpond_linux::LinuxMachine;
use millpond_machine::facets::Member;
use millpond_machine::{Knob, Knobs, Machine, Refusal, Step, Writer, is_at_rest};
use millpond_model::pools::{PoolNode, PoolsConf, PoolsState, PsetNode};
use millpond_model::{CpuId, PoolId, State};
use std::collections::BTreeMap;

const BOTH: [bool; 2] = [false, true];

fn commit(machine: &dyn Machine, to: Option<PoolsState>) -> Result<Vec<String>, Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.pools()?.prepare_commit(to)?).map(|done| done.notes)
}

fn state(machine: &dyn Machine) -> PoolsState {
    machine.pools().unwrap().state().unwrap().unwrap()
}

/// Pools on four CPUs: web, whose set has 2 and 3, and shop, whose set is the default one.
fn begin(machine: &LinuxMachine) {
    let cpus = (0..4).map(|n| (CpuId(n), State::OnLine));
    let mut conf = PoolsConf::fresh(cpus);
    conf.psets.push(PsetNode::new("webset", "webset", None));
    conf.pools.push(PoolNode::new("web", "pool web", "webset", None));
    let default = conf.default_pset().unwrap().ref_id.clone();
    conf.pools.push(PoolNode::new("shop", "pool shop", default, None));
    assert!(conf.move_cpu(CpuId(2), "webset") && conf.move_cpu(CpuId(3), "webset"));
    commit(machine, Some(PoolsState { conf, keep_others: false, zones: BTreeMap::new() })).unwrap();
}

fn moved(machine: &LinuxMachine, cpu: u32, to: &str) -> Vec<String> {
    let mut state = state(machine);
    assert!(state.conf.move_cpu(CpuId(cpu), to));
    commit(machine, Some(state)).unwrap()
}

#[test]
fn each_pool_has_a_notice_that_ends_with_it() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        let machine = made.machine();
        let before = made.snapshot();
        begin(&machine);
        assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2-3\nsize 2\nserial 1", "{v1}");
        assert_eq!(made.read("state/pools/shop"), "pool 2\nprocessors 0-1\nsize 2\nserial 1");
        assert_eq!(made.read("state/pools/pool_default"), "pool 0\nprocessors 0-1\nsize 2\nserial 1");
        assert_eq!(moved(&machine, 3, "pset_default"), [""; 0]);
        assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2\nsize 1\nserial 2");
        assert_eq!(made.read("state/pools/shop"), "pool 2\nprocessors 0-1,3\nsize 3\nserial 2");
        let mut fewer = state(&machine);
        fewer.conf.pools.retain(|pool| pool.name != "web");
        commit(&machine, Some(fewer)).unwrap();
        assert_eq!(made.read("state/pools/web"), "(absent)");
        commit(&machine, None).unwrap();
        assert_eq!(made.snapshot(), before, "version 1: {v1}");
    }
}

#[test]
fn a_notice_is_written_only_when_it_differs() {
    use std::os::unix::fs::MetadataExt;
    let made = HandMade::new(4, false);
    let machine = made.machine();
    begin(&machine);
    let inode = |name: &str| std::fs::metadata(made.dir.path().join("state/pools").join(name)).unwrap().ino();
    let (web, shop) = (inode("web"), inode("shop"));
    drop(Writer::open(&machine).unwrap());
    assert_eq!((inode("web"), inode("shop")), (web, shop));
    moved(&machine, 0, "webset");
    assert!(inode("web") != web && inode("shop") != shop);
}

#[test]
fn what_a_killed_writer_did_not_tell_the_next_one_tells() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    begin(&machine);
    moved(&machine, 3, "pset_default");
    // The state after a writer was killed between its change and the update of the notices, and after one was killed during that
    // update.
    made.file("state/pools/web", "pool 1\nprocessors 2-3\nsize 2\nserial 1\n");
    made.file("state/pools/.new", "pool 1\nproc");
    made.file("state/pools/gone", "pool 7\nprocessors 2-3\nsize 2\nserial 1\n");
    drop(Writer::open(&machine).unwrap());
    assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2\nsize 1\nserial 2");
    assert_eq!(made.read("state/pools/.new"), "(absent)");
    assert_eq!(made.read("state/pools/gone"), "(absent)");
    made.file("state/pools/web", "no notice at all");
    drop(Writer::open(&machine).unwrap());
    assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2\nsize 1\nserial 1");
}

#[test]
fn who_only_looks_knows_whether_a_writer_has_something_to_do() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    let rests = || {
        let _reads = machine.shared_reads();
        state(&machine);
        is_at_rest(&machine).unwrap()
    };
    begin(&machine);
    assert!(rests() && rests());
    made.file("state/pools/.new", "half");
    std::fs::rename(made.dir.path().join("state/pools/.new"), made.dir.path().join("state/pools/web"))
        .unwrap();
    assert!(!rests(), "a member was told nonsense");
    drop(Writer::open(&machine).unwrap());
    assert!(rests());
    made.file("sys/devices/system/cpu/online", "0-2\n");
    assert!(!rests(), "a processor is gone");
    drop(Writer::open(&machine).unwrap().settle().unwrap());
    assert!(rests());
    let step = Step::new(Knob("x".into()), None, Some("1".into()));
    machine.journal().begin("something", &machine.boot_id(), &[step]).unwrap();
    assert!(!rests(), "something is unfinished");
    machine.journal().abort().unwrap();
    assert!(rests());
}

#[test]
fn a_glance_ends_with_whatever_is_changed() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    begin(&machine);
    let reads = machine.shared_reads();
    let size = || state(&machine).conf.pset("webset").unwrap().size();
    assert_eq!(size(), 2);
    moved(&machine, 1, "webset");
    assert_eq!(size(), 3);
    moved(&machine, 1, "pset_default");
    assert_eq!(size(), 2);
    drop(reads);
}

#[test]
fn processors_that_are_off_line_do_not_count() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    begin(&machine);
    let writer = Writer::open(&machine).unwrap();
    let change = machine.processors().unwrap().prepare_state(CpuId(3), State::OffLine, false).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2\nsize 1\nserial 2");
    // Another program takes it on-line. The next writer notices it.
    made.file("sys/devices/system/cpu/online", "0-3\n");
    drop(Writer::open(&machine).unwrap());
    assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2-3\nsize 2\nserial 3");
}

#[test]
fn a_notice_that_cannot_be_written_is_noted_and_fails_nothing() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    begin(&machine);
    std::fs::remove_dir_all(made.dir.path().join("state/pools")).unwrap();
    made.file("state/pools", "in the way");
    let note = "members of pools pool_default, shop, web are not told of their size: File exists";
    assert_eq!(moved(&machine, 3, "pset_default"), [note]);
    let settled = Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(settled.notes, [note], "a daemon that settles hears of it, too");
    assert_eq!(state(&machine).conf.pset("webset").unwrap().cpu_set().to_string(), "2");
    std::fs::remove_file(made.dir.path().join("state/pools")).unwrap();
    // When the next writer opens the machine, it publishes the missing notices, and later its own change.
    assert_eq!(moved(&machine, 3, "webset"), [""; 0]);
    assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2-3\nsize 2\nserial 2");
}

#[test]
fn a_change_that_is_refused_is_not_told() {
    let made = HandMade::new(4, false);
    made.process(20, &[20], "mine", 0);
    let machine = made.machine();
    begin(&machine);
    let writer = Writer::open(&machine).unwrap();
    let join = machine.pools().unwrap().prepare_join(&Member::Process(millpond_model::Pid(20)), PoolId(1));
    writer.commit(join.unwrap()).unwrap();
    drop(writer);
    let mut empty = state(&machine);
    assert!(empty.conf.move_cpu(CpuId(2), "pset_default") && empty.conf.move_cpu(CpuId(3), "pset_default"));
    assert!(commit(&machine, Some(empty)).is_err());
    assert_eq!(made.read("state/pools/web"), "pool 1\nprocessors 2-3\nsize 2\nserial 1");
}

#[test]
fn what_is_no_notice_is_replaced_without_waiting_for_it() {
    for v1 in BOTH {
        let made = HandMade::new(4, v1);
        let machine = made.machine();
        begin(&machine);
        let path = made.dir.path().join("state/pools/web");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(is_at_rest(&machine), Ok(false), "{v1}");
        assert_eq!(moved(&machine, 3, "pset_default"), [""; 0]);
        assert_eq!(
            made.read("state/pools/web"),
            "pool 1\nprocessors 2\nsize 1\nserial 2",
            "replaced, then told"
        );
    }
}
