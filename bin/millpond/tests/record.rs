//! `millpond record` and what is shown of a recording, through the program.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn millpond(words: &[&str]) -> (i32, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).env("TZ", "UTC").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
}

fn out(words: &[&str]) -> String {
    let (status, out, err) = millpond(words);
    assert_eq!(status, 0, "{words:?}: {err}");
    out
}

/// Records 30 seconds of a simulated machine.
fn recorded(dir: &Path) -> String {
    let place = dir.join("day").display().to_string();
    let said = out(&[
        "record",
        "--machine",
        "t2000",
        "--load",
        "spin -t 40",
        "--to",
        &place,
        "--threads",
        "1",
        "--for",
        "30",
    ]);
    assert!(
        said.starts_with(&format!("recording into {place}: at most 1.0G and 7 days\n31 frames, ")),
        "{said}"
    );
    place
}

#[test]
fn what_was_recorded_is_shown_as_it_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    for view in ["overview", "threads", "processes"] {
        let live =
            out(&["top", "--machine", "t2000", "--load", "spin -t 40", "--batch", "--view", view, "1", "30"]);
        let replayed = out(&["top", "--replay", &place, "--batch", "--view", view, "1", "30"]);
        assert_eq!(replayed, live, "{view}");
    }
    let shown = out(&["record", "--show", &place]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{place}: machine t2000"));
    assert!(lines[1].ends_with(", 31 frames in 1 file"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&out(&["record", "--show", "--json", &place])).unwrap();
    assert_eq!((&json["frames"], &json["machine"]), (&31.into(), &"t2000".into()));
    assert_eq!(json["last"].as_i64().unwrap() - json["first"].as_i64().unwrap(), 30);
}

#[test]
fn a_moment_is_shown_with_the_interval_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    let json = out(&["top", "--replay", &place, "--at", "-10s", "--once", "--json"]);
    let frame: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(frame["interval_s"], 1.0);
    assert_eq!((&frame["sets"][0]["busy_s"], &frame["sets"][0]["runnable"]), (&32.into(), &40.into()));
    let (status, _, err) = millpond(&["top", "--replay", &place, "--at", "2031-01-01 00:00", "--once"]);
    assert_eq!(status, 2);
    assert!(err.starts_with("millpond top: cannot go to 2031-01-01 00:00: the recording is from "), "{err}");
}

#[test]
fn a_recorder_that_is_killed_loses_nothing_that_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("day").display().to_string();
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["record", "--to", &place, "0.05"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let frames = || {
        let (status, said, _) = millpond(&["record", "--show", "--json", &place]);
        let json: Option<serde_json::Value> = serde_json::from_str(&said).ok().filter(|_| status == 0);
        json.and_then(|json| json["frames"].as_u64()).unwrap_or(0)
    };
    while frames() < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it records nothing");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (status, _, err) = millpond(&["record", "--to", &place, "--for", "1"]);
    assert_eq!(status, 1);
    assert!(err.contains("another program records there\nhint: choose another directory with --to"), "{err}");
    recorder.kill().unwrap();
    let _ = recorder.wait().unwrap();
    let before = frames();
    assert!(before >= 5);
    let (status, _, err) = millpond(&["record", "--to", &place, "--machine", "t2000", "--for", "2"]);
    assert_eq!(status, 0, "{err}");
    assert!(
        err.contains(&format!(
            "its writer was stopped: {before} frames are made a block, 0 bytes are no whole frame"
        )),
        "{err}"
    );
    assert_eq!(frames(), before + 3);
}

#[test]
fn mistakes_are_told_with_the_remedy() {
    let told = |words: &[&str]| millpond(words).2;
    assert_eq!(
        told(&["record", "--to", "x", "--max-size", "5x"]),
        "millpond record: cannot use --max-size 5x: it is no number of bytes from 1M on (512M, 2G)\n"
    );
    assert!(told(&["top", "--replay", "/nowhere", "--once"]).ends_with("hint: millpond record makes one\n"));
    assert!(
        told(&["top", "--at", "1:00", "--machine", "t2000"])
            .starts_with("millpond top: a recording is of the machine that was recorded")
    );
    assert!(
        told(&["record", "1", "2"])
            .starts_with("millpond record: one interval is taken; --for says how long\n")
    );
}
