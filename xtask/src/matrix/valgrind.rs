//! Valgrind's memcheck with the executables of the other groups. It also checks the arguments of system calls.
//!
//! Its thread tools are not used: they report atomic accesses and the locks of Rust's library as races. Loom, miri and the thread
//! sanitizer detect races.

use super::outcome::{Outcome, run_harness};
use super::tools;
use crate::cargo::Built;
use crate::run::under;
use std::process::Command;

/// The executables with `unsafe` code, and parts of the names of tests that valgrind cannot run.
///
/// A stream with a quarter of a second transfers nothing at its speed. Valgrind supports neither BPF programs, which inspect live
/// threads, nor the way in which programs are launched, nor `openat2` and `pidfd_open`.
const TARGETS: [(&str, &[&str]); 3] = [
    ("millpond_workloads", &["stream::device", "build::", "a_machine_answers"]),
    (
        "millpond_linux",
        &[
            "::live",
            "counters::sampler",
            "counters::watch",
            "counters::proc",
            "caps::",
            "timerlat::tests::options",
            "beyond_the_room_for_names",
        ],
    ),
    ("millpond_session", &["the_status_is_the_programs", "an_end_is_waited_for"]),
];

/// Suppressions of false errors.
const NO_ERRORS: &str = concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/src/matrix/valgrind.supp");

/// Everything takes about thirty times as long.
const CASES: &str = "4";

pub(super) fn lacks() -> Option<String> {
    let why = "there is no valgrind (apt-get install valgrind)";
    (!tools::has_program("valgrind")).then(|| why.to_owned())
}

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    for (target, skip) in TARGETS {
        let [binary, ..] = outcome.executables(built, |test| test.target == target, target)[..] else {
            continue;
        };
        let mut command = Command::new("valgrind");
        command.args([
            "--quiet",
            NO_ERRORS,
            "--error-exitcode=99",
            "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ]);
        command.arg(&binary.path);
        for name in skip.iter().chain(&["fuzz_"]) {
            command.args(["--skip", name]);
        }
        command.env("PROPTEST_CASES", CASES);
        outcome.add(target, run_harness(target, &under(command, binary, built)));
    }
    outcome
}
