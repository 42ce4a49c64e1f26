//! The laws of machines again, with many more random scripts than the other groups have time for.

use super::outcome::{Outcome, run_harness};
use crate::cargo::{Built, TestBinary};
use crate::run::{Told, as_test};
use std::thread;

/// How many times more scripts.
const TIMES: u32 = 5;

/// The module of an executable that holds a machine to its laws, and what the names of its tests begin with.
const MODULE: &str = "laws";
const TESTS: &str = "laws::";

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    // Each of them is busy with a few tests at a time: two at once leave no CPU idle at the end.
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

/// Whether it has that module. Every crate's integration tests are called the same.
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
