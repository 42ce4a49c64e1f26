//! Experiments that call the library for real-time programs, with the library that cargo built in the same directory.

use millpond_cmd::{Ctx, Exit, run};
use millpond_golden::breach;
use millpond_session::Output;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// From the package millpond-rt. This package depends on it, so that it is built.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libmillpond_rt.so")
}

/// Runs `millpond experiment WORDS --library …`. Returns status, output and error output.
fn experiment(words: &[&str]) -> (Exit, String, String) {
    let begin = ["millpond", "experiment"].map(OsString::from).into_iter();
    let named = [OsString::from("--library"), library().into_os_string()];
    let given: Vec<OsString> = begin.chain(words.iter().map(OsString::from)).chain(named).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = run(&given, &mut Ctx::new(Output::to(&mut out), Output::to(&mut err)));
    let (out, err) = (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap());
    let told: Vec<String> = ["experiment"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    assert_eq!(breach(&told, &out.lines().map(str::to_owned).collect::<Vec<_>>()), None);
    (exit, out, err)
}

#[test]
fn inversion_is_unbounded_under_the_plain_lock_and_bounded_under_ours() {
    let (exit, out, err) = experiment(&["inversion", "--json"]);
    if exit == Exit::REFUSED && err.contains("cannot use the class FIFO") {
        let why = err.lines().next().unwrap_or_default();
        return println!(
            "skipped: inversion_is_unbounded_under_the_plain_lock_and_bounded_under_ours: {why}"
        );
    }
    assert_eq!(exit, Exit::DONE, "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let meetings: Vec<(&str, u64, bool)> = found["meetings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let lock = one["lock"].as_str().unwrap();
            (lock, one["middle_ms"].as_u64().unwrap(), one["inverted"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(
        meetings,
        [
            ("plain", 20, true),
            ("plain", 60, true),
            ("plain", 180, true),
            ("inherits", 20, false),
            ("inherits", 60, false),
            ("inherits", 180, false),
        ]
    );
}
