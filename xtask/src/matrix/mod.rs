//! The slow matrix of `cargo xtask test --all`: tests that take minutes, or need tools that not every machine has.
//!
//! | group | it checks that | requirements |
//! |---|---|---|
//! | laws | no script of changes breaks a law | nothing |
//! | undo | undo restores everything on ten thousand trees with foreign settings | nothing |
//! | fuzz | no input breaks a parser | nothing; with a C++ compiler the search is coverage-guided |
//! | loom | the barrier, and the exchange of stacks, are correct in every order of their threads | nothing |
//! | arm | the libraries for real-time programs compile for aarch64 | that compiler target |
//! | c | C programs use the memory of these libraries correctly | gcc, valgrind |
//! | miri | `unsafe` code has no undefined behaviour | a nightly toolchain with miri |
//! | address | there are no memory errors or leaks | the sanitizer's runtime, which comes with the compiler |
//! | thread | there are no data races | a nightly toolchain with rust-src |
//! | mutants | tests detect 90 % of small changes of the code, in five crates | cargo-mutants |
//! | kubernetes | pools in a cluster of one node, the controller with a thousand; by `--only kubernetes` | go, etcd, kubectl, openssl |
//! | soak | pools work for a simulated year on 1,024 CPUs, for a million random operations, and poold for an hour here | an hour |
//! | valgrind | as address, including the arguments of system calls | valgrind |
//!
//! Missing tools are reported before anything runs, and again in the table: a group that cannot run is skipped, never passed.

mod arm;
mod c;
mod fuzz;
mod kubernetes;
mod laws;
mod ledger;
mod loom;
mod miri;
mod mutants;
mod outcome;
mod sanitizers;
mod soak;
mod tools;
mod undo;
mod valgrind;

use crate::cargo::Built;
use crate::run::{begin, end};
use crate::table::Row;
use outcome::Outcome;
use std::time::Instant;

#[cfg(test)]
pub use tools::has_program;
pub use tools::{cpus, metadata, rt_metadata, target_directory};

/// A group of the matrix.
#[derive(Debug, Clone, Copy)]
pub struct Slow {
    /// Its name in the table.
    pub name: &'static str,
    /// Whether it runs the executables of the other groups.
    pub needs_tests: bool,
    /// Whether it only runs if it is named.
    pub is_asked_for: bool,
    /// The reason why it cannot run here: what is missing, and how to get it.
    lacks: fn() -> Option<String>,
    run: fn(&Built) -> Outcome,
}

/// All groups, the cheapest first.
pub const GROUPS: [Slow; 13] = [
    Slow { name: "loom", needs_tests: false, is_asked_for: false, lacks: || None, run: loom::run },
    Slow { name: "arm", needs_tests: false, is_asked_for: false, lacks: arm::lacks, run: arm::run },
    Slow { name: "c", needs_tests: true, is_asked_for: false, lacks: c::lacks, run: c::run },
    Slow { name: "laws", needs_tests: true, is_asked_for: false, lacks: || None, run: laws::run },
    Slow { name: "undo", needs_tests: true, is_asked_for: false, lacks: || None, run: undo::run },
    Slow { name: "fuzz", needs_tests: false, is_asked_for: false, lacks: || None, run: fuzz::run },
    Slow {
        name: "address",
        needs_tests: false,
        is_asked_for: false,
        lacks: sanitizers::lacks_address,
        run: sanitizers::address,
    },
    Slow {
        name: "thread",
        needs_tests: false,
        is_asked_for: false,
        lacks: sanitizers::lacks_thread,
        run: sanitizers::thread,
    },
    Slow {
        name: "valgrind",
        needs_tests: true,
        is_asked_for: false,
        lacks: valgrind::lacks,
        run: valgrind::run,
    },
    Slow { name: "soak", needs_tests: true, is_asked_for: false, lacks: || None, run: soak::run },
    Slow { name: "miri", needs_tests: false, is_asked_for: false, lacks: miri::lacks, run: miri::run },
    Slow {
        name: "mutants",
        needs_tests: false,
        is_asked_for: false,
        lacks: mutants::lacks,
        run: mutants::run,
    },
    Slow {
        name: "kubernetes",
        needs_tests: true,
        is_asked_for: true,
        lacks: kubernetes::lacks,
        run: kubernetes::run,
    },
];

/// Prints which groups cannot run on this machine.
pub fn announce(groups: &[&Slow]) {
    let lacking: Vec<_> = groups.iter().filter_map(|group| Some((group.name, (group.lacks)()?))).collect();
    for (name, why) in &lacking {
        println!("NOT ON THIS MACHINE: {name}: {why}");
    }
    if !lacking.is_empty() {
        println!();
    }
}

/// Runs a group and returns its row.
pub fn run(group: &Slow, built: &Built) -> Row {
    let start = Instant::now();
    begin(group.name, true);
    let outcome = match (group.lacks)() {
        Some(why) => Outcome::skipped(format!("{}: {why}", group.name)),
        None => (group.run)(built),
    };
    let row = Row { name: group.name, tally: outcome.tally, time: start.elapsed() };
    end(&row, true, &outcome.failures);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_a_skip_with_its_reason() {
        let lacks = || Some("there is no tool".to_owned());
        let group =
            Slow { name: "none", needs_tests: false, is_asked_for: false, lacks, run: |_| unreachable!() };
        let row = run(&group, &Built::default());
        assert_eq!((row.tally.passed, row.tally.failed, row.tally.skipped), (0, 0, 1));
        assert_eq!(row.tally.reasons, ["none: there is no tool"]);
    }
}
