//! The law of undo on ten thousand trees with foreign settings.

use super::outcome::{Outcome, run_limited};
use super::tools::limited_soak;
use crate::cargo::{Built, TestBinary};
use crate::run::as_test;

const DIR: &str = "lib/linux";
const TEST: &str = "undo::everything_returns_whatever_other_programs_made";
/// The environment variable with the number of trees, and its value here.
const AMOUNT: (&str, &str) = ("MILLPOND_ENVIRONMENTS", "10000");

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    let is_wanted = |binary: &TestBinary| binary.dir.ends_with(DIR) && binary.target == "all";
    for binary in outcome.executables(built, is_wanted, TEST) {
        let mut command = as_test(binary, built);
        command.args(["--exact", TEST]).env(AMOUNT.0, AMOUNT.1);
        outcome.add(TEST, run_limited("environments", limited_soak(&command)));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_law_is_a_test_that_reads_its_variable() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(DIR).join("tests/all");
        let (module, function) = TEST.split_once("::").unwrap();
        let text = fs::read_to_string(tests.join(module).join("mod.rs")).unwrap();
        assert!(text.contains(&format!("fn {function}()")) && text.contains(AMOUNT.0));
    }
}
