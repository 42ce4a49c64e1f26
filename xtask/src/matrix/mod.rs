//! The slow matrix of `cargo xtask test --all`: what takes minutes, or tools that not every machine has.
//!
//! | group | what it shows | what it needs |
//! |---|---|---|
//! | laws | no script of changes breaks a law | nothing |
//! | undo | everything returns on ten thousand trees that other programs made | nothing |
//! | fuzz | no input breaks a parser | nothing; with a C++ compiler the search is guided |
//! | loom | the barrier, and the exchange of stacks, are right in every order of their threads | nothing |
//! | arm | the libraries for real-time programs compile for aarch64 | that target of the compiler |
//! | c | programs in C use those libraries' memory rightly | gcc, valgrind |
//! | miri | code that is `unsafe` keeps the language's rules | a nightly toolchain with miri |
//! | address | no memory is used wrongly, or lost | the sanitizer's runtime, which comes with the compiler |
//! | thread | no two threads touch the same memory unordered | a nightly toolchain with rust-src |
//! | mutants | tests notice 90 % of small changes of the code, in five crates | cargo-mutants |
//! | kubernetes | pools in a cluster of one node, and a controller of a thousand; only by `--only kubernetes` | go, etcd, kubectl, openssl |
//! | soak | a simulated year of pools on 1,024 CPUs, a million random operations on pools, and an hour of poold here | nothing but an hour |
//! | valgrind | as address, with the system calls that we make ourselves | valgrind |
//!
//! What a machine lacks is said before anything runs, and again in the table: a group that cannot run is skipped, never passed.

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

/// One group of the matrix.
#[derive(Debug, Clone, Copy)]
pub struct Slow {
    /// Its name in the table.
    pub name: &'static str,
    /// Whether it runs the executables that the other groups run.
    pub needs_tests: bool,
    /// Whether it runs only where it is named.
    pub is_asked_for: bool,
    /// Why it cannot run here at all, if so: what is lacking, and how to get it.
    lacks: fn() -> Option<String>,
    run: fn(&Built) -> Outcome,
}

/// Every group, the cheapest first.
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

/// Says aloud what cannot be done on this machine.
pub fn announce(groups: &[&Slow]) {
    let lacking: Vec<_> = groups.iter().filter_map(|group| Some((group.name, (group.lacks)()?))).collect();
    for (name, why) in &lacking {
        println!("NOT ON THIS MACHINE: {name}: {why}");
    }
    if !lacking.is_empty() {
        println!();
    }
}

/// Runs a group to its row.
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
