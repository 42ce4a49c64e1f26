//! The daemon on simulated machines in files: its log, its actions and its refusals.

use millpond_machine::Writer;
use millpond_machine::facets::Member;
use millpond_model::pools::{PoolsState, PropValue};
use millpond_model::{Pid, PoolId};
use millpond_planner::read_log;
use millpond_pools::{Editor, Element, Place, dynamic};
use millpond_session::{OpenOptions, Output, Session};
use millpond_sim::SimMachine;
use millpond_sim::workloads::Load;
use std::ffi::OsString;
use std::path::Path;

/// Runs poold with these words on a machine in a file.
fn poold(file: &Path, words: &str) -> (u8, String) {
    let words = words.split_ascii_whitespace().map(OsString::from);
    let kept = ["--state".into(), file.as_os_str().to_owned()];
    let words: Vec<OsString> = words.chain(kept).collect();
    let options = match millpond_poold::parse(&words) {
        Ok(options) => options,
        Err(answer) => return (answer.status, answer.out + &answer.err),
    };
    let mut err = Vec::new();
    let status = {
        let mut err = Output::to(&mut err);
        let status = millpond_poold::run(&options, &mut err, |_, hint| Some(hint.to_owned()));
        let _ = err.finish();
        status
    };
    (status, String::from_utf8(err).unwrap())
}

/// Two pools on four CPUs: `a` with 1 and six spinning threads, `b` with 1 and none.
fn machine() -> SimMachine {
    let machine = SimMachine::named("x4200").unwrap();
    let writer = Writer::open(&machine).unwrap();
    dynamic::enable(&writer, &machine, false).unwrap();
    let state = dynamic::read(&machine).unwrap();
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    for name in ["a", "b"] {
        let set = Element::Pset(name.into());
        editor.create_pset(name).unwrap();
        editor.put(&set, "pset.max", PropValue::Uint(4)).unwrap();
        editor.create_pool(name).unwrap();
        editor.associate(name, Some(name)).unwrap();
        editor.transfer(1, "pset_default", name).unwrap();
        editor.put(&set, "pset.min", PropValue::Uint(1)).unwrap();
    }
    let state = PoolsState { conf: editor.conf, ..state };
    dynamic::commit(&writer, &machine, Some(state)).unwrap();
    let words: Vec<String> = ["spin", "-t", "6"].map(str::to_owned).to_vec();
    let pid: Pid = machine.start_load(&Load::parse(&words).unwrap());
    dynamic::bind(&writer, &machine, &Member::Process(pid), PoolId(1)).unwrap();
    drop(writer);
    machine
}

fn sizes(file: &Path) -> String {
    let machine = SimMachine::load(&std::fs::read_to_string(file).unwrap()).unwrap();
    let state = dynamic::read(&machine).unwrap();
    let one = |s: &millpond_model::pools::PsetNode| format!("{} {}", s.name, s.size());
    state.conf.psets.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn saved(machine: &SimMachine) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machine");
    std::fs::write(&file, machine.save()).unwrap();
    (dir, file)
}

#[test]
fn processors_go_where_threads_wait() {
    let (_dir, file) = saved(&machine());
    let (status, text) = poold(&file, "-l INFO --for 1000");
    assert_eq!(status, 0, "{text}");
    assert_eq!(sizes(&file), "pset_default 1, a 2, b 1");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with(" Configuration INFO: starting"), "{text}");
    assert!(lines[1].ends_with(" Configuration INFO: configuration complete"), "{text}");
    assert!(lines[2].contains(" Optimization INFO: moved 2 from pset_default to a in 0.0 ms: "), "{text}");
    assert!(lines.last().unwrap().ends_with(" poold NOTICE: exiting"), "{text}");
    // The record is in the machine file, where `poolstat --why` finds it.
    let options = OpenOptions { kept_in: Some(file), ..OpenOptions::default() };
    let recorded = Session::open(&options).unwrap().recorded("poold").unwrap().lines.unwrap();
    let oldest = read_log(&recorded.last().unwrap().text).0.remove(0);
    assert_eq!(oldest.frame.told(&oldest.plan.moves), "2 from pset_default to a");
}

#[test]
fn the_configuration_chooses_the_policy_unless_the_words_do() {
    let machine = machine();
    let mut state = dynamic::read(&machine).unwrap();
    state.conf.system.user.set("system.poold.policy", "solaris");
    let writer = Writer::open(&machine).unwrap();
    dynamic::commit(&writer, &machine, Some(state)).unwrap();
    drop(writer);
    // Six intervals of 15 s are more than 20 s.
    for (words, after) in
        [("", "pset_default 2, a 1, b 1"), ("--policy millpond", "pset_default 1, a 2, b 1")]
    {
        let (_dir, file) = saved(&machine);
        let (status, text) = poold(&file, &format!("-l INFO --for 20000 {words}"));
        assert_eq!((status, sizes(&file).as_str()), (0, after), "{text}");
    }
}

#[test]
fn the_policy_of_solaris_says_what_that_daemon_says() {
    let (_dir, file) = saved(&machine());
    let (status, text) = poold(&file, "-l INFO --policy solaris --for 100000");
    assert_eq!(status, 0, "{text}");
    assert_eq!(sizes(&file), "pset_default 1, a 2, b 1");
    let said = |words: &str| text.lines().any(|line| line.ends_with(words));
    assert!(
        said(
            "Monitoring INFO: not evaluating workload-dependent objectives until sufficient statistics are collected"
        ),
        "{text}"
    );
    assert!(
        said("Optimization INFO: applying move from pset pset_default to pset a components [cpu 2]"),
        "{text}"
    );
}

#[test]
fn a_dry_run_moves_nothing() {
    let (_dir, file) = saved(&machine());
    let (status, text) = poold(&file, "-l INFO --dry-run --for 1000");
    assert_eq!(status, 0, "{text}");
    assert_eq!(sizes(&file), "pset_default 2, a 1, b 1");
}

#[test]
fn without_pools_there_is_nothing_to_do() {
    let (_dir, file) = saved(&SimMachine::named("x4200").unwrap());
    let (status, text) = poold(&file, "--for 1000");
    assert_eq!(
        (status, text.as_str()),
        (1, "poold: Facility is not active\nhint: enable pools: pooladm -e\n")
    );
}

#[test]
fn misuse_is_told_with_the_forms() {
    let (_dir, file) = saved(&machine());
    let (status, text) = poold(&file, "--policy chance");
    assert_eq!(status, 2);
    assert!(
        text.starts_with("poold: there is no policy `chance`; there are millpond and solaris\nusage: poold "),
        "{text}"
    );
}
