//! Fuzzing harness for parsers of untrusted input: mutates seed inputs.
//!
//! # Why
//!
//! Random characters rarely get past the first word of a parser. Nearly correct texts find errors.
//!
//! # How it works
//!
//! A test supplies a few correct texts, its *seeds*, and checks a property for any input. Three searches use them:
//!
//! ```text
//!   cargo test                  the seeds and 1,000 variants of them, the same in each run
//!   MILLPOND_FUZZ_SECONDS=20    variants, different in each run, until the time is over
//!   the same, --cfg fuzzing     libFuzzer, which keeps variants that reach new code and mutates them further
//! ```
//!
//! The first two only need a stable compiler. An input that violates the property is shortened and reported as a literal. Add it
//! to the seeds to prevent a regression.
//!
//! # What it deliberately does not do
//!
//! It keeps no corpus in the tree: important inputs should be visible among the seeds. libFuzzer's corpus is kept between
//! searches in the directory `MILLPOND_FUZZ_DIR`, which for `make test-all` is in `target/matrix`. It can be removed at any time;
//! the next search then begins with the seeds.

#[cfg(fuzzing)]
mod guided;
mod literal;
mod mutate;
mod search;

use std::env;
use std::time::Duration;

/// The environment variable with the seconds of a search. If it is not set, a search has a fixed number of inputs.
const SECONDS: &str = "MILLPOND_FUZZ_SECONDS";

/// Number of inputs of a search without a time limit.
const INPUTS: u64 = 1_000;

/// Calls `target` with the seeds and variants of them. Panics for an input that violates the property.
///
/// `name` identifies the search in reports, and is unique in the tree.
///
/// # Panics
/// When `target` panics, with the shortest input that was found.
pub fn check(name: &str, seeds: &[&[u8]], target: impl Fn(&[u8]) + 'static) {
    let seconds = env::var(SECONDS).ok().and_then(|text| text.parse().ok());
    #[cfg(fuzzing)]
    if let Some(seconds) = seconds {
        guided::run(name, seeds, target, seconds);
    }
    let limit = match seconds {
        Some(seconds) => search::Limit::Time(Duration::from_secs(seconds)),
        None => search::Limit::Inputs(INPUTS),
    };
    match search::run(seeds, &target, limit) {
        Ok(done) => report(name, &done),
        Err(broken) => {
            let length = broken.input.len();
            let literal = literal::of(&broken.input);
            panic!(
                "{name}: input {} breaks it; shortened to {length} bytes:\n    {literal}\nit says: {}\nhint: put it among the seeds of this test once it is mended",
                broken.number, broken.words
            );
        }
    }
}

/// The same for text parsers: invalid UTF-8 is replaced.
///
/// # Panics
/// As [`check`].
pub fn check_text(name: &str, seeds: &[&str], target: impl Fn(&str) + 'static) {
    let seeds: Vec<&[u8]> = seeds.iter().map(|seed| seed.as_bytes()).collect();
    check(name, &seeds, move |bytes| target(&String::from_utf8_lossy(bytes)));
}

#[expect(clippy::print_stdout, reason = "a test's words, shown by its harness on demand")]
fn report(name: &str, done: &search::Done) {
    println!("fuzz: {name}: {} inputs, {:.1} s, without guidance", done.inputs, done.time.as_secs_f64());
}
