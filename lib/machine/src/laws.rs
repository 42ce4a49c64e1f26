//! The laws that every machine obeys, as a test suite for any machine.
//!
//! # Why
//!
//! A simulated machine, a tree of files and a kernel must behave alike. Otherwise results on one say nothing about another. Examples cannot
//! show that: sets of CPUs break at the third change after a fork after a refusal. So random [`Command`]s are run against a [`Subject`],
//! and after each of them every law is checked. A run that breaks a law is reduced to a short one that still breaks it.
//!
//! # How
//!
//! ```text
//!  seed ─▶ [Command] ──resolve──▶ Operation ──facet, Writer──▶ done or refused
//!          (indices, taken        (numbers)                          │
//!           modulo what exists,        │                             ▼
//!           so that any part of        └─▶ grounds: may it,    Observed before and after, snapshots
//!           a script is a script)          must it be refused?       │
//!                                               └───────▶ laws ◀─────┘──▶ Report
//! ```
//!
//! A change is made whole, or with a [`Fault`]: the writer is killed at a named point of the journal, the machine refuses a step, or the
//! journal cannot be written. The expected result is always: all or nothing.
//!
//! Between changes time passes, if that costs nothing, and programs run: they start others and end by themselves.
//! Then the laws about their placement and run time are checked ([`Load`]).
//!
//! The expected result of a change is defined twice: by the facet that prepared it, and by a separate model in the laws
//! that moves CPUs and threads between sets. The machine is compared with both.
//!
//! # What callers must do
//!
//! Implement [`Subject`], declare its capabilities truthfully ([`Abilities`]), and call [`run`] if a machine is cheap
//! to create, or [`run_in_place`] if there is only one. Print the [`Report`]: for each [`Law`] it lists the number of
//! checks, or why it was not checked.
//!
//! # What it does not do
//!
//! It does not check performance. It does not check where threads really ran if the machine does not report that exactly:
//! then `allowed` is trusted. Concurrent writers and foreign writers have tests of their own elsewhere.

mod bench;
mod change;
mod command;
mod contest;
mod effects;
mod ending;
mod fault;
mod grounds;
mod law;
mod life;
mod locality;
mod observed;
mod operation;
mod report;
mod resolve;
mod script;
mod situation;
mod subject;

pub use bench::{Broken, Tally};
pub use command::{Command, Edit, Fault, Holder, Load, Memory, Pick, scripts};
pub use fault::Faulty;
pub use law::Law;
pub use report::{Failure, Report};
pub use script::{Violation, run_script};
pub use subject::{Abilities, Subject, Times};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::RefCell;

/// The maximum number of commands in a script.
const SCRIPT_LENGTH_MAX: usize = 40;

/// The number of shorter scripts to try after a violation, if machines are cheap.
const SHRINKS_MAX: u32 = 4096;

/// The same for the only machine, where a script may take a second.
const SHRINKS_IN_PLACE_MAX: u32 = 256;

/// The number of cases for a run that usually has `usual` cases: multiplied by `MILLPOND_LAWS` of the environment.
#[must_use]
pub fn cases(usual: u32) -> u32 {
    let times = std::env::var("MILLPOND_LAWS").ok().and_then(|text| text.parse().ok());
    usual.saturating_mul(times.unwrap_or(1))
}

/// Runs `cases` random scripts, each on a new machine. The same seed gives the same scripts.
pub fn run<S: Subject>(make: impl Fn() -> S, cases: u32, seed: u64) -> Report {
    let abilities = make().abilities();
    let plan = Plan { cases, seed, shrinks_max: SHRINKS_MAX };
    explore(&plan, &abilities, |script| run_script(&mut make(), script))
}

/// Runs `cases` random scripts one after the other on one machine; each of them restores its state.
pub fn run_in_place<S: Subject>(subject: &mut S, cases: u32, seed: u64) -> Report {
    let abilities = subject.abilities();
    let subject = RefCell::new(subject);
    let plan = Plan { cases, seed, shrinks_max: SHRINKS_IN_PLACE_MAX };
    explore(&plan, &abilities, |script| run_script(&mut **subject.borrow_mut(), script))
}

struct Plan {
    cases: u32,
    seed: u64,
    shrinks_max: u32,
}

fn explore(
    plan: &Plan,
    abilities: &Abilities,
    run_one: impl Fn(&[Command]) -> Result<Tally, Box<Violation>>,
) -> Report {
    let Plan { cases, seed, shrinks_max } = *plan;
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: shrinks_max, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tally = RefCell::new(Tally::default());
    let first: RefCell<Option<(Vec<Command>, Violation)>> = RefCell::new(None);
    let broken = || Err(TestCaseError::fail("a law was broken"));
    let result = runner.run(&scripts(SCRIPT_LENGTH_MAX, abilities), |script| {
        let sought = first.borrow().as_ref().map(|(_, violation)| violation.law());
        match (run_one(&script), sought) {
            (Ok(done), None) => tally.borrow_mut().add(done),
            (Err(violation), None) => {
                *first.borrow_mut() = Some((script, *violation));
                return broken();
            }
            // After the first violation, only a shorter script that breaks the same law counts.
            (Err(violation), Some(law)) if violation.law() == law => return broken(),
            _ => {}
        }
        Ok(())
    });
    let failure = match (result, first.into_inner()) {
        (Err(TestError::Fail(_, script)), Some((long, was))) => Some(match run_one(&script) {
            Err(violation) => Failure::of(script, *violation),
            // A failure that is not reproducible is reported as it first occurred.
            Ok(_) => Failure::once(long, was),
        }),
        (Err(error), _) => Some(Failure::aborted(error.to_string())),
        (Ok(()), _) => None,
    };
    Report::new(seed, tally.into_inner(), abilities, failure)
}
