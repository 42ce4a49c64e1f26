//! The scanner from words to tokens, shared by the parser, the usage after errors, and completions.

use crate::near::nearest;
use crate::parse::Misuse;
use crate::spec::{Flag, Spec};
use lexopt::{Arg, Parser};
use std::ffi::OsString;

/// A token of one or two words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An option as given (`-n`, `--count`), with its value if it takes one.
    Option(String, &'static Flag, Option<OsString>),
    /// An unknown option.
    Unknown(String),
    /// An option at the end without its required value.
    Open(String),
    /// A value for an option without one.
    Wrong(Misuse),
    /// An operand.
    Operand(OsString),
}

/// The tokens of the words after the name of a command. Scanning continues after errors.
pub(crate) struct Scanner<'s> {
    spec: &'s Spec,
    parser: Parser,
    /// The remaining words, all of which are operands.
    rest: std::vec::IntoIter<OsString>,
}

impl<'s> Scanner<'s> {
    pub(crate) fn new(spec: &'s Spec, words: impl IntoIterator<Item = OsString>) -> Scanner<'s> {
        let words: Vec<OsString> = words.into_iter().collect();
        Scanner { spec, parser: Parser::from_args(words), rest: Vec::new().into_iter() }
    }
}

impl Iterator for Scanner<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        if let Some(operand) = self.rest.next() {
            return Some(Token::Operand(operand));
        }
        let argument = match self.parser.next() {
            Ok(argument) => argument?,
            Err(error) => return Some(Token::Wrong(misuse(error))),
        };
        let name = match argument {
            Arg::Short(letter) => format!("-{letter}"),
            Arg::Long(name) => format!("--{name}"),
            Arg::Value(operand) => {
                if !self.spec.permutes {
                    let rest = self.parser.raw_args().map(Iterator::collect::<Vec<_>>);
                    self.rest = rest.unwrap_or_default().into_iter();
                }
                return Some(Token::Operand(operand));
            }
        };
        let Some(flag) = self.spec.all_flags().find(|flag| flag.spellings().contains(&name)) else {
            return Some(Token::Unknown(name));
        };
        if flag.value.is_none() {
            return Some(Token::Option(name, flag, None));
        }
        Some(match self.parser.value() {
            Ok(value) => Token::Option(name, flag, Some(value)),
            Err(_) => Token::Open(name),
        })
    }
}

/// The error for an unknown option, with the nearest long option.
pub(crate) fn unknown(spec: &Spec, name: &str) -> Misuse {
    let longs = spec.all_flags().filter_map(|flag| flag.long);
    let meant = name.strip_prefix("--").and_then(|name| nearest(name, longs));
    Misuse { what: format!("there is no option {name}"), meant: meant.map(|meant| format!("--{meant}")) }
}

fn misuse(error: lexopt::Error) -> Misuse {
    let what = match error {
        lexopt::Error::UnexpectedValue { option, value } => {
            format!("option {option} takes no value, and was given `{}`", value.to_string_lossy())
        }
        other => other.to_string(),
    };
    Misuse::new(what)
}
