//! Miri: an interpreter that ends at the first breach of the language's rules, and tries out what weak memory allows.
//!
//! It knows few system calls, so it gets `unsafe` code that asks the kernel nothing: the barrier and the shared vectors of CG, the
//! exchange of stacks, and object caches as far as they only map memory: pages that are
//! cut, moved or given back, guard pages, forks and waiters of locks are beyond it.

use super::outcome::{Outcome, Suite, run_suites};
use super::tools::{self, target_dir};
use crate::cargo::Built;

const SUITES: [Suite; 2] = [
    Suite {
        package: "millpond-workloads",
        only: &["cg::barrier", "cg::shared", "cg::matrix", "cg::partition"],
        // Whole problems take it an hour.
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

/// An interpreter is some hundred times slower.
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
