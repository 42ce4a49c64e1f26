//! Miri: an interpreter that stops at undefined behaviour, and tries the effects of weak memory.
//!
//! It supports few system calls, so it runs `unsafe` code without system calls: the barrier and the shared vectors of CG, the
//! exchange of stacks, and object caches as far as they only map memory. It does not support cutting, moving or returning pages,
//! guard pages, forks and waiting for locks.

use super::outcome::{Outcome, Suite, run_suites};
use super::tools::{self, target_dir};
use crate::cargo::Built;

const SUITES: [Suite; 2] = [
    Suite {
        package: "millpond-workloads",
        only: &["cg::barrier", "cg::shared", "cg::matrix", "cg::partition"],
        // Complete problems would take an hour.
        skip: &["of_class_s"],
    },
    Suite {
        package: "millpond-rt",
        only: &[
            "slots",
            "sizes",
            "errors",
            "umem::tests",
            "umem::meta",
            "umem::builtin",
            "umem::depot",
            "umem::options",
        ],
        // The manual is a file of the tree.
        skip: &["fuzz_", "every_word_is_in_the_manual"],
    },
];

/// The interpreter is some hundred times slower.
const CASES: &str = "2";

pub(super) fn lacks() -> Option<String> {
    let version = tools::words(tools::nightly("cargo").args(["miri", "--version"]));
    let why =
        "there is no nightly toolchain with miri (rustup component add miri rust-src --toolchain nightly)";
    version.is_none().then(|| why.to_owned())
}

pub(super) fn run(_: &Built) -> Outcome {
    run_suites(&SUITES, |suite| {
        let mut command = tools::nightly("cargo");
        tools::with_flags(&mut command, &[]);
        command.args(["miri", "test"]).arg("--target-dir").arg(target_dir("miri"));
        // Time and random seeds come from the machine.
        command
            .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance")
            .env("PROPTEST_CASES", CASES);
        suite.arguments(&mut command);
        command
    })
}
