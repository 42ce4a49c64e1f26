//! The parser: words to options and operands.

use crate::scan::{Scanner, Token, unknown};
use crate::spec::{Flag, Spec};
use std::ffi::OsString;
use std::path::PathBuf;

/// A given option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The option.
    pub flag: &'static Flag,
    /// Its value.
    pub value: Option<OsString>,
}

impl Given {
    fn text(&self) -> Option<String> {
        self.value.as_ref().map(|value| value.to_string_lossy().into_owned())
    }
}

/// A parsed command line.
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
    /// The name of the machine.
    pub machine: Option<String>,
    /// The file with the state of a simulated machine.
    pub state: Option<PathBuf>,
    /// The directory of a captured machine.
    pub root: Option<PathBuf>,
    /// Print JSON.
    pub json: bool,
    /// Show the changes without making them.
    pub dry_run: bool,
    /// Show the help.
    pub help: bool,
    /// Show the version.
    pub version: bool,
}

/// A parse error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misuse {
    /// The error.
    pub what: String,
    /// The option that was probably meant: `--keep-others`.
    pub meant: Option<String>,
}

impl Misuse {
    pub(crate) fn new(what: String) -> Misuse {
        Misuse { what, meant: None }
    }
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

    /// The value of a letter with a value; the last one counts.
    #[must_use]
    pub fn value(&self, letter: char) -> Option<String> {
        self.given.iter().rfind(|given| given.flag.letter == Some(letter))?.text()
    }

    /// All values of a letter with a value, in order.
    #[must_use]
    pub fn values(&self, letter: char) -> Vec<String> {
        self.given.iter().filter(|given| given.flag.letter == Some(letter)).filter_map(Given::text).collect()
    }

    /// Whether the long option was given.
    #[must_use]
    pub fn long(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.flag.long == Some(name))
    }

    /// The value of a long option with a value; the last one counts.
    #[must_use]
    pub fn long_value(&self, name: &str) -> Option<String> {
        self.given.iter().rfind(|given| given.flag.long == Some(name))?.text()
    }

    /// All values of a long option with a value, in order.
    #[must_use]
    pub fn long_values(&self, name: &str) -> Vec<String> {
        self.given.iter().filter(|given| given.flag.long == Some(name)).filter_map(Given::text).collect()
    }

    /// The command's own options, in the given order.
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
            let excludes = |other: &&Given| {
                other.flag != given.flag && given.flag.conflicts.iter().any(|name| other.flag.is(name))
            };
            self.given.iter().find(excludes).map(|other| (given.flag, other.flag))
        })
    }
}

/// Parses the words after the name of the command.
///
/// # Errors
/// [`Misuse`] for an unknown option, a missing or superfluous value, and options that exclude each other.
pub fn parse(spec: &Spec, words: &[OsString]) -> Result<Parsed, Misuse> {
    let mut parsed = Parsed::default();
    for token in Scanner::new(spec, words.iter().cloned()) {
        match token {
            Token::Option(_, flag, value) if spec.own_flags().any(|own| own == flag) => {
                parsed.given.push(Given { flag, value });
            }
            Token::Option(_, flag, value) => parsed.common.set(flag, value),
            Token::Operand(operand) => parsed.operands.push(operand),
            Token::Unknown(name) => return Err(unknown(spec, &name)),
            Token::Open(name) => return Err(Misuse::new(format!("option {name} needs a value"))),
            Token::Wrong(misuse) => return Err(misuse),
        }
    }
    match parsed.conflict() {
        Some((one, other)) => {
            let what = format!("options {} and {} are mutually exclusive", one.names(), other.names());
            Err(Misuse::new(what))
        }
        None => Ok(parsed),
    }
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

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
