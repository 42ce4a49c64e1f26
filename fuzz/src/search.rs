//! The search without libFuzzer: mutates seeds with a stable compiler.

use crate::mutate::{Dice, variant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The seed of reproducible searches.
const FIXED: u64 = 2026;

/// Maximal number of attempts to shorten an input.
const SHORTEN_MAX: usize = 300;

/// The end of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// After this number of variants.
    Inputs(u64),
    /// After this time.
    Time(Duration),
}

/// The result of a search without a panic.
#[derive(Debug)]
pub(crate) struct Done {
    /// Number of inputs, including seeds.
    pub(crate) inputs: u64,
    /// Duration.
    pub(crate) time: Duration,
}

/// An input for which the target panicked.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The input, shortened.
    pub(crate) input: Vec<u8>,
    /// The number of the input in the search, from 1.
    pub(crate) number: u64,
    /// The panic message.
    pub(crate) words: String,
}

/// Calls `target` with the empty input, the seeds, and variants of them.
pub(crate) fn run(seeds: &[&[u8]], target: &impl Fn(&[u8]), limit: Limit) -> Result<Done, Broken> {
    let start = Instant::now();
    let mut dice = Dice::new(match limit {
        Limit::Inputs(_) => FIXED,
        Limit::Time(_) => clock_seed(),
    });
    let mut inputs = 0;
    let mut give = |input: &[u8]| {
        inputs += 1;
        words_of_panic(target, input).map_or(Ok(()), |_| Err(broken(target, input, inputs)))
    };
    give(b"")?;
    seeds.iter().try_for_each(|seed| give(seed))?;
    let mut left = match limit {
        Limit::Inputs(count) => count,
        Limit::Time(_) => u64::MAX,
    };
    while left > 0 && !matches!(limit, Limit::Time(time) if start.elapsed() >= time) {
        give(&variant(seeds, &mut dice))?;
        left -= 1;
    }
    Ok(Done { inputs, time: start.elapsed() })
}

fn clock_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(FIXED)
}

/// The message of the target's panic, if it panics.
fn words_of_panic(target: &impl Fn(&[u8]), input: &[u8]) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| target(input))).err()?;
    let words = panic.downcast_ref::<String>().cloned();
    Some(words.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
}

/// Removes pieces of the input as long as the target still panics.
fn broken(target: &impl Fn(&[u8]), input: &[u8], number: u64) -> Broken {
    let mut input = input.to_vec();
    let mut tries = SHORTEN_MAX;
    let mut size = input.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < input.len() && tries > 0 {
            let mut shorter = input.clone();
            shorter.drain(at..(at + size).min(input.len()));
            tries -= 1;
            if words_of_panic(target, &shorter).is_some() { input = shorter } else { at += size }
        }
        size /= 2;
    }
    let words = words_of_panic(target, &input).unwrap_or_default();
    Broken { input, number, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_that_trips_over_a_number_is_caught_and_the_input_made_short() {
        let trips = |input: &[u8]| {
            let text = String::from_utf8_lossy(input);
            let number = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
            assert!(number != Some(u64::from(u32::MAX)), "too large");
        };
        let broken = run(&[b"cpu 17 and more words\n"], &trips, Limit::Inputs(5_000)).unwrap_err();
        assert_eq!(broken.words, "too large");
        assert_eq!(broken.input, b" 4294967295");
        assert!(broken.number > 2);
    }

    #[test]
    fn a_search_gives_as_many_inputs_as_it_says() {
        let given = std::cell::Cell::new(0);
        let done = run(&[b"a", b"b"], &|_| given.set(given.get() + 1), Limit::Inputs(50)).unwrap();
        assert_eq!((done.inputs, given.get()), (53, 53));
        let done = run(&[b"a"], &|_| {}, Limit::Time(Duration::from_millis(5))).unwrap();
        assert!(done.inputs > 2 && done.time >= Duration::from_millis(5));
    }

    #[test]
    fn a_seed_that_breaks_the_promise_is_found_without_any_luck() {
        let broken =
            run(&[b"fine", b"bad"], &|input| assert!(input != b"bad"), Limit::Inputs(0)).unwrap_err();
        assert_eq!((broken.number, broken.input.as_slice()), (3, b"bad".as_slice()));
    }
}
