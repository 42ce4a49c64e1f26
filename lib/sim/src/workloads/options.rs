//! The definition of a workload, and its options: numbers with units, and words.

use crate::kernel::{Kernel, Program};
use millpond_cli::{ValueKind, units};
use millpond_model::WorkloadError;
use millpond_workloads::options::{self as spelled, Placed};

/// A workload that can be started.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name, which is also its process's name.
    pub name: &'static str,
    /// Description, in one line.
    pub summary: &'static str,
    /// Its options. One without a flag is an operand.
    pub options: &'static [Opt],
    /// Numbers of the model that are not options. None of them was published or measured.
    pub constants: &'static [Constant],
    /// Makes the programs of its threads.
    pub programs: fn(&Values, &mut Kernel) -> Vec<Program>,
}

/// A number of the model, or a group of numbers, that is neither an option nor a field of a machine file.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Description, with its unit.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [u64],
}

/// An option that takes a number, or one of some words.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Its flag (`-t`, `--run`); empty for an operand. Other spellings that the real program has (`--threads`) are accepted too.
    pub flag: &'static str,
    /// Placeholder of its value in help.
    pub value: &'static str,
    /// Description, with unit and default.
    pub summary: &'static str,
    /// How its value is parsed.
    pub unit: Unit,
    /// Default in parsed form: nanoseconds for times, the index for words.
    pub default: u64,
}

/// Number of threads, where it is free.
pub(super) const THREADS: Opt = Opt {
    flag: "-t",
    value: "N",
    summary: "threads; 1 if not given",
    unit: Unit::Count(1, 4096),
    default: 1,
};

/// The same for programs that have one thread per CPU by default.
pub(super) const THREAD_PER_CPU: Opt =
    Opt { summary: "threads; one for each CPU that it may use if not given", default: 0, ..THREADS };

/// The unit of a value, with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count(u64, u64),
    /// A time, in milliseconds by default; so are the bounds. Parsed to nanoseconds.
    Millis(u64, u64),
    /// A number with up to three decimals. Parsed to thousandths; so are the bounds.
    Milli(u64, u64),
    /// One of these words. Parsed to its index.
    Word(&'static [&'static str]),
    /// A time, in seconds by default; at most a day. Parsed to nanoseconds.
    Seconds,
    /// A flag without a value. Parsed to 1 if given.
    Given,
    /// Any text. Parsed to 1 if given.
    Any,
    /// An option that cannot be simulated, with the reason.
    Never(&'static str),
}

/// Nanoseconds per millisecond.
pub(super) const MILLI: u64 = 1_000_000;

impl Opt {
    /// Its synopsis: `-t N`.
    #[must_use]
    pub fn form(&self) -> String {
        format!("{} {}", self.flag, self.value).trim_start().to_owned()
    }

    /// Its range as text: `a number from 1 to 4096`.
    fn range(&self) -> String {
        match self.unit {
            Unit::Count(least, most) => format!("{} is a number from {least} to {most}", self.form()),
            Unit::Millis(least, most) => {
                let least = if least == 0 { "0.001".to_owned() } else { least.to_string() };
                format!("{} is a number of milliseconds from {least} to {most}", self.form())
            }
            Unit::Milli(least, most) => {
                let (least, most) = (from_thousandths(least), from_thousandths(most));
                let form = self.form();
                format!("{form} is a number from {least} to {most} with up to three digits after the point")
            }
            Unit::Word(words) => format!("{} is one of {}", self.form(), words.join(", ")),
            Unit::Seconds => format!("{} is a number of seconds, up to a day", self.form()),
            Unit::Given => format!("{} takes no value", self.form()),
            Unit::Any => format!("{} is any text", self.form()),
            Unit::Never(remedy) => remedy.to_owned(),
        }
    }

    /// Whether it has a value.
    pub(super) fn takes_value(&self) -> bool {
        !matches!(self.unit, Unit::Given | Unit::Never(_))
    }

    fn read(&self, text: &str) -> Option<u64> {
        match self.unit {
            Unit::Count(least, most) => ValueKind::Count(least, most).read(text).ok()?.pop(),
            Unit::Millis(least, most) => {
                let least = (least * MILLI).max(1_000);
                let time = units::time(text, MILLI)?.0;
                (least..=most * MILLI).contains(&time).then_some(time)
            }
            Unit::Milli(least, most) => thousandths(text).filter(|number| (least..=most).contains(number)),
            Unit::Word(words) => words.iter().zip(0u64..).find(|(word, _)| **word == text).map(|(_, i)| i),
            Unit::Seconds => seconds(text),
            Unit::Any => Some(1),
            Unit::Given | Unit::Never(_) => None,
        }
    }
}

/// The longest run time of a load, in seconds: a day.
const SECONDS_MAX: u64 = 86_400;

/// Parses a time, in seconds by default, to nanoseconds: more than 0, at most a day.
pub(super) fn seconds(text: &str) -> Option<u64> {
    units::seconds(text).map(|time| time.0).filter(|nanos| *nanos <= SECONDS_MAX * 1_000 * MILLI)
}

/// Parses a number with up to three decimals to thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let is_bare = text.ends_with(|last: char| last.is_ascii_digit());
    // Parsed as microseconds, a number is its thousandths in nanoseconds.
    units::time(text, 1_000).map(|number| number.0).filter(|_| is_bare && fraction <= 3)
}

/// Thousandths as a decimal number: `2500` is `2.5`.
fn from_thousandths(number: u64) -> String {
    let (whole, fraction) = (number / 1_000, number % 1_000);
    let text = format!("{whole}.{fraction:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The values of a workload's options, in the order of the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    flags: Vec<&'static str>,
    values: Vec<u64>,
}

impl Values {
    /// Parses the words after a workload's name, with their places. Options of the real program that the workload does not model
    /// have no effect, and are noted.
    ///
    /// # Errors
    /// [`WorkloadError`] for the first invalid word.
    pub(super) fn parse(
        workload: &'static Workload,
        program: Option<&'static spelled::Program>,
        words: &[Placed],
        notes: &mut Vec<String>,
    ) -> Result<Values, WorkloadError> {
        let options = workload.options;
        let flags = options.iter().map(|option| option.flag).collect();
        let mut values: Vec<u64> = options.iter().map(|option| option.default).collect();
        let mut operands = options.iter().enumerate().filter(|(_, option)| option.flag.is_empty());
        let error = |word, what, remedy| Err(WorkloadError { word, what, remedy });
        let usage = || format!("usage: {}", workload.usage());
        let mut words = words.iter();
        while let Some((word, at)) = words.next() {
            let at = *at;
            let (flag, behind) = match word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
                Some((flag, value)) => (flag, Some(value)),
                None => (word.as_str(), None),
            };
            let known = program.and_then(|program| program.option(flag.strip_prefix("--")?));
            let is = |o: &Opt| o.flag == flag || known.is_some_and(|known| known.has_flag(o.flag));
            let named = options.iter().enumerate().find(|(_, o)| !o.flag.is_empty() && is(o));
            let (index, option, value, at) = match named {
                Some((_, Opt { unit: Unit::Never(remedy), flag, .. })) => {
                    let what = format!("{flag} of {} cannot be simulated", workload.name);
                    return error(at, what, (*remedy).to_owned());
                }
                Some((index, option)) => match behind {
                    Some(_) if !option.takes_value() => {
                        return error(at, format!("{} takes no value", option.flag), usage());
                    }
                    None if !option.takes_value() => {
                        values[index] = 1;
                        continue;
                    }
                    Some(value) => (index, option, value, at),
                    None => match words.next() {
                        Some((value, at)) => (index, option, value.as_str(), *at),
                        None => {
                            return error(at + 1, format!("{} needs a value", option.flag), option.range());
                        }
                    },
                },
                None if known.is_some() => {
                    if known.is_some_and(|known| known.takes_value)
                        && behind.is_none()
                        && words.next().is_none()
                    {
                        return error(at + 1, format!("{flag} needs a value"), usage());
                    }
                    notes.push(format!("{} {flag} has no effect: it is not simulated", workload.name));
                    continue;
                }
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

    /// The value of an option; 0 for an unknown option.
    #[must_use]
    pub fn get(&self, flag: &str) -> u64 {
        let at = self.flags.iter().position(|f| *f == flag);
        at.and_then(|at| self.values.get(at)).copied().unwrap_or(0)
    }

    /// The same, with `value` in place of 0.
    pub(super) fn or(mut self, flag: &str, value: u64) -> Values {
        let own = self.flags.iter().position(|f| *f == flag).and_then(|at| self.values.get_mut(at));
        own.into_iter().filter(|own| **own == 0).for_each(|own| *own = value);
        self
    }

    /// A value as a count.
    #[must_use]
    pub fn count(&self, flag: &str) -> usize {
        usize::try_from(self.get(flag)).unwrap_or(usize::MAX)
    }
}

impl Opt {
    /// The source of its default.
    #[must_use]
    pub fn source(&self) -> Source {
        if self.summary.contains("(fitted") {
            Source::Fitted
        } else if self.summary.contains("(assumed") {
            Source::Assumed
        } else {
            Source::Free
        }
    }
}

/// The source of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It was fitted to a published figure.
    Fitted,
    /// Plausible: neither published nor fitted.
    Assumed,
    /// A condition of the experiment, or derived from published figures.
    Free,
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORKLOAD: Workload = Workload {
        name: "wl",
        summary: "",
        constants: &[],
        options: &[
            Opt { flag: "--cpi", value: "N", summary: "", unit: Unit::Milli(500, 100_000), default: 1_000 },
            Opt { flag: "--run", value: "MS", summary: "", unit: Unit::Millis(0, 1_000), default: 7 },
            Opt {
                flag: "--wait",
                value: "WORD",
                summary: "",
                unit: Unit::Word(&["spin", "block"]),
                default: 1,
            },
        ],
        programs: |_, _| Vec::new(),
    };

    fn parse(text: &str) -> Result<Values, WorkloadError> {
        let words: Vec<Placed> = text.split_whitespace().map(str::to_owned).zip(1..).collect();
        Values::parse(&WORKLOAD, None, &words, &mut Vec::new())
    }

    fn refused(text: &str) -> (usize, String, String) {
        let error = parse(text).unwrap_err();
        (error.word, error.what, error.remedy)
    }

    #[test]
    fn a_number_with_a_fraction_is_read_as_thousandths() {
        for (text, value) in [
            ("", 1_000),
            ("--cpi 2.5", 2_500),
            ("--cpi=0.5", 500),
            ("--cpi 1.125", 1_125),
            ("--cpi 3", 3_000),
            ("--cpi 007.10", 7_100),
            ("--cpi 100", 100_000),
            ("--cpi 100.000", 100_000),
        ] {
            assert_eq!(parse(text).unwrap().get("--cpi"), value, "{text}");
        }
        let most = u64::MAX;
        for bad in [
            "2us",
            "2s",
            "0.499",
            "100.001",
            "2.5000",
            "2.",
            ".5",
            "+2",
            "-2",
            "2e1",
            "1.2.3",
            "x",
            &most.to_string(),
        ] {
            assert_eq!(refused(&format!("--cpi {bad}")).0, 2, "{bad}");
        }
    }

    #[test]
    fn a_time_may_have_a_unit() {
        for (text, nanos) in
            [("", 7), ("--run 5", 5_000_000), ("--run 5ms", 5_000_000), ("--run 0.5s", 500_000_000)]
        {
            assert_eq!(parse(text).unwrap().get("--run"), nanos, "{text}");
        }
        for bad in ["2s", "999ns", "5x", "ms"] {
            assert_eq!(refused(&format!("--run {bad}")).0, 2, "{bad}");
        }
        assert_eq!(seconds("1m"), Some(60_000_000_000));
        assert_eq!(seconds("1.5d"), None);
    }

    #[test]
    fn a_word_is_read_as_its_index() {
        assert_eq!(parse("").unwrap().get("--wait"), 1);
        assert_eq!(parse("--wait spin").unwrap().get("--wait"), 0);
        assert_eq!(parse("--wait=block").unwrap().get("--wait"), 1);
        for bad in ["Spin", "spi", "0", "spinning"] {
            assert_eq!(refused(&format!("--wait {bad}")).0, 2, "{bad}");
        }
    }

    #[test]
    fn what_is_refused_is_told_what_it_may_be() {
        let named = |word, what: &str, remedy: &str| (word, what.to_owned(), remedy.to_owned());
        let number = "--cpi N is a number from 0.5 to 100 with up to three digits after the point";
        assert_eq!(refused("--cpi 0"), named(2, "`0` is no N of wl", number));
        let word = "--wait WORD is one of spin, block";
        assert_eq!(refused("--cpi 1 --wait nap"), named(4, "`nap` is no WORD of wl", word));
        assert_eq!(refused("--wait"), named(2, "--wait needs a value", word));
        let usage = "usage: wl [--cpi N] [--run MS] [--wait WORD]";
        assert_eq!(refused("spin"), named(1, "wl does not take `spin`", usage));
    }
}
