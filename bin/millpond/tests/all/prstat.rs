//! `prstat -R` on this machine: prstat is in the real-time class while it samples, or reports that it cannot be.

use crate::captured::{Captured, err, millpond, out};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// All processes, once, as JSON.
const ALL: [&str; 4] = ["-R", "--json", "-n", "100000"];

/// An unprivileged user.
const NOBODY: u32 = 65534;

/// The class of a process in a report.
fn class_of(report: &str, pid: u32) -> Option<String> {
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let processes = report["processes"].as_array().unwrap();
    let found = processes.iter().find(|process| process["pid"] == pid)?;
    Some(found["class"].as_str().unwrap().to_owned())
}

#[test]
fn with_r_prstat_finds_itself_in_the_real_time_class() {
    let state = tempfile::tempdir().unwrap();
    let started = millpond()
        .arg("prstat")
        .args(ALL)
        .args(["0.1", "1"])
        .env("MILLPOND_STATE", state.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = started.id();
    let ended = started.wait_with_output().unwrap();
    if ended.status.code() == Some(1) && err(&ended).starts_with("prstat: cannot put prstat into class RT: ")
    {
        println!("skipped: with_r_prstat_finds_itself_in_the_real_time_class: {}", err(&ended).trim_end());
        return;
    }
    assert_eq!((ended.status.code(), err(&ended).as_str()), (Some(0), ""));
    assert_eq!(class_of(&out(&ended), pid).as_deref(), Some("RT"), "{}", out(&ended));
}

#[test]
fn without_rights_r_shows_nothing_and_says_what_it_needs() {
    let name = "without_rights_r_shows_nothing_and_says_what_it_needs";
    let state = tempfile::tempdir().unwrap();
    let mut command = millpond();
    command.arg("prstat").args(ALL).env("MILLPOND_STATE", state.path());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        chown(state.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let Ok(ended) = command.output() else {
        println!("skipped: {name}: nobody else may start the program here");
        return;
    };
    if ended.status.success() {
        println!("skipped: {name}: a limit lets everybody into the real-time class here");
        return;
    }
    assert_eq!((ended.status.code(), out(&ended).as_str()), (Some(1), ""));
    assert_eq!(
        err(&ended),
        "prstat: cannot put prstat into class RT: permission denied\nhint: this needs the rights of the superuser\n"
    );
}

#[test]
fn on_a_captured_machine_r_is_refused() {
    let ended = Captured::new().run(&["prstat", "-R"]);
    assert_eq!((ended.status.code(), out(&ended).as_str()), (Some(1), ""));
    assert_eq!(
        err(&ended),
        "prstat: cannot put prstat into class RT: on a captured machine nothing runs\n\
         hint: leave out -R: nothing keeps prstat waiting here\n"
    );
}
