//! Documents that no transcript prints, against the schemas of their commands.

use millpond_cmd::{Ctx, run};
use millpond_golden::{Stage, breach};
use millpond_session::{Output, Session};
use millpond_sim::SimMachine;
use std::ffi::OsString;

/// Runs a command on a machine, or on the one at hand, and checks each line that it prints.
fn check(session: Option<&Session>, line: &str) {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let given: Vec<OsString> = words.iter().map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut ctx = Ctx::new(Output::to(&mut out), Output::to(&mut err));
    if let Some(session) = session {
        ctx = ctx.with_session(session);
    }
    run(&given, &mut ctx);
    drop(ctx);
    let (out, err) = (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap());
    let lines: Vec<String> = out.lines().map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{line}: {err}");
    assert_eq!(breach(&words, &lines), None, "{line}");
}

#[test]
fn on_a_simulated_machine() {
    let session = Stage::new(SimMachine::named("x4200").unwrap()).session();
    check(Some(&session), "millpond posix --json");
    for command in [
        "priocntl -e spin -t 4",
        "lgrpinfo --json",
        "plgrp --json -A 1/strong,2/none 300",
        "plgrp --json -H 2 300 9999",
        "plgrp --json --dry-run -H 1 300",
        "pginfo --json",
        "intrstat --json 1 1",
        "millpond occupancy --json 300 1 2",
    ] {
        check(Some(&session), command);
    }
}

#[test]
fn on_a_captured_machine() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let root = root.display();
    check(None, &format!("millpond capture --json {root}"));
    for command in ["posix", "doctor"] {
        check(None, &format!("millpond {command} --json --root {root}"));
    }
}
