//! An instrument of tests: it gives a parser of outside input many texts.
//!
//! # Why
//!
//! Texts of random characters hardly ever get past the first word of a parser. What finds its mistakes are texts that are almost right.
//!
//! # How it works
//!
//! A test names a few texts that are right, its *seeds*, and says what must hold for any. Three searches use them:
//!
//! ```text
//!   cargo test                  the seeds and 1,000 variants of them, the same ones every time
//!   MILLPOND_FUZZ_SECONDS=20    variants, other ones every time, until the time is over
//!   the same, --cfg fuzzing     libFuzzer, which keeps the variants that reach new code and goes on from there
//! ```
//!
//! The first two need nothing but a stable compiler. An input that breaks the promise is made short, and reported as a literal that
//! can be put among the seeds: there it stays, and shows for ever that the mistake is gone.
//!
//! # What it deliberately does not do
//!
//! It keeps no corpus in the tree. What is worth keeping is worth a line among the seeds, where a reader sees it. libFuzzer's corpus is kept
//! from one search to the next in the directory that `MILLPOND_FUZZ_DIR` names, which for `make test-all` is in `target/matrix`: it can be
//! removed at any time, and the next search begins with the seeds.

#[cfg(fuzzing)]
mod guided;
mod literal;
mod mutate;
mod search;

use std::env;
use std::time::Duration;

/// How many seconds a search may take; when it is not set, a search has a fixed number of inputs.
const SECONDS: &str = "MILLPOND_FUZZ_SECONDS";

/// Inputs of one search when no time is given.
const INPUTS: u64 = 1_000;

/// Gives `target` the seeds and variants of them. It panics for an input that breaks its promise.
///
/// `name` says in reports what was searched; every search of the tree has its own.
///
/// # Panics
/// When `target` does, with an input that is as short as could be found.
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

/// The same for parsers of text: inputs that are no UTF-8 are given with marks in place of what is none.
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
