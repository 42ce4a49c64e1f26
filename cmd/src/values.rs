//! Values of options, with common rules for all commands.

use crate::failure::Failure;
use millpond_cli::{Parsed, units};
use millpond_model::{CpuSet, Nanos};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Parses a whole number: digits alone.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Parses a number from 1 on: digits alone.
pub fn count<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Option<T> {
    digits(text).filter(|count| *count >= T::from(1))
}

/// The value of a long option that is a number from `least` to `most`.
///
/// # Errors
/// [`Failure::Operand`] for any other value.
pub fn number(options: &Parsed, name: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
    let Some(text) = options.long_value(name) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.map(Some).ok_or_else(|| {
        Failure::Operand(format!("cannot use --{name} {text}: it is not within {least} and {most}"))
    })
}

/// The words of lists that are separated by commas and blanks.
pub fn words(lists: &[String]) -> impl Iterator<Item = String> + '_ {
    let words = lists.iter().flat_map(|list| list.split([',', ' ', '\t']));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The numbers in lists, which may contain ranges such as `0-3` and `0-31:1/2`.
///
/// # Errors
/// [`Failure::Operand`] with the first word that is neither a number nor a range.
pub fn ranges(lists: &[String], option: &str) -> Result<BTreeSet<u32>, Failure> {
    let mut numbers = BTreeSet::new();
    for word in words(lists) {
        let found: CpuSet = word.parse().map_err(|_| {
            Failure::Operand(format!("{option}: `{word}` is no number, and no range such as 0-3"))
        })?;
        numbers.extend(found.iter().map(|number| number.0));
    }
    Ok(numbers)
}

/// The value of a long option, parsed as `T`.
///
/// # Errors
/// [`Failure::Operand`] with the message of `T`.
pub fn value<T>(options: &Parsed, name: &str) -> Result<Option<T>, Failure>
where
    T: FromStr,
    T::Err: Display,
{
    let Some(text) = options.long_value(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: T::Err| {
        let error = error.to_string();
        match in_words(&error) {
            whole if whole.starts_with("cannot ") => Failure::Operand(whole.to_owned()),
            why => Failure::Operand(format!("cannot use --{name} {text}: {why}")),
        }
    })
}

/// The standard library's error message about a number, in the style of Millpond.
fn in_words(error: &str) -> &str {
    match error {
        "invalid digit found in string" => "it is no whole number",
        "cannot parse integer from empty string" => "it is empty",
        "number would be zero for non-zero type" => "it is not above 0",
        "number too large to fit in target type" => "it is too large",
        "invalid float literal" | "cannot parse float from empty string" => "it is no number",
        other => other,
    }
}

/// The unit of a time without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bare {
    Seconds,
    Microseconds,
}

impl Bare {
    fn nanos_and_name(self) -> (u64, &'static str) {
        match self {
            Bare::Seconds => (1_000_000_000, "seconds"),
            Bare::Microseconds => (1_000, "microseconds"),
        }
    }
}

/// Parses `text`, the value of a long option, as a time above 0.
///
/// # Errors
/// [`Failure::Operand`] for any other text.
pub fn time(name: &str, text: &str, bare: Bare) -> Result<Nanos, Failure> {
    let (nanos, unit) = bare.nanos_and_name();
    units::time(text, nanos).filter(|time| *time > Nanos(0)).ok_or_else(|| {
        let units = units::NAMES;
        Failure::Operand(format!(
            "cannot use --{name} {text}: it is no time above 0 ({unit}, or a number with {units})"
        ))
    })
}

/// The value of a long option, parsed as a time above 0.
///
/// # Errors
/// [`Failure::Operand`] for any other text.
pub fn time_of(options: &Parsed, name: &str, bare: Bare) -> Result<Option<Nanos>, Failure> {
    options.long_value(name).map(|text| time(name, &text, bare)).transpose()
}

/// The same with seconds as default unit.
///
/// # Errors
/// [`Failure::Operand`] for any other text.
pub fn seconds(options: &Parsed, name: &str) -> Result<Option<Duration>, Failure> {
    Ok(time_of(options, name, Bare::Seconds)?.map(|time| Duration::from_nanos(time.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::OsString;
    use std::num::NonZeroU32;

    fn options(words: &str) -> Parsed {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        millpond_cli::parse(&crate::load::SPIN, &words).unwrap()
    }

    fn refused<T>(result: Result<T, Failure>) -> String {
        match result {
            Err(Failure::Operand(why)) => why,
            _ => panic!("it was taken"),
        }
    }

    #[test]
    fn values_are_read_or_refused_in_words() {
        assert_eq!(value::<NonZeroU32>(&options("--threads 4"), "threads").unwrap(), NonZeroU32::new(4));
        assert_eq!(value::<NonZeroU32>(&options(""), "threads").unwrap(), None);
        let said = refused(value::<NonZeroU32>(&options("--threads many"), "threads"));
        assert_eq!(said, "cannot use --threads many: it is no whole number");
    }

    #[test]
    fn a_time_is_more_than_none() {
        let time = seconds(&options("--seconds 0.5"), "seconds").unwrap();
        assert_eq!(time, Some(Duration::from_millis(500)));
        let time = seconds(&options("--seconds 2m"), "seconds").unwrap();
        assert_eq!(time, Some(Duration::from_secs(120)));
        for bad in ["0", "-1", "1e300", "NaN", "inf", "2x"] {
            let said = refused(seconds(&options(&format!("--seconds={bad}")), "seconds"));
            let wanted =
                format!("cannot use --seconds {bad}: it is no time above 0 (seconds, or a number with ");
            assert!(said.starts_with(&wanted), "{said}");
        }
    }
}
