//! The barrier, the exchange of stacks, and locks, in every possible order of their threads. Only needs a stable compiler.

use super::outcome::{Outcome, Suite, run_suites};
use super::tools::{self, target_dir};
use crate::cargo::{Built, cargo};

const SUITES: [Suite; 2] = [
    Suite { package: "millpond-workloads", only: &["barrier::orders"], skip: &[] },
    Suite {
        package: "millpond-rt",
        only: &["slots::orders", "word::orders", "sequence::orders", "umem_orders"],
        skip: &[],
    },
];

pub(super) fn run(_: &Built) -> Outcome {
    run_suites(&SUITES, |suite| {
        let mut command = cargo();
        tools::with_flags(&mut command, &["--cfg loom"]);
        command.arg("test").arg("--target-dir").arg(target_dir("loom"));
        if suite.package == "millpond-rt" {
            command.args(["--test", "loom"]);
        }
        // There are many orders. An optimised build tests them ten times faster.
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
        suite.arguments(&mut command);
        command
    })
}
