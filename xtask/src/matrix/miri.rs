//! Miri: an interpreter that ends at the first breach of the language's rules, and tries out what weak memory allows.
//!
//! It knows few system calls, so it gets what is `unsafe` and asks the kernel nothing: the barrier and the shared vectors of CG, and the
//! places by which stacks change hands.

use super::{Outcome, Suite, run_suites, target_dir, tools};
use crate::cargo::Built;

const SUITES: [Suite; 2] = [
    Suite {
        package: "millpond-workloads",
        only: &["cg::barrier", "cg::shared", "cg::matrix", "cg::partition"],
        // Whole problems take it an hour.
        skip: &["of_class_s"],
    },
    Suite { package: "millpond-rt", only: &["slots", "sizes", "errors"], skip: &[] },
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
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", CASES);
        suite.arguments(&mut command);
        command
    })
}
