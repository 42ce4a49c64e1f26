//! The options of workloads: numbers with units.

use super::{Workload, WorkloadError};

/// An option that takes a number.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// How it is written (`-t`, `--run`); empty for an operand.
    pub flag: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// What it is, with its unit and what holds without it.
    pub summary: &'static str,
    /// How its value is read.
    pub unit: Unit,
    /// Its value where it is not given; in nanoseconds for times.
    pub default: u64,
}

/// How many threads a workload has, where that is free.
pub(super) const THREADS: Opt = Opt {
    flag: "-t",
    value: "N",
    summary: "threads; 1 if not given",
    unit: Unit::Count(1, 4096),
    default: 1,
};

/// What a value counts, with the least and the most that it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count(u64, u64),
    /// Milliseconds, with a fraction if need be; the bounds too. Read as nanoseconds.
    Millis(u64, u64),
}

/// Nanoseconds of a millisecond.
pub(super) const MILLI: u64 = 1_000_000;

/// Digits of a millisecond's fraction that are not lost.
const FRACTION_DIGITS: usize = 6;

impl Opt {
    /// How it is written, with its value: `-t N`.
    #[must_use]
    pub fn form(&self) -> String {
        format!("{} {}", self.flag, self.value).trim_start().to_owned()
    }

    /// What it may be: `a number from 1 to 4096`.
    fn range(&self) -> String {
        match self.unit {
            Unit::Count(least, most) => format!("{} is a number from {least} to {most}", self.form()),
            Unit::Millis(least, most) => {
                let least = if least == 0 { "0.001".to_owned() } else { least.to_string() };
                format!("{} is a number of milliseconds from {least} to {most}", self.form())
            }
        }
    }

    fn read(&self, text: &str) -> Option<u64> {
        match self.unit {
            Unit::Count(least, most) => digits(text).filter(|n| (least..=most).contains(n)),
            Unit::Millis(least, most) => {
                let nanos = millis(text)?;
                let least = (least * MILLI).max(1_000);
                (least..=most * MILLI).contains(&nanos).then_some(nanos)
            }
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `2`, `0.25`: as nanoseconds. A fraction of a nanosecond is none.
fn millis(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.len() > FRACTION_DIGITS {
        return None;
    }
    let fraction = digits(&format!("{fraction:0<FRACTION_DIGITS$}")).filter(|_| !fraction.is_empty())?;
    digits(whole).filter(|_| !whole.is_empty())?.checked_mul(MILLI)?.checked_add(fraction)
}

/// The values of a workload's options, in the order of the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    flags: Vec<&'static str>,
    values: Vec<u64>,
}

impl Values {
    /// Understands the words behind a workload's name.
    ///
    /// # Errors
    /// [`WorkloadError`] for the first word that makes no sense; words count from the name.
    pub(super) fn parse(workload: &'static Workload, words: &[String]) -> Result<Values, WorkloadError> {
        let options = workload.options;
        let flags = options.iter().map(|option| option.flag).collect();
        let mut values: Vec<u64> = options.iter().map(|option| option.default).collect();
        let mut operands = options.iter().enumerate().filter(|(_, option)| option.flag.is_empty());
        let error = |word, what, remedy| Err(WorkloadError { word, what, remedy });
        let usage = || format!("usage: {}", workload.usage());
        let mut words = words.iter().zip(1usize..);
        while let Some((word, at)) = words.next() {
            let (flag, behind) = match word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
                Some((flag, value)) => (flag, Some(value)),
                None => (word.as_str(), None),
            };
            let named = options.iter().enumerate().find(|(_, o)| !o.flag.is_empty() && o.flag == flag);
            let (index, option, value, at) = match named {
                Some((index, option)) => match behind {
                    Some(value) => (index, option, value, at),
                    None => match words.next() {
                        Some((value, at)) => (index, option, value.as_str(), at),
                        None => return error(at + 1, format!("{flag} needs a value"), option.range()),
                    },
                },
                None if word.starts_with('-') => {
                    return error(at, format!("{} has no option {flag}", workload.name), usage());
                }
                None => match operands.next() {
                    Some((index, option)) => (index, option, word.as_str(), at),
                    None => {
                        return error(at, format!("{} does not take `{word}`", workload.name), usage());
                    }
                },
            };
            let Some(number) = option.read(value) else {
                return error(
                    at,
                    format!("`{value}` is no {} of {}", option.value, workload.name),
                    option.range(),
                );
            };
            values[index] = number;
        }
        Ok(Values { flags, values })
    }

    /// The value of an option; 0 for one that the workload does not have.
    #[must_use]
    pub fn get(&self, flag: &str) -> u64 {
        let at = self.flags.iter().position(|f| *f == flag);
        at.and_then(|at| self.values.get(at)).copied().unwrap_or(0)
    }

    /// A value that is a number of things.
    #[must_use]
    pub fn count(&self, flag: &str) -> usize {
        usize::try_from(self.get(flag)).unwrap_or(usize::MAX)
    }
}
