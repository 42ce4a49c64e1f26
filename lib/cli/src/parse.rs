//! Words to options and operands.

use crate::near::nearest;
use crate::spec::{Flag, Spec};
use lexopt::{Arg, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// An option that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Which one.
    pub flag: &'static Flag,
    /// Its value.
    pub value: Option<OsString>,
}

impl Given {
    fn text(&self) -> Option<String> {
        self.value.as_ref().map(|value| value.to_string_lossy().into_owned())
    }
}

/// What was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The command's own options in order.
    given: Vec<Given>,
    /// Everything from the first operand on.
    pub operands: Vec<OsString>,
    /// The options that every command takes.
    pub common: Common,
}

/// The options that every command takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Common {
    /// Which machine, by name.
    pub machine: Option<String>,
    /// The file that keeps a simulated machine.
    pub state: Option<PathBuf>,
    /// The directory of a captured machine.
    pub root: Option<PathBuf>,
    /// Answer in JSON.
    pub json: bool,
    /// Show what would be done, and do nothing.
    pub dry_run: bool,
    /// Show the help.
    pub help: bool,
    /// Show the version.
    pub version: bool,
}

/// Why words could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misuse {
    /// What is wrong.
    pub what: String,
    /// The option that was probably meant: `--keep-others`.
    pub meant: Option<String>,
}

impl Parsed {
    /// The letters in order, those of options with a letter.
    pub fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.given.iter().filter_map(|given| given.flag.letter)
    }

    /// Whether the letter was given.
    #[must_use]
    pub fn has(&self, letter: char) -> bool {
        self.letters().any(|given| given == letter)
    }

    /// The value of a letter that takes one; the last one counts.
    #[must_use]
    pub fn value(&self, letter: char) -> Option<String> {
        self.given.iter().rfind(|given| given.flag.letter == Some(letter))?.text()
    }

    /// All values of a letter that takes one, in order.
    #[must_use]
    pub fn values(&self, letter: char) -> Vec<String> {
        self.given.iter().filter(|given| given.flag.letter == Some(letter)).filter_map(Given::text).collect()
    }

    /// Whether the long option was given.
    #[must_use]
    pub fn long(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.flag.long == Some(name))
    }

    /// The value of a long option that takes one; the last one counts.
    #[must_use]
    pub fn long_value(&self, name: &str) -> Option<String> {
        self.given.iter().rfind(|given| given.flag.long == Some(name))?.text()
    }

    /// All values of a long option that takes one, in order.
    #[must_use]
    pub fn long_values(&self, name: &str) -> Vec<String> {
        self.given.iter().filter(|given| given.flag.long == Some(name)).filter_map(Given::text).collect()
    }

    /// The command's own options, in the order in which they were typed.
    #[must_use]
    pub fn given(&self) -> &[Given] {
        &self.given
    }

    /// The operands as text.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.operands.iter().map(|operand| operand.to_string_lossy().into_owned()).collect()
    }

    /// The first two options that exclude each other.
    fn conflict(&self) -> Option<(&'static Flag, &'static Flag)> {
        self.given.iter().find_map(|given| {
            let excludes = |other: &&Given| given.flag.conflicts.iter().any(|name| other.flag.is(name));
            self.given.iter().find(excludes).map(|other| (given.flag, other.flag))
        })
    }
}

/// Parses the words behind the command's name.
///
/// # Errors
/// [`Misuse`] for an option that the command does not take, a value that is missing or too many, and options that
/// exclude each other.
pub fn parse(spec: &Spec, words: &[OsString]) -> Result<Parsed, Misuse> {
    let mut parsed = Parsed::default();
    let mut parser = Parser::from_args(words.iter().cloned());
    while let Some(argument) = parser.next().map_err(misuse)? {
        let (flag, name) = match argument {
            Arg::Short(letter) => {
                let name = letter.to_string();
                (spec.all_flags().find(|flag| flag.letter == Some(letter)), format!("-{name}"))
            }
            Arg::Long(name) => (spec.all_flags().find(|flag| flag.long == Some(name)), format!("--{name}")),
            Arg::Value(operand) if spec.permutes => {
                parsed.operands.push(operand);
                continue;
            }
            Arg::Value(first) => {
                parsed.operands.push(first);
                parsed.operands.extend(parser.raw_args().map_err(misuse)?);
                continue;
            }
        };
        let Some(flag) = flag else {
            let longs = || spec.all_flags().filter_map(|flag| flag.long);
            let meant = name.strip_prefix("--").and_then(|name| nearest(name, longs()));
            let what = format!("there is no option {name}");
            return Err(Misuse { what, meant: meant.map(|meant| format!("--{meant}")) });
        };
        let value = if flag.value.is_some() { Some(parser.value().map_err(misuse)?) } else { None };
        if spec.own_flags().any(|own| own == flag) {
            parsed.given.push(Given { flag, value });
        } else {
            parsed.common.set(flag, value);
        }
    }
    if let Some((one, other)) = parsed.conflict() {
        let what = format!("options {} and {} are mutually exclusive", one.names(), other.names());
        return Err(Misuse { what, meant: None });
    }
    Ok(parsed)
}

impl Common {
    fn set(&mut self, flag: &Flag, value: Option<OsString>) {
        match flag.long.unwrap_or_default() {
            "machine" => self.machine = value.map(|value| value.to_string_lossy().into_owned()),
            "state" => self.state = value.map(PathBuf::from),
            "root" => self.root = value.map(PathBuf::from),
            "json" => self.json = true,
            "dry-run" => self.dry_run = true,
            "help" => self.help = true,
            _ => self.version = true,
        }
    }
}

fn misuse(error: lexopt::Error) -> Misuse {
    use lexopt::Error::{MissingValue, UnexpectedOption, UnexpectedValue};
    let what = match error {
        MissingValue { option: Some(option) } => format!("option {option} needs a value"),
        UnexpectedValue { option, value } => {
            format!("option {option} takes no value, and was given `{}`", value.to_string_lossy())
        }
        UnexpectedOption(option) => format!("there is no option {option}"),
        other => other.to_string(),
    };
    Misuse { what, meant: None }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
