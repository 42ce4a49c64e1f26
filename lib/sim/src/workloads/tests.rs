//! Tests of workloads: parsing and behaviour.

use super::*;
use crate::kernel::Action;
use crate::{SimMachine, SimState};
use millpond_machine::Clock;
use millpond_model::{Nanos, Pid};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn programs(text: &str) -> Vec<Program> {
    let mut state = SimMachine::named("smartos-2").unwrap().view(SimState::clone);
    Load::parse(&words(text)).unwrap().programs(&mut state.kernel, 2)
}

fn refused(text: &str) -> (usize, String, String) {
    let error = Load::parse(&words(text)).unwrap_err();
    (error.word, error.what, error.remedy)
}

#[test]
fn options_have_units_and_defaults() {
    let ms = 1_000_000;
    let nap = |run, sleep| Program::repeat(vec![Action::User(run), Action::Sleep(sleep)]);
    assert_eq!(programs("nap"), [nap(10 * ms, 10 * ms)]);
    assert_eq!(programs("nap -t 2 --run 0.25 --sleep=3"), vec![nap(ms / 4, 3 * ms); 2]);
    assert_eq!(programs("./bin/spin -t 3"), vec![Program::hog(); 3]);
    assert_eq!(programs("spin --for 5"), [Program::once(vec![Action::User(5 * ms)])]);
    let op = |more: &[Action]| Program::repeat([&[Action::User(3 * ms), Action::Done(1)], more].concat());
    assert_eq!(programs("batch -t 2 --op 3"), vec![op(&[]); 2]);
    assert_eq!(programs("batch --op 3 --sleep 7"), [op(&[Action::Sleep(7 * ms)])]);
    assert_eq!(programs("service -t 3").len(), 3);
    assert_eq!(programs("pingpong 2").len(), 4);
    assert_eq!(programs("build -j 4 --files 2").len(), 4);
}

#[test]
fn what_makes_no_sense_is_named_by_its_word_with_a_remedy() {
    let named = |word, what: &str, remedy: &str| (word, what.to_owned(), remedy.to_owned());
    assert_eq!(
        refused("./netperf -c host"),
        named(
            0,
            "there is no workload `./netperf`",
            "there are app, batch, build, busyloop, cg, daemons, fork, hackbench, iperf, jbb, latstat, nap, pingpong, randmem, service, spin, tpce"
        )
    );
    assert_eq!(
        refused("spin --treads 4"),
        named(
            1,
            "spin has no option --treads",
            "usage: spin [-t N] [--for MS] [--duty N] [--period SECONDS]"
        )
    );
    assert_eq!(
        refused("spin -t many"),
        named(2, "`many` is no N of spin", "-t N is a number from 1 to 4096")
    );
    assert_eq!(refused("spin -t"), named(2, "-t needs a value", "-t N is a number from 1 to 4096"));
    assert_eq!(
        refused("nap --run 0"),
        named(2, "`0` is no MS of nap", "--run MS is a number of milliseconds from 0.001 to 86400000")
    );
    assert_eq!(refused("pingpong 2 3"), named(2, "pingpong does not take `3`", "usage: pingpong [PAIRS]"));
    for bad in
        ["nap --run .5", "nap --run 5.", "nap --run 1e3", "nap --run -1", "nap --run 0.0000001", "spin -t +1"]
    {
        assert_eq!(refused(bad).0, 2, "{bad}");
    }
}

#[test]
fn help_has_a_line_for_each_option() {
    let help = Workload::named("nap").unwrap().help();
    assert!(help.starts_with("nap [-t N] [--run MS] [--sleep MS]\nThreads that compute"), "{help}");
    assert!(help.contains("\n    --run MS     milliseconds of CPU time"), "{help}");
}

/// CPUs of 1 GHz, one instruction per cycle, nothing shared, switches without cost.
pub fn plain() -> SimMachine {
    plain_with(0)
}

/// The same machine, with this many nanoseconds for a process to end.
pub fn plain_with(process_end_ns: u64) -> SimMachine {
    let text = serde_json::json!({
        "name": "plain", "about": "", "chips": 32, "cores_per_chip": 1, "strands_per_core": 1,
        "processor": { "isa": "plain", "clock_mhz": 1000, "implementation": "plain" },
        "process_end_ns": process_end_ns });
    SimMachine::described(&text.to_string(), "plain.json").unwrap()
}

/// The machine after some milliseconds of a workload, and the workload's process.
fn after(text: &str, ms: u64) -> (SimMachine, Pid) {
    let machine = plain();
    let pid = machine.start_load(&Load::parse(&words(text)).unwrap());
    machine.sleep_until(Nanos::from_millis(ms));
    (machine, pid)
}

fn lives(machine: &SimMachine, pid: Pid) -> bool {
    machine.view(|s| s.tables.processes.contains_key(&pid))
}

#[test]
fn a_spinner_ends_after_its_time() {
    let (machine, pid) = after("spin --for 5", 4);
    assert!(lives(&machine, pid));
    machine.sleep_until(Nanos::from_millis(6));
    assert!(!lives(&machine, pid));
}

#[test]
fn a_build_takes_50_milliseconds_for_each_file_of_a_job() {
    // Four files in two jobs: two rounds of 50 ms.
    let (machine, pid) = after("build -j 2 --files 4", 99);
    assert!(lives(&machine, pid));
    machine.sleep_until(Nanos::from_millis(105));
    assert!(!lives(&machine, pid));
}

#[test]
fn children_come_and_go() {
    // At 25 ms the children of 0 and 10 ms have ended after their 5 ms; the child of 20 ms is about to end.
    let (machine, pid) = after("fork --every 10 --life 4", 23);
    let children = machine.view(|s| s.tables.processes.values().filter(|p| p.parent == Some(pid)).count());
    assert_eq!(children, 1);
}

#[test]
fn a_pair_takes_turns() {
    // In 10 ms: a thousand rounds of 5 µs and 5 µs, so a thousand wake-ups of each thread.
    let (machine, _) = after("pingpong", 10);
    let user: u64 = machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.user).sum());
    assert!((9_000_000..=10_000_000).contains(&user), "{user}");
}

#[test]
fn fuzz_workloads() {
    let seeds = ["nap -t 2 --run 0.25 --sleep=3", "pingpong 2", "./spin --for 5", "build -j 4 --files 2"];
    millpond_fuzz::check_text("sim-workloads", &seeds, |text| {
        let words = words(text);
        match Load::parse(&words) {
            Ok(load) => assert!(Workload::named(load.workload.name).is_some()),
            Err(error) => assert!(error.word <= words.len() && !error.remedy.is_empty()),
        }
    });
}
