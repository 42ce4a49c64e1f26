//! The compiler's sanitizers, for crates with `unsafe` code or threads.

use super::outcome::{Outcome, Suite, run_suites};
use super::tools::{self, Toolchain, limited, nightly, target_dir, with_flags};
use crate::cargo::{Built, cargo};

/// Suites for the address sanitizer: crates that manage memory manually.
const ADDRESS: [Suite; 5] = [
    // The sanitizer does not know memory that the library maps itself. It checks accesses to the library's own data and to that
    // of its callers.
    Suite { package: "millpond-rt", only: &[], skip: &[] },
    // These functions look up modules, and the sanitizer replaces them by its own.
    Suite { package: "millpond-unwind", only: &[], skip: &["modules::"] },
    Suite { package: "millpond-workloads", only: &[], skip: &[] },
    Suite { package: "millpond-linux", only: &[], skip: &[] },
    Suite { package: "millpond-session", only: &[], skip: &[] },
];

/// Suites for the thread sanitizer.
const THREAD: [Suite; 2] = [
    Suite { package: "millpond-workloads", only: &[], skip: &[] },
    // The test that stops after each instruction also stops inside the sanitizer, before it knows the thread, and then the
    // sanitizer ends the process. `millpond-unwind` is omitted, because reading its own stack would meet that of the sanitizer.
    Suite { package: "millpond-rt", only: &["umem::", "slots", "locks"], skip: &["word::tests::steps"] },
];

/// Random cases search for values; these runs search for invalid accesses, so a few are enough.
const CASES: &str = "16";

pub(super) fn lacks_address() -> Option<String> {
    let has = Toolchain::usual().is_some_and(|toolchain| toolchain.has_sanitizer("asan"));
    (!has).then(|| "this compiler came without the runtime of the address sanitizer".to_owned())
}

/// Works with the stable compiler: the flag is unstable, but the runtime is included.
pub(super) fn address(_: &Built) -> Outcome {
    let Some(toolchain) = Toolchain::usual() else { return Outcome::skipped("there is no rustc".into()) };
    run_suites(&ADDRESS, |suite| {
        let mut command = cargo();
        with_flags(&mut command, &["-Zsanitizer=address"]);
        command.env("RUSTC_BOOTSTRAP", "1").env("PROPTEST_CASES", CASES);
        // Code that reads its own stack needs real addresses.
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

/// Rebuilds the standard library, because otherwise its synchronisation would not be visible.
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
