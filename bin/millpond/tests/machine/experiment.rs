//! Experiments on this machine, which other programs use as well: they complete, and nothing of them remains.

use crate::alone;
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn millpond(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn e2_is_played_with_pools_and_barriers_that_block_and_puts_everything_back() {
    let test = "e2_is_played_with_pools_and_barriers_that_block_and_puts_everything_back";
    let _machine = alone();
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
    let _machine = alone();
    let sets = || json(&millpond(&["doctor", "--json"]))["sets"].clone();
    let states = || millpond(&["psrinfo"]).stdout;
    let (sets_before, states_before) = (sets(), states());
    let output = millpond(&["experiment", "e1", "--seconds", "1", "--json"]);
    assert_eq!((sets(), states()), (sets_before, states_before), "everything is put back");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.lines().any(|line| line.starts_with("millpond experiment: cannot run experiment e1: ")) {
        // The machine has one CPU, or no counters. The experiment reports that.
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

#[test]
fn e7_looks_at_three_stacks_of_a_process_of_its_own() {
    // A main stack of 1 MB has 256 pages. Those above the first frame hold the environment and do not count.
    let program = env!("CARGO_BIN_EXE_millpond");
    let script = "ulimit -s 1024 && exec \"$0\" experiment e7";
    let run = |more: &str| {
        let script = format!("{script} {more}");
        Command::new("sh").args(["-c", &script, program]).env_clear().stdin(Stdio::null()).output().unwrap()
    };
    let e7 = json(&run("--json"));
    let page = usize::try_from(e7["page_bytes"].as_u64().unwrap()).unwrap();
    let looks = |stack: usize| -> Vec<(u64, u64)> {
        let looks = e7["stacks"][stack]["looks"].as_array().unwrap();
        let count = |look: &Value, of: &str| look["here"][of].as_u64().unwrap();
        looks.iter().map(|look| (count(look, "resident"), count(look, "pages"))).collect()
    };
    let all = (1024 * 1024 / page) as u64;
    let main = looks(0);
    assert!(0 < main[0].0 && main[0].0 <= main[0].1 && main[0].1 < all, "{e7}");
    assert_eq!(main[1].0, main[0].0 + 1, "the touched page and no other: {e7}");
    assert!(main[1].1 > all - 16 && main[1].1 <= all, "{e7}");
    let default = looks(1);
    assert!(default[0].0 < all / 2, "{e7}");
    assert_eq!(default, [(default[0].0, all), (default[0].0 + 1, all), (all, all)], "{e7}");
    assert_eq!(looks(2), [(17, 17)]);
    // The library is in cargo's build directory, or missing.
    match &e7["library"]["here"] {
        Value::Null => assert!(e7["library"]["left_out"].is_string(), "{e7}"),
        here => assert_eq!(here["resident"], here["pages"], "{e7}"),
    }

    let text = String::from_utf8(run("").stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "e7: what of a thread's stack is in memory");
    let whole = format!("every page touched 254 of 254 {all} of {all}");
    assert!(rows.iter().any(|row| row.join(" ") == whole), "{text}");
    assert!(rows.iter().any(|row| row.join(" ") == "nothing touched 17 of 17 17 of 17"), "{text}");
}

#[test]
fn a_stack_without_a_limit_is_looked_at_with_one() {
    let script = "ulimit -s unlimited && exec \"$0\" load stacks --json";
    let output =
        Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_millpond")]).env_clear().output().unwrap();
    if !output.status.success() && output.stdout.is_empty() {
        let why = "the hard limit on stacks is lower (ulimit -Hs)";
        return println!("skipped: a_stack_without_a_limit_is_looked_at_with_one: {why}");
    }
    let result = &json(&output)["result"];
    let touched = &result["stacks"][0]["looks"][1];
    let kib = touched["pages"].as_u64().unwrap() * result["page_bytes"].as_u64().unwrap() / 1024;
    assert!((8192 - 64..=8192).contains(&kib), "{result}");
}
