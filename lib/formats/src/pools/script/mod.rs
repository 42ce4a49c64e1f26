//! The language of `poolcfg`: scripts and their commands (reference §8.1, §8.2).
//!
//! ```text
//!   commands = command { command }
//!   command  = info [ ENTITY name ]
//!            | create ENTITY name [ list of properties ]        ENTITY: system pool pset
//!            | destroy ENTITY name                              (info and modify: also cpu)
//!            | modify ENTITY name [ list of properties ]
//!            | rename ENTITY name to name
//!            | associate pool name [ ( pset name { ; pset name } ) ]
//!            | transfer to pset name [ ( cpu number { ; cpu number } ) ]
//!            | transfer number from pset name to name           the second name stands alone
//!            | transfer number to pset name from name
//!            | discover
//!   property = TYPE name = value | ~ TYPE name                  TYPE: boolean int uint string float
//! ```
//!
//! Nothing separates commands, and line ends mean no more than blanks; in lists, `;` separates. The longest word counts, so that
//! `pool1` is a name and `pool` is not; the words of the language cannot be names. `#` begins a comment. The type behind `~`
//! is read and says nothing. Properties come back in their order, and the same one may be set twice.
//!
//! Strings know no escapes: whatever stands between two `"` on one line is meant. Three things differ from Solaris. A string that
//! its line does not end is an error (there, the line end was its end). So is a number that its type does not hold. A float may
//! be negative, and a carriage return is a blank.

mod lexer;
mod parse;
mod print;

pub use parse::parse;

use millpond_model::pools::{ElementKind, PropValue, ValueType};
use std::fmt;

/// What is expected where a name is.
const NAME: &str = "a name";

/// Something and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// From 1.
    pub line: usize,
    /// Bytes from 1.
    pub column: usize,
    /// What stands there.
    pub value: T,
}

/// An element by its kind and name.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// Its kind.
    pub kind: ElementKind,
    /// Its name. That of a processor is its number, or a name that no processor has.
    pub name: Located<String>,
}

/// What is to happen to one property.
#[derive(Debug, Clone, PartialEq)]
pub enum PropEdit {
    /// It gets a value.
    Set(String, PropValue),
    /// It goes.
    Remove(String),
}

/// A list of properties, in its order.
pub type PropEdits = Vec<Located<PropEdit>>;

/// A command. Displays as it can be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Show an element, or the whole.
    Info(Option<Entity>),
    /// Make an element.
    Create {
        /// Of which kind, with which name; no processor.
        entity: Entity,
        /// Its properties.
        props: PropEdits,
    },
    /// Remove an element; no processor.
    Destroy(Entity),
    /// Change properties.
    Modify {
        /// Of which element.
        entity: Entity,
        /// Which.
        props: PropEdits,
    },
    /// Give a pool its sets.
    Associate {
        /// Which pool.
        pool: Located<String>,
        /// Which sets, by name.
        psets: Vec<Located<String>>,
    },
    /// Move processors that are named into a set.
    TransferCpus {
        /// Which set.
        to: Located<String>,
        /// Which processors: their numbers, or names that no processor has.
        cpus: Vec<Located<String>>,
    },
    /// Move so many processors from set to set.
    TransferCount {
        /// How many.
        count: u64,
        /// Where they are.
        from: Located<String>,
        /// Where they go.
        to: Located<String>,
    },
    /// Write what the machine has into the file.
    Discover,
    /// Give an element another name; no processor.
    Rename {
        /// Which element.
        entity: Entity,
        /// Its new name.
        to: Located<String>,
    },
}

/// What is wrong with a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxFault {
    /// Something else is expected here.
    Unexpected {
        /// What.
        expected: &'static str,
    },
    /// The script ends, and something is expected.
    End {
        /// What.
        expected: &'static str,
    },
    /// The language has no such character.
    Character,
    /// A string is not ended in its line.
    Unterminated,
    /// A type does not hold a number.
    Range(ValueType),
}

/// A script that cannot be understood. Displays as the message of Solaris, without the name of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// From 1.
    pub line: usize,
    /// Bytes from 1; one more than there are at the end of a line.
    pub column: usize,
    /// What is wrong.
    pub fault: SyntaxFault,
    /// The offending word or character; empty at the end.
    pub text: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            SyntaxFault::Character => write!(f, "Illegal character at '{}'", self.text),
            SyntaxFault::End { .. } => f.write_str("syntax error, token expected"),
            _ => write!(f, "syntax error at '{}'", self.text),
        }
    }
}

impl std::error::Error for SyntaxError {}

impl SyntaxError {
    /// The message for a script that stands in a file: `line 3, syntax error at 'x'`.
    #[must_use]
    pub fn with_line(&self) -> String {
        format!("line {}, {self}", self.line)
    }

    /// What was expected there, or what the user could do.
    #[must_use]
    pub fn hint(&self) -> String {
        let text = &self.text;
        match self.fault {
            SyntaxFault::Unexpected { expected } if lexer::is_keyword(text) && expected == NAME => {
                format!("expected {expected}; `{text}` is a word of the language and cannot be one")
            }
            SyntaxFault::Unexpected { expected } => format!("expected {expected}, not `{text}`"),
            SyntaxFault::End { expected } => format!("expected {expected}, and the script ends"),
            SyntaxFault::Character => {
                "names are letters, digits and ,._-; strings stand in \"\", and a comment begins with #"
                    .into()
            }
            SyntaxFault::Unterminated => "end the string with \" on the same line".into(),
            SyntaxFault::Range(ValueType::Uint) => format!("a uint is 0 to {}", u64::MAX),
            SyntaxFault::Range(ValueType::Int) => format!("an int is {} to {}", i64::MIN, i64::MAX),
            SyntaxFault::Range(other) => format!("the number is too large for a {other}"),
        }
    }
}

#[cfg(test)]
mod tests;
