//! The values of a load's options.

use crate::failure::Failure;
use millpond_cli::Parsed;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// The value of a long option, in whatever type reads it.
///
/// # Errors
/// [`Failure::Operand`] with the type's own words.
pub(super) fn value<T>(options: &Parsed, name: &str) -> Result<Option<T>, Failure>
where
    T: FromStr,
    T::Err: Display,
{
    let Some(text) = options.long_value(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: T::Err| {
        let error = error.to_string();
        if error.starts_with("cannot ") {
            return Failure::Operand(error);
        }
        Failure::Operand(format!("cannot use --{name} {text}: {error}"))
    })
}

/// A time in seconds, more than none.
///
/// # Errors
/// [`Failure::Operand`] for what is no such time.
pub(super) fn seconds(options: &Parsed, name: &str) -> Result<Option<Duration>, Failure> {
    let Some(seconds) = value::<f64>(options, name)? else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => Err(Failure::Operand(format!("cannot use --{name} {seconds}: it is no time to run for"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::OsString;
    use std::num::NonZeroU32;

    fn options(words: &str) -> Parsed {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        millpond_cli::parse(&super::super::spin::LOAD.spec, &words).unwrap()
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
        assert_eq!(said, "cannot use --threads many: invalid digit found in string");
    }

    #[test]
    fn a_time_is_more_than_none() {
        let time = seconds(&options("--seconds 0.5"), "seconds").unwrap();
        assert_eq!(time, Some(Duration::from_millis(500)));
        for bad in ["0", "-1", "1e300", "NaN", "inf"] {
            let said = refused(seconds(&options(&format!("--seconds={bad}")), "seconds"));
            assert!(said.ends_with("it is no time to run for"), "{said}");
        }
    }
}
