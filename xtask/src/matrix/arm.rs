//! Compiles the real-time libraries for aarch64, the other architecture with assembly code.

use super::outcome::Outcome;
use super::tools::{self, target_dir};
use crate::cargo::{Built, cargo};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const PACKAGES: [&str; 4] = ["millpond-rt", "millpond-rt-malloc", "millpond-rt-layout", "millpond-unwind"];

pub(super) fn lacks() -> Option<String> {
    let has = tools::Toolchain::usual().is_some_and(|toolchain| toolchain.has_target(TARGET));
    (!has).then(|| format!("the compiler has no {TARGET} (rustup target add {TARGET})"))
}

pub(super) fn run(_: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    for package in PACKAGES {
        let mut command = cargo();
        command.args(["check", "--quiet", "--target", TARGET]);
        tools::name_package(&mut command, package);
        command.arg("--target-dir").arg(target_dir("arm"));
        outcome.check(package, &command);
    }
    outcome.print(TARGET);
    outcome
}
