//! The agent and the controller in a cluster: builds parts of Kubernetes with the Go client, once, and runs the tests with them.
//! The first build takes half an hour, so this group only runs on request.

use super::outcome::{Outcome, run_harness};
use super::tools::{has_program, target_dir};
use crate::cargo::Built;
use crate::run::as_test;
use std::process::Command;

/// The parts that the tests start.
const PARTS: [&str; 5] = ["kube-apiserver", "kube-scheduler", "kubelet", "kwok", "containerd"];

/// Required programs, with their packages.
const NEEDED: [(&str, &str); 4] =
    [("go", "golang"), ("etcd", "etcd-server"), ("kubectl", "kubernetes-client"), ("openssl", "openssl")];

pub(super) fn lacks() -> Option<String> {
    let (program, package) = NEEDED.into_iter().find(|(program, _)| !has_program(program))?;
    Some(format!("there is no {program}; hint: install {package}"))
}

pub(super) fn run(built: &Built) -> Outcome {
    let parts = target_dir("kubernetes");
    let mut outcome = Outcome::default();
    let mut build = Command::new("sh");
    build.arg("tests/node/kubernetes/build.sh").arg(&parts).args(PARTS);
    if !build.status().is_ok_and(|status| status.success()) {
        return Outcome::skipped("kubernetes: its parts could not be built: see above".to_owned());
    }
    for test in outcome.executables(built, |test| test.target == "kubernetes", "kubernetes") {
        let mut command = as_test(test, built);
        command.env("MILLPOND_KUBERNETES", &parts).args(["--nocapture", "--test-threads", "1"]);
        outcome.add("kubernetes", run_harness("kubernetes", &command));
    }
    outcome
}
