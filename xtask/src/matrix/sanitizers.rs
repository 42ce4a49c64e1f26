//! The compiler's sanitizers, over the rooms that hold `unsafe` code or threads.

use super::outcome::{Outcome, Suite, run_suites};
use super::tools::{self, Toolchain, limited, nightly, target_dir, with_flags};
use crate::cargo::{Built, cargo};

/// Where memory is handled by hand.
const ADDRESS: [Suite; 5] = [
    // What it maps for itself the sanitizer does not know: looked at is what the library reads and writes of its own, and of its callers.
    Suite { package: "millpond-rt", only: &[], skip: &[] },
    // Modules are looked up by functions that the sanitizer puts its own in place of.
    Suite { package: "millpond-unwind", only: &[], skip: &["modules::"] },
    Suite { package: "millpond-workloads", only: &[], skip: &[] },
    Suite { package: "millpond-linux", only: &[], skip: &[] },
    Suite { package: "millpond-session", only: &[], skip: &[] },
];

/// Where threads meet.
const THREAD: [Suite; 2] = [
    Suite { package: "millpond-workloads", only: &[], skip: &[] },
    // What stops after each instruction stops inside of the sanitizer, too, before it knows the thread: it ends the process there. `millpond-unwind` is
    // not here: what reads the own stack meets that of the sanitizer.
    Suite { package: "millpond-rt", only: &["umem::", "slots", "locks"], skip: &["word::tests::steps"] },
];

/// Random cases are for finding values; one of these runs is for finding accesses.
const CASES: &str = "16";

pub(super) fn lacks_address() -> Option<String> {
    let has = Toolchain::usual().is_some_and(|toolchain| toolchain.has_sanitizer("asan"));
    (!has).then(|| "this compiler came without the runtime of the address sanitizer".to_owned())
}

/// Works with the stable compiler: the switch is unstable, the runtime is the one that it ships.
pub(super) fn address(_: &Built) -> Outcome {
    let Some(toolchain) = Toolchain::usual() else { return Outcome::skipped("there is no rustc".into()) };
    run_suites(&ADDRESS, |suite| {
        let mut command = cargo();
        with_flags(&mut command, &["-Zsanitizer=address"]);
        command.env("RUSTC_BOOTSTRAP", "1").env("PROPTEST_CASES", CASES);
        // Code that asks for its own stack needs the true address.
        command.env("ASAN_OPTIONS", "detect_stack_use_after_return=0");
        command.args(["test", "--target", &toolchain.host]).arg("--target-dir").arg(target_dir("address"));
        suite.arguments(&mut command);
        command
    })
}

pub(super) fn lacks_thread() -> Option<String> {
    let toolchain = Toolchain::nightly();
    let has = toolchain.is_some_and(|toolchain| toolchain.has_sanitizer("tsan") && toolchain.has_sources());
    let why =
        "there is no nightly toolchain with rust-src (rustup component add rust-src --toolchain nightly)";
    (!has).then(|| why.to_owned())
}

/// The standard library is built anew: what it does between threads would not be seen otherwise.
pub(super) fn thread(_: &Built) -> Outcome {
    let Some(toolchain) = Toolchain::nightly() else { return Outcome::skipped("there is no nightly".into()) };
    let fetched = tools::words(&mut limited(nightly("cargo").args(["fetch", "-Zbuild-std"])));
    if fetched.is_none() {
        return Outcome::skipped("thread: the crates of the standard library cannot be fetched".into());
    }
    run_suites(&THREAD, |suite| {
        let mut command = nightly("cargo");
        with_flags(&mut command, &["-Zsanitizer=thread"]);
        command.env("PROPTEST_CASES", CASES);
        command.args(["test", "-Zbuild-std", "--target", &toolchain.host]);
        command.arg("--target-dir").arg(target_dir("thread"));
        suite.arguments(&mut command);
        command
    })
}
