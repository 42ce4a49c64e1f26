//! Unreadable records and steps that cannot be undone: both are reported, and an unreadable record is not treated as missing.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, create};
use millpond_linux::LinuxMachine;
use millpond_machine::{Change, Knob, Machine, Refusal, Step, Writer, is_at_rest};
use millpond_model::pools::{PoolsConf, PoolsState};
use millpond_model::{CpuId, State};
use std::collections::BTreeMap;
use std::fs;

fn state(machine: &LinuxMachine, cpu: u32, to: State) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.processors()?.prepare_state(CpuId(cpu), to, false)?).map(drop)
}

/// Makes a record unreadable, like a file system that returns EIO. A directory in its place cannot be read either.
fn unreadable(made: &HandMade, name: &str) {
    let file = made.dir.path().join("state/records").join(name);
    fs::rename(&file, made.dir.path().join("kept")).unwrap();
    fs::create_dir(file).unwrap();
}

fn readable(made: &HandMade, name: &str) {
    let file = made.dir.path().join("state/records").join(name);
    fs::remove_dir(&file).unwrap();
    fs::rename(made.dir.path().join("kept"), file).unwrap();
}

#[test]
fn the_state_of_a_processor_that_cannot_be_read_is_told_and_kept() {
    for v1 in [false, true] {
        let made = HandMade::new(8, v1);
        let machine = made.machine();
        state(&machine, 3, State::NoIntr).unwrap();
        unreadable(&made, "processor.3");
        let before = made.snapshot();
        let refused = [
            machine.processors().unwrap().states().unwrap_err(),
            state(&machine, 3, State::OnLine).unwrap_err(),
            state(&machine, 2, State::NoIntr).unwrap_err(),
            create(&machine, &[4, 5], EXCLUSIVE).unwrap_err(),
            Writer::open(&machine).unwrap().settle().unwrap_err(),
            is_at_rest(&machine).unwrap_err(),
        ];
        for refusal in refused {
            let said = refusal.reason.to_string();
            assert!(said.ends_with("state/records/processor.3 cannot be read: it is no file"), "{said}");
        }
        assert_eq!(made.snapshot(), before);
        readable(&made, "processor.3");
        state(&machine, 3, State::OnLine).unwrap();
        assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-7");
    }
}

#[test]
fn pools_whose_record_cannot_be_read_are_not_disabled() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        let machine = made.machine();
        let cpus = (0..4).map(|n| (CpuId(n), State::OnLine));
        let conf = PoolsState { conf: PoolsConf::fresh(cpus), keep_others: false, zones: BTreeMap::new() };
        let commit = |to: Option<PoolsState>| {
            let writer = Writer::open(&machine)?;
            writer.commit(machine.pools()?.prepare_commit(to)?)
        };
        commit(Some(conf)).unwrap();
        unreadable(&made, "pools");
        let before = made.snapshot();
        let refused = [
            machine.pools().unwrap().state().unwrap_err(),
            machine.psets().unwrap().list().unwrap_err(),
            create(&machine, &[2, 3], EXCLUSIVE).unwrap_err(),
            state(&machine, 3, State::NoIntr).unwrap_err(),
            commit(None).unwrap_err(),
            Writer::open(&machine).unwrap().settle().unwrap_err(),
        ];
        for refusal in refused {
            let said = refusal.reason.to_string();
            assert!(said.ends_with("state/records/pools cannot be read: it is no file"), "{said}");
        }
        assert_eq!(made.snapshot(), before, "members are still told of their pools");
        readable(&made, "pools");
        commit(None).unwrap();
    }
}

#[test]
fn what_cannot_be_put_back_is_told() {
    let made = HandMade::new(4, false);
    made.process(20, &[20], "mine", 0);
    let machine = made.machine();
    let step =
        |knob: &str, from: &str, to: &str| Step::new(Knob(knob.into()), Some(from.into()), Some(to.into()));
    // The original value of the first step is not a valid mask.
    let steps = vec![step("mask:20/20@1020", "none", "3"), step("cg:/none/cpuset.cpus", "0", "1")];
    let refusal = Writer::open(&machine).unwrap().commit(Change::new("two things", steps, ())).unwrap_err();
    let told = refusal.hint.unwrap();
    assert!(told.starts_with("not put back: the affinity mask of thread 20/20 (mine): "), "{told}");
    assert!(machine.journal().unfinished().unwrap().is_none());
}
