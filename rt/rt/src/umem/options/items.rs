//! Parses the text of a variable into items, and reports invalid ones.

use super::line::Line;
use super::words::{self, Value};
use super::{Complain, Settings, Variable, number};

/// Maximum length of an item: longer than any word with its value, and short enough to be quoted.
const ITEM_MAX: usize = 64;

/// Quoted bytes of a longer item.
const QUOTED: usize = 10;

/// An error in an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The word takes no value.
    TakesNoValue,
    /// The word requires a value.
    ValueMissing,
    /// The value is not a number.
    NotANumber,
    /// The number is too large.
    Overflowed,
    /// Unknown word or value.
    Unknown,
    /// Another error.
    Says(&'static str),
}

impl Trouble {
    pub(super) fn text(self) -> &'static str {
        match self {
            Trouble::TakesNoValue => "does not take a value. ignored",
            Trouble::ValueMissing => "Required value missing",
            Trouble::NotANumber => "not a number",
            Trouble::Overflowed => "overflowed",
            Trouble::Unknown => "not recognized",
            Trouble::Says(text) => text,
        }
    }
}

/// Applies the items of a text one after the other. A blank text has none.
pub(super) fn each(variable: Variable, text: &[u8], settings: &mut Settings, complain: Complain<'_>) {
    if text.trim_ascii().is_empty() {
        return;
    }
    for item in text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        let start = Line::new().push(variable.name().to_bytes()).push(b": ");
        if item.is_empty() {
            complain(start.push(b"empty option").as_bytes());
        } else if item.len() > ITEM_MAX {
            let quoted = item.get(..QUOTED).unwrap_or_default();
            complain(start.push(b"argument \"").push(quoted).push(b"...\" too long").as_bytes());
        } else {
            let (word, value) = parts(item);
            match take(variable, word, value, settings) {
                Ok(()) => {}
                Err(Trouble::Unknown) => {
                    complain(start.push(b"'").push(item).push(b"' not recognized").as_bytes());
                }
                Err(trouble) => {
                    complain(start.push(word).push(b": ").push(trouble.text().as_bytes()).as_bytes());
                }
            }
        }
    }
}

/// The word, and the text after the first `=`.
fn parts(item: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = item.splitn(2, |byte| *byte == b'=');
    (parts.next().unwrap_or_default(), parts.next())
}

/// Applies an item.
fn take(
    variable: Variable,
    word: &[u8],
    value: Option<&[u8]>,
    settings: &mut Settings,
) -> Result<(), Trouble> {
    let word = words::of(variable).iter().find(|known| known.name.as_bytes() == word);
    match (&word.ok_or(Trouble::Unknown)?.value, value) {
        (Value::None(set), None) => {
            set(settings);
            Ok(())
        }
        (Value::None(_), Some(_)) => Err(Trouble::TakesNoValue),
        (Value::Number { usual: Some(usual), set, .. }, None) => set(settings, *usual),
        (Value::Number { usual: None, .. } | Value::OneOf(_), None) | (_, Some([])) => {
            Err(Trouble::ValueMissing)
        }
        (Value::Number { unit, set, .. }, Some(text)) => set(settings, number::parse(text, *unit)?),
        (Value::OneOf(choices), Some(text)) => {
            choices.iter().find(|(name, _)| name.as_bytes() == text).ok_or(Trouble::Unknown)?.1
        }
    }
}
