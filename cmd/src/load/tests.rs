//! Tests of loads from their command lines: each runs, reports as text and as JSON, and refuses invalid options.

use crate::{Ctx, Exit, run};
use millpond_session::Output;
use serde_json::Value;
use std::ffi::OsString;

/// Runs `millpond load WORDS`. Returns status, standard output and standard error.
fn load(words: &str) -> (Exit, String, String) {
    let words: Vec<OsString> =
        ["millpond", "load"].into_iter().chain(words.split_whitespace()).map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = {
        let mut ctx = Ctx::new(Output::to(&mut out), Output::to(&mut err));
        run(&words, &mut ctx)
    };
    (exit, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn json(words: &str) -> Vec<Value> {
    let (exit, out, err) = load(words);
    assert_eq!((exit, err.as_str()), (Exit::DONE, ""));
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn cg_prints_the_traditional_trace_and_a_verified_answer() {
    let (exit, out, err) = load("cg --class S --threads 1 --barrier block");
    assert_eq!((exit, err.as_str()), (Exit::DONE, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "CG class S: 1400 rows, 15 iterations, 1 thread, blocking barrier");
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["iter", "residual", "zeta"]);
    assert!(lines[16].starts_with("   15 ") && lines[16].ends_with(" 8.5971775078648"), "{out}");
    assert_eq!(lines[17], "zeta 8.5971775078648 (reference 8.5971775078648): verified");
    assert!(lines[18].starts_with("15 iterations in ") && lines[18].ends_with(" Mop/s total"), "{out}");
    assert_eq!(lines.len(), 19);
}

#[test]
fn in_json_the_result_is_the_last_line_and_events_come_before_it() {
    let lines = json("cg --threads 1 --json");
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["load"], &lines[0]["result"]["verification"]), (&"cg".into(), &"passed".into()));

    let lines = json("cg --threads 1 --json --events");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events[..2], ["ready", "started"]);
    assert_eq!(events[2..17], ["iteration"; 15]);
    assert_eq!(events[17..], ["repetition"]);
    assert_eq!(lines.last().unwrap()["result"]["iterations"], 15);
}

#[test]
fn a_service_tells_how_long_requests_took() {
    let (exit, out, _) = load("service --rate 500 --work 0.01 --seconds 0.1");
    assert_eq!(exit, Exit::DONE);
    assert!(out.contains(" requests in 0.") && out.contains(" s: p50 "), "{out}");
    let lines = json("service --rate 500 --work 0.01 --seconds 0.1 --json --events");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["ready", "started"]);
    assert!(lines[2]["result"]["p99_ms"].is_f64(), "{lines:?}");
    let (exit, _, err) = load("service --work 0");
    assert_eq!(exit, Exit::USAGE);
    assert!(err.contains("cannot use --work 0: it is not within 0.001 and 10000"), "{err}");
}

#[test]
fn hackbench_tells_what_runs_and_how_long_it_took() {
    let (exit, out, _) =
        load("hackbench --groups 1 --pairs 2 --loops 3 --bytes 4 --tasks thread --transport pipe");
    assert_eq!(exit, Exit::DONE);
    let expected = "Running in threaded mode with 1 groups using 4 file descriptors each (== 4 tasks)\n\
                    Each sender will pass 3 messages of 4 bytes\nTime: ";
    assert!(out.starts_with(expected), "{out}");
    let lines = json("hackbench --groups 1 --pairs 2 --loops 3 --bytes 4 --json --events");
    assert_eq!(lines[0]["tasks"], 4);
    assert_eq!(lines.last().unwrap()["result"]["messages"], 12);
}

#[test]
fn published_forms_are_understood_and_what_a_load_has_not_is_told() {
    let (exit, out, err) = load("hackbench -T -p -f 2 -s 4 1 thread 3 -i");
    assert_eq!(
        (exit, err.as_str()),
        (Exit::DONE, "millpond load: hackbench --inet has no effect: this load has no such thing\n")
    );
    let expected = "Running in threaded mode with 1 groups using 4 file descriptors each (== 4 tasks)\n\
                    Each sender will pass 3 messages of 4 bytes\nTime: ";
    assert!(out.starts_with(expected), "{out}");
    let (_, out, _) = load("./cg.S.1");
    assert!(out.starts_with("CG class S: 1400 rows, 15 iterations, 1 thread, spinning barrier\n"), "{out}");
    let (exit, _, err) = load("cg.Q.x");
    assert_eq!(exit, Exit::USAGE);
    assert!(err.starts_with("millpond load: cannot use "), "{err}");
}

#[test]
fn a_stream_goes_both_ways() {
    let lines = json("stream --seconds 0.05 --json --events");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["ready", "started"]);
    let result = &lines.last().unwrap()["result"];
    for way in ["out_flow", "in_flow"] {
        assert!(result[way]["bytes"].as_u64().unwrap() > 0, "{result}");
    }
    let (_, out, _) = load("stream --seconds 0.05 --spin --bytes 512");
    assert!(out.lines().next().unwrap().ends_with(", writes of 512 bytes, spinning"), "{out}");
    assert_eq!(out.lines().count(), 3);
}

#[test]
fn spinners_tell_what_each_got() {
    let (_, out, _) = load("spin --threads 2 --seconds 0.02");
    let first: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["thread", "0", "1", "all"]);
    let lines = json("spin --threads 1 --seconds 0.02 --duty 50 --period 0.01 --json");
    assert_eq!(lines[0]["result"]["threads"].as_array().unwrap().len(), 1);
}

#[test]
fn a_build_tells_how_many_files_came_of_it() {
    let lines = json("build --jobs 2 --seconds 0.05 --json --events");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["ready", "started"]);
    assert_eq!(lines.last().unwrap()["result"]["jobs"], 2);
    let (exit, _, err) = load("build --compiler no-such-compiler");
    assert_eq!(exit, Exit::REFUSED);
    let says = "cannot start no-such-compiler: No such file or directory";
    assert!(err.contains(says) && err.contains("\nhint: name another compiler: --compiler\n"), "{err}");
}

#[test]
fn stacks_tell_what_of_them_is_in_memory() {
    let lines = json("stacks --json --events");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["ready", "started"]);
    let stacks = &lines[2]["result"]["stacks"];
    // Tests run in threads other than the main one.
    assert_eq!(stacks[0]["left_out"], "it is not the main thread that looks");
    let own = serde_json::json!({ "kind": "own", "looks": [{ "touched": "nothing", "resident": 17, "pages": 17 }] });
    assert_eq!(stacks[2], own);
    let (_, out, _) = load("stacks");
    assert!(out.starts_with("stack    touched      in memory   pages\n"), "{out}");
    assert!(out.contains("\nown      nothing             17      17\n"), "{out}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    for (words, why) in [
        ("", "which load? known are cg, hackbench, stream, service, spin, build, stacks"),
        (
            "nothing",
            "there is no load `nothing`: known are cg, hackbench, stream, service, spin, build, stacks",
        ),
        ("cg --groups 3", "there is no option --groups"),
        ("cg 3", "load cg takes no operand, and was given `3`"),
        ("cg --barrier sleeping", "cannot use barrier sleeping: it is none of spinning, blocking"),
        (
            "cg --seconds 0",
            "cannot use --seconds 0: it is no time above 0 (seconds, or a number with ns, us, ms, s, m, h or d)",
        ),
        ("spin --period 1", "option --period needs --duty"),
        ("spin --duty 101", "cannot spin 101 percent of the time: it is not within 1 and 100"),
        ("stream --nic eth0", "options --nic and --address need each other"),
        (
            "stream --nic eth0 --address 10.0.0.1",
            "cannot use address 10.0.0.1: it is not of the form 10.0.0.1/30",
        ),
        ("stream --from 127.0.0.1", "option --from needs --connect"),
        (
            "stream --namespaces --server 127.0.0.1:0",
            "options --server, --connect and --namespaces are mutually exclusive",
        ),
    ] {
        let (exit, out, err) = load(words);
        assert_eq!((exit, out.as_str()), (Exit::USAGE, ""), "{words}");
        assert_eq!(err.lines().next().unwrap(), format!("millpond load: {why}"), "{words}");
    }
}

#[test]
fn a_load_that_cannot_run_says_why() {
    let (exit, out, err) = load("hackbench --groups 100000000");
    assert_eq!((exit, out.as_str()), (Exit::REFUSED, ""));
    assert_eq!(err, "millpond load: cannot start 4000000000 tasks: 4194304 is the most\n");
    let (exit, _, err) = load("--machine t2000 cg");
    assert_eq!(exit, Exit::REFUSED);
    assert_eq!(
        err,
        "millpond load: cannot run load cg on machine t2000: programs run on the real machine only\n"
    );
}
