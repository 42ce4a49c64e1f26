//! Documents that no transcript prints, validated against the schemas of their commands.

use millpond_cmd::{Ctx, run};
use millpond_experiments::demo::{Arm, ArmKind, Demo, JobResult, Moved, Phase, Seen, Story};
use millpond_experiments::e1::{self, Afterwards, Cause, E1, Figures, Range};
use millpond_experiments::e7::{self, E7};
use millpond_experiments::{Facts, Sizes};
use millpond_golden::{Stage, breach};
use millpond_model::CpuId;
use millpond_session::{Output, Session};
use millpond_sim::SimMachine;
use millpond_workloads::stacks::{Count, Kind, Look, Stack, StacksResult, Touched};
use millpond_workloads::stream::{Flow, StreamResult};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Runs a command on a machine, or on the running one, and validates each line of its output.
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
        "mpstat --json 1 2",
        "mpstat --json -a 1 1",
        "mpstat --json -A core 1 1",
        "mpstat --json -A chip 1 1",
        "prstat --json -a 1 2",
        "prstat --json -mL --caps 1 2",
        "prstat --json -v -J --shares 1 1",
        "pgstat --json -AC 1 2",
        "cpustat --json --cpi -t -c pic0=Cycle_cnt,pic1=Instr_cnt 1 1",
        "cputrack --json -fev -t -T 1 -N 1 -c pic0=Cycle_cnt -p 300",
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

/// Validates a document that no machine here prints against the schema of a command.
fn hold(command: &str, mut document: Value) {
    document["version"] = 1.into();
    let words = [command.to_owned(), "--json".to_owned()];
    assert_eq!(breach(&words, &[document.to_string()]), None, "{command}");
}

#[test]
fn what_only_a_linux_machine_prints() {
    let sizes = Sizes { seconds: 0.0, a: 1, b: 1 };
    let moved = Moved {
        at: 5.0,
        sizes: [0, 2],
        seconds: 0.3,
        threads: Some(2),
        threads_seconds: None,
        is_right: true,
    };
    let story = Story {
        sizes: vec![sizes],
        end: Some(9.5),
        phases: vec![Phase { name: "both".into(), a: Some(1000.2), b: None }],
        stopped: Some(moved),
        ..Story::default()
    };
    let seen = vec![Seen::over(CpuId(0), &[21.0, 51.0])];
    let job =
        JobResult { name: "a".into(), threads: 2, mops: 80.1, iterations: 164, verified: Some(true), seen };
    let (sentence, jobs) = ("both on all CPUs".to_owned(), vec![job]);
    let arm = Arm { kind: ArmKind::Fighting, blocks: false, sentence, jobs, left_out: None, unseen: None };
    let (brand, free) = ("Opteron 2210".to_owned(), "0-1".to_owned());
    let facts = Facts { processors: 2, cores: 2, chips: 1, lgroups: 1, brand, sets: 0, free };
    hold("demo", json!({ "dry_run": true, "machine": facts, "arms": ["both on all CPUs"] }));
    let demo = serde_json::to_value(Demo::new(facts, vec![arm], Some(story))).unwrap();
    hold("demo", demo.clone());
    hold("experiment", demo);

    let option =
        json!({ "fixed": false, "for": "systemd-nspawn", "option": "--slice=mpset1.slice", "pool": "web" });
    let changes = [option, json!({ "options": [], "pool": "web" })];
    hold("poolbind", json!({ "changes": changes, "notes": [], "refused": [] }));
}

#[test]
fn of_loads() {
    for load in [
        "cg --threads 1",
        "hackbench --groups 1 --pairs 2 --loops 3 --bytes 4",
        "stream --seconds 0.05 --interval 0.02",
        "service --rate 500 --work 0.01 --seconds 0.1",
        "spin --threads 1 --seconds 0.05 --interval 0.02",
        "build --jobs 1 --seconds 0.1",
        "stacks",
    ] {
        check(None, &format!("millpond load {load} --json"));
        check(None, &format!("millpond load {load} --json --events"));
    }
}

#[test]
fn of_experiments() {
    check(None, "millpond experiment e3 --threads 2 --seconds 1 --json");
    let range = Range { idl_least: Some(99.9), ..Range::default() };
    let phase = e1::Phase {
        sentence: "It runs in the set.".into(),
        stream: StreamResult {
            here: "10.0.0.2:40000".parse().unwrap(),
            there: "10.0.0.1:5001".parse().unwrap(),
            write_bytes: 1024,
            is_spinning: true,
            out_flow: Flow { bytes: 5, seconds: 1.0, calls: 2 },
            in_flow: Flow { bytes: 5, seconds: 1.0, calls: 2 },
            stopped: false,
        },
        figures: Figures { set: range, ..Figures::default() },
        mpstat: String::new(),
        causes: vec![Cause { name: "eth0".into(), is_internal: false, rate: 0.0, elsewhere: 650.0 }],
        left_out: Vec::new(),
    };
    let machine = Facts {
        processors: 4,
        cores: 4,
        chips: 1,
        lgroups: 1,
        brand: String::new(),
        sets: 0,
        free: "0-3".into(),
    };
    let afterwards = Afterwards { same_states: true, renewed: "0-1".into() };
    let phases = vec![phase.clone(), phase.clone(), phase];
    let e1 = E1 { machine, set: "0-1".into(), full: true, phases, afterwards };
    hold("experiment", serde_json::to_value(e1.json(&e1::Published::read())).unwrap());

    let count = Count { resident: 4, pages: 16 };
    let stack =
        Stack { kind: Kind::Main, looks: vec![Look { touched: Touched::Nothing, count }], left_out: None };
    let here = StacksResult { kernel: "6.12.1".into(), page_bytes: 4096, stacks: vec![stack] };
    for library in [Ok(count), Err("there is none".to_owned())] {
        let e7 = E7 { published: e7::Published::read(), here: here.clone(), library };
        hold("experiment", serde_json::to_value(e7.json()).unwrap());
    }
}
