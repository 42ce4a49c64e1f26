//! Long runs of pools: a simulated year of thirty pools on 1,024 CPUs, a million random operations on pools, and an hour of poold
//! on this machine.

use super::outcome::{Outcome, run_limited};
use super::tools::limited_soak;
use crate::cargo::{Built, TestBinary};
use crate::run::as_test;

/// A long test.
struct Soak {
    /// Its crate's directory.
    dir: &'static str,
    /// The executable.
    target: &'static str,
    test: &'static str,
    /// The environment variable with the amount, and its value here.
    amount: (&'static str, &'static str),
}

const SOAKS: [Soak; 3] = [
    Soak {
        dir: "tests/pools",
        target: "all",
        test: "random::whatever_is_done_to_pools",
        amount: ("MILLPOND_POOL_OPERATIONS", "1000000"),
    },
    Soak {
        dir: "tests/pools",
        target: "all",
        test: "year::pools_of_a_large_machine",
        amount: ("MILLPOND_POOL_DAYS", "365"),
    },
    Soak {
        dir: "bin/millpond",
        target: "machine",
        test: "poold_soak::poold_does_not_grow",
        amount: ("MILLPOND_POOLD_SECONDS", "3600"),
    },
];

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for Soak { dir, target, test, amount: (variable, amount) } in SOAKS {
            let is_wanted = |binary: &TestBinary| binary.dir.ends_with(dir) && binary.target == target;
            for binary in outcome.executables(built, is_wanted, target) {
                let mut command = as_test(binary, built);
                command.arg(test).arg("--nocapture").env(variable, amount);
                threads.push((test, scope.spawn(move || run_limited(test, limited_soak(&command)))));
            }
        }
        for (test, thread) in threads {
            match thread.join() {
                Ok(told) => {
                    figures(&told.output).for_each(|figure| println!("    {figure}"));
                    outcome.add(test, told);
                }
                Err(_) => outcome.tally.failed += 1,
            }
        }
    });
    outcome
}

/// The figures in the output of a test. The harness may have started the line with the name of the test.
fn figures(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| Some(line.split_once("figure: ")?.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_soak_is_a_test_that_hears_of_its_variable() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for Soak { dir, target, test, amount: (variable, _) } in SOAKS {
            let tests = root.join(dir).join("tests");
            let (file, function) = match test.split_once("::") {
                Some((module, function)) => (tests.join(target).join(format!("{module}.rs")), function),
                None => (tests.join(format!("{target}.rs")), test),
            };
            let text = fs::read_to_string(&file).unwrap();
            assert!(
                text.contains(&format!("fn {function}")) && text.contains(variable),
                "{}: {test}",
                file.display()
            );
        }
    }

    #[test]
    fn figures_are_found_behind_the_name_of_a_test() {
        let output = "running 1 test\ntest a ... figure: 5 s on 2 CPUs\nfigure: descriptors: 18\nok\n";
        assert_eq!(figures(output).collect::<Vec<_>>(), ["5 s on 2 CPUs", "descriptors: 18"]);
    }
}
