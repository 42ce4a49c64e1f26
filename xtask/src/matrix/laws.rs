//! The laws of machines with many more random scripts than in the other groups.

use super::outcome::{Outcome, run_harness};
use crate::cargo::{Built, TestBinary};
use crate::run::{Told, as_test};
use std::thread;

/// The factor for the number of scripts.
const TIMES: u32 = 5;

/// The test module with the laws, and the prefix of its test names.
const MODULE: &str = "laws";
const TESTS: &str = "laws::";

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    // Each executable runs only a few tests at a time, so two at once keep all CPUs busy.
    thread::scope(|scope| {
        let binaries = outcome.executables(built, has_laws, MODULE);
        let running: Vec<_> = binaries
            .into_iter()
            .map(|binary| (binary, scope.spawn(move || run_more(binary, built))))
            .collect();
        for (binary, thread) in running {
            match thread.join() {
                Ok(told) => outcome.add(&binary.package, told),
                Err(_) => outcome.tally.failed += 1,
            }
        }
    });
    outcome
}

/// Whether an executable has that module. The integration tests of all crates have the same target name.
fn has_laws(test: &TestBinary) -> bool {
    test.target == "all" && test.dir.join("tests/all").join(MODULE).with_extension("rs").is_file()
}

fn run_more(binary: &TestBinary, built: &Built) -> Told {
    let mut command = as_test(binary, built);
    command.arg(TESTS).env("MILLPOND_LAWS", TIMES.to_string());
    run_harness(&binary.package, &command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_laws_of_two_machines_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let has = |dir: &str, target: &str| {
            let (dir, target) = (root.join(dir), target.to_owned());
            has_laws(&TestBinary { package: String::new(), target, dir, path: PathBuf::new() })
        };
        assert!(has("lib/linux", "all") && has("lib/sim", "all"));
        assert!(!has("lib/linux", "descriptors") && !has("lib/rules", "all"));
    }
}
