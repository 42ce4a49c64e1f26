//! The demo on the machine at hand: that it runs to its end, and that nothing of it stays, however it ends.
//!
//! It makes a set that pushes nobody out, and runs programs of its own: nothing that a machine at work would notice
//! beside the load of some seconds.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// The processor sets of a machine are there once: one test at a time.
static MACHINE: Mutex<()> = Mutex::new(());

fn millpond(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(words).stdin(Stdio::null());
    command
}

fn json(words: &[&str]) -> Value {
    let output = millpond(words).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// The numbers of the sets that exist.
fn sets() -> Value {
    json(&["doctor", "--json"])["sets"].clone()
}

/// Whether the demo is possible here; says why not.
fn is_possible(test: &str) -> bool {
    let output: Output = millpond(&["demo", "--dry-run"]).output().unwrap();
    if output.status.success() {
        return true;
    }
    println!(
        "skipped: {test}: {}",
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default()
    );
    false
}

#[test]
fn the_demo_compares_four_arms_and_puts_everything_back() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_possible("the_demo_compares_four_arms_and_puts_everything_back") {
        return;
    }
    let before = sets();
    let demo = json(&["demo", "--seconds", "1", "--json"]);
    assert_eq!(sets(), before);

    let arms = demo["arms"].as_array().unwrap();
    let kinds: Vec<&str> = arms.iter().map(|arm| arm["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["alone", "fighting", "capped", "apart", "alone"]);
    let apart = &arms[3];
    assert_eq!(apart["left_out"], Value::Null);
    let threads = |arm: &Value, job: usize| arm["jobs"][job]["threads"].as_u64().unwrap();
    assert!(threads(&arms[1], 0) > threads(apart, 0), "apart each job has fewer threads: {demo}");
    assert_eq!(threads(apart, 0), threads(apart, 1));
    for job in apart["jobs"].as_array().unwrap() {
        assert!(job["mops"].as_f64().unwrap() > 0.0, "{demo}");
        assert_ne!(job["verified"], false, "{demo}");
    }
    if apart["unseen"].is_null() {
        // A set is a promise: not one sample of a elsewhere. Less than 0.5 % is the start of a program.
        let places = |job: usize| -> Vec<u64> {
            let seen = apart["jobs"][job]["seen"].as_array().unwrap();
            seen.iter()
                .filter(|s| s["most"].as_f64().unwrap() > 0.0)
                .map(|s| s["cpu"].as_u64().unwrap())
                .collect()
        };
        assert!(!places(0).is_empty());
        assert!(places(0).iter().all(|cpu| !places(1).contains(cpu)), "{demo}");
    }
    assert!(demo["speed_up"]["over_fighting"].as_f64().unwrap() > 0.0);
}

/// Starts the demo and waits until its first arm plays.
fn playing() -> Child {
    let mut child = millpond(&["demo"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = String::new();
    while !line.starts_with("alone: ") {
        line = lines.next().expect("the demo plays").unwrap();
    }
    // Whoever reads goes on reading, so that the demo is not stopped by that.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn a_demo_that_is_terminated_puts_everything_back() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_possible("a_demo_that_is_terminated_puts_everything_back") {
        return;
    }
    let before = sets();
    let child = playing();
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "millpond demo: cannot run the demo: it was interrupted\n"
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(sets(), before);
}

#[test]
fn a_demo_that_nobody_reads_any_more_ends_well() {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_possible("a_demo_that_nobody_reads_any_more_ends_well") {
        return;
    }
    let before = sets();
    let mut child = millpond(&["demo", "--seconds", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(sets(), before);
}
