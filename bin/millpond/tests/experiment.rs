//! Experiments on the machine at hand, which is not theirs: that they run to their end, and that nothing of them stays.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn millpond(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn e1_plays_three_phases_and_moves_no_interrupt_of_a_machine_that_is_not_its_own() {
    let test = "e1_plays_three_phases_and_moves_no_interrupt_of_a_machine_that_is_not_its_own";
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
