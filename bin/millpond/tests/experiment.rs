//! Experiments on the machine at hand, which is not theirs: that they run to their end, and that nothing of them stays.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

fn millpond(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Sets of this machine are there once: one test at a time.
static MACHINE: Mutex<()> = Mutex::new(());

#[test]
fn e2_is_played_with_pools_and_barriers_that_block_and_puts_everything_back() {
    let test = "e2_is_played_with_pools_and_barriers_that_block_and_puts_everything_back";
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let sets = || json(&millpond(&["doctor", "--json"]))["sets"].clone();
    let before = sets();
    let words = "experiment e2 --machine real --arm pools-blocking --seconds 1 --json";
    let output = millpond(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(sets(), before, "everything is put back");
    let said = String::from_utf8_lossy(&output.stderr);
    if let Some(why) =
        said.lines().find(|line| line.starts_with("millpond experiment: cannot run experiment e2: "))
    {
        return println!("skipped: {test}: {why}");
    }
    let e2 = json(&output);
    let arms = e2["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 2, "the job alone, and both: {e2}");
    assert!(arms.iter().all(|arm| arm["blocks"] == true), "{e2}");
    let jobs = arms[1]["jobs"].as_array().unwrap();
    assert!(jobs.len() == 2 && jobs.iter().all(|job| job["mops"].as_f64().unwrap() > 0.0), "{e2}");
    assert_eq!((&e2["story"], &e2["speed_up"]), (&Value::Null, &Value::Null));
}

#[test]
fn e1_plays_three_phases_and_moves_no_interrupt_of_a_machine_that_is_not_its_own() {
    let test = "e1_plays_three_phases_and_moves_no_interrupt_of_a_machine_that_is_not_its_own";
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let sets = || json(&millpond(&["doctor", "--json"]))["sets"].clone();
    let states = || millpond(&["psrinfo"]).stdout;
    let (sets_before, states_before) = (sets(), states());
    let output = millpond(&["experiment", "e1", "--seconds", "1", "--json"]);
    assert_eq!((sets(), states()), (sets_before, states_before), "everything is put back");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.lines().any(|line| line.starts_with("millpond experiment: cannot run experiment e1: ")) {
        // One processor, or nothing that can be counted: it says so itself.
        return println!("skipped: {test}: {}", said.lines().last().unwrap_or_default());
    }
    let e1 = json(&output);
    let phases = e1["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 3);
    for phase in phases {
        for way in ["out_flow", "in_flow"] {
            assert!(phase["stream"][way]["bytes"].as_u64().unwrap() > 0, "{phase}");
        }
        assert!(phase["mpstat"].as_str().unwrap().starts_with("CPU minf "), "{phase}");
    }
    assert_eq!(e1["full"], false);
    let left_out = phases[1]["left_out"][0].as_str().unwrap();
    assert!(
        left_out.starts_with("interrupts are not moved on a machine that is not the experiment's own"),
        "{left_out}"
    );
    assert_eq!(e1["claims"]["in phase 2 the stream runs outside the set"], true, "{e1}");
    assert_eq!(e1["claims"]["in phase 3 it runs inside"], true, "{e1}");
}
