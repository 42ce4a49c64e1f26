//! The demo on this machine: it completes, and nothing of it remains, however it ends.
//!
//! It creates pools that push no thread out, and runs its own programs. A machine in use notices only some seconds of
//! load.

use crate::alone;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

fn millpond(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(words).stdin(Stdio::null());
    command
}

fn json(words: &[&str]) -> Value {
    let output = millpond(words).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// The numbers of the existing sets.
fn sets() -> Value {
    json(&["doctor", "--json"])["sets"].clone()
}

/// Whether the demo is possible here. Prints the reason if it is not.
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
fn the_demo_compares_four_arms_tells_the_story_and_puts_everything_back() {
    let _machine = alone();
    if !is_possible("the_demo_compares_four_arms_tells_the_story_and_puts_everything_back") {
        return;
    }
    let before = sets();
    let demo = json(&["demo", "--seconds", "1", "--json"]);
    assert_eq!(sets(), before);

    let arms = demo["arms"].as_array().unwrap();
    let kinds: Vec<&str> = arms.iter().map(|arm| arm["kind"].as_str().unwrap()).collect();
    let story = &demo["story"];
    let are_pools = story["left_out"].is_null();
    let fourth = if are_pools { "pools" } else { "apart" };
    assert_eq!(kinds, ["alone", "fighting", "capped", fourth, "alone"]);
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
        // A set is a guarantee: no sample shows job a elsewhere. Less than 0.5 % is the start of a program.
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
    if are_pools {
        // Job b gets all CPUs of a, and a gets them back. The time that this takes is not tested.
        let sizes = |of: &Value| [of["sizes"][0].as_u64().unwrap(), of["sizes"][1].as_u64().unwrap()];
        let first = [story["sizes"][0]["a"].as_u64().unwrap(), story["sizes"][0]["b"].as_u64().unwrap()];
        let grown = sizes(&story["stopped"]);
        assert!(grown[0] == 0 && grown[1] >= first[0] + first[1], "{story}");
        let [a, b] = sizes(&story["returned"]);
        assert!(a >= 1 && b >= 1 && a + b <= grown[1], "{story}");
        assert!(
            story["phases"][1]["a"].is_null() && story["phases"][1]["b"].as_f64().unwrap() > 0.0,
            "{story}"
        );
    }
}

/// A state directory of this test alone.
struct OwnState(std::path::PathBuf);

impl OwnState {
    fn new(name: &str) -> OwnState {
        let path = std::env::temp_dir().join(format!("millpond-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        OwnState(path)
    }

    fn millpond(&self, words: &[&str]) -> Command {
        let mut command = millpond(words);
        command.env("MILLPOND_STATE", &self.0);
        command
    }

    fn said(&self, words: &[&str]) -> (bool, String) {
        let output = self.millpond(words).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for OwnState {
    fn drop(&mut self) {
        let _ = self.millpond(&["pooladm", "-d"]).output();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn where_pools_are_in_use_the_demo_says_so_and_leaves_them_alone() {
    let test = "where_pools_are_in_use_the_demo_says_so_and_leaves_them_alone";
    let _machine = alone();
    let state = OwnState::new("in-use");
    if !is_possible(test) {
        return;
    }
    let (enabled, why) = state.said(&["pooladm", "-e", "--keep-others"]);
    if !enabled {
        return println!("skipped: {test}: {}", why.lines().next().unwrap_or_default());
    }
    let refused = "millpond demo: cannot run the demo: pools are in use on this machine\n\
         hint: pooladm -d disables them, and everything in them comes back to where it was\n";
    for words in [&["demo"][..], &["demo", "--dry-run"]] {
        assert_eq!(state.said(words), (false, refused.to_owned()));
    }
    assert_eq!(state.said(&["pooladm"]), (true, String::new()), "they are still enabled");
}

#[test]
fn what_a_killed_demo_left_is_put_back_by_the_next_one() {
    let test = "what_a_killed_demo_left_is_put_back_by_the_next_one";
    let _machine = alone();
    if !is_possible(test) {
        return;
    }
    let before = sets();
    let state = OwnState::new("killed");
    let mut child = playing(state.millpond(&["demo"]));
    // The first arm has started. Its pools may exist or not.
    let mut are_there = false;
    for _ in 0..100 {
        are_there = state.said(&["pooladm"]).0;
        if are_there {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    if !are_there {
        return println!("skipped: {test}: there can be no pools here");
    }
    let (possible, why) = state.said(&["demo", "--dry-run"]);
    assert!(!possible && why.contains("an experiment was killed, and its pools are still there"), "{why}");
    let next = playing(state.millpond(&["demo"]));
    assert!(Command::new("kill").args(["-TERM", &next.id().to_string()]).status().unwrap().success());
    let output = next.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("millpond demo: the pools of an experiment that was killed were put back\n"),
        "{said}"
    );
    assert!(!state.said(&["pooladm"]).0, "pools are disabled");
    assert_eq!(sets(), before);
}

/// Starts the demo and waits until its first arm runs.
fn playing(mut demo: Command) -> Child {
    let mut child = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = String::new();
    while !line.starts_with("alone: ") {
        line = lines.next().expect("the demo plays").unwrap();
    }
    // A thread continues to read the output, so that the demo does not block.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn a_demo_that_is_terminated_puts_everything_back() {
    let _machine = alone();
    if !is_possible("a_demo_that_is_terminated_puts_everything_back") {
        return;
    }
    let before = sets();
    let child = playing(millpond(&["demo"]));
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
    let _machine = alone();
    if !is_possible("a_demo_that_nobody_reads_any_more_ends_well") {
        return;
    }
    let before = sets();
    let mut child = millpond(&["demo", "--seconds", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(sets(), before);
}
