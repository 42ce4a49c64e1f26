//! The language of poolcfg(8): scripts and their commands.
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
//!            | transfer number from pset name to name           the second name without kind
//!            | transfer number to pset name from name
//!            | discover
//!   property = TYPE name = value | ~ TYPE name                  TYPE: boolean int uint string float
//! ```
//!
//! Commands need no separator, and line ends are ordinary blanks; in lists, `;` is the separator. The longest token is taken, so that
//! `pool1` is a name and `pool` is not. Keywords cannot be names. `#` begins a comment. The type after `~` is read and ignored. Properties
//! keep their order, and the same one may be set twice.
//!
//! Strings have no escapes: all characters between two `"` on one line are literal. Three rules differ from Solaris. A string without
//! closing quote on its line is an error (on Solaris the line end closes it). A number out of the range of its type is an error. A float may
//! be negative, and a carriage return is a blank.

mod lexer;
mod parse;
mod print;

pub use parse::parse;

use millpond_model::pools::{ElementKind, PropValue, ValueType};
use std::fmt;

/// The expectation of a name.
const NAME: &str = "a name";

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// The value.
    pub value: T,
}

/// An element by its kind and name.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// Its kind.
    pub kind: ElementKind,
    /// Its name. For a CPU its number, or a name that no CPU has.
    pub name: Located<String>,
}

/// A change of one property.
#[derive(Debug, Clone, PartialEq)]
pub enum PropEdit {
    /// Set it to a value.
    Set(String, PropValue),
    /// Remove it.
    Remove(String),
}

/// A list of properties in order.
pub type PropEdits = Vec<Located<PropEdit>>;

/// A command. Displays in the syntax of scripts.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Show an element, or the whole configuration.
    Info(Option<Entity>),
    /// Create an element.
    Create {
        /// Its kind and name; not a CPU.
        entity: Entity,
        /// Its properties.
        props: PropEdits,
    },
    /// Remove an element; not a CPU.
    Destroy(Entity),
    /// Change properties.
    Modify {
        /// The element.
        entity: Entity,
        /// The changes.
        props: PropEdits,
    },
    /// Associate a pool with sets.
    Associate {
        /// The pool.
        pool: Located<String>,
        /// The sets, by name.
        psets: Vec<Located<String>>,
    },
    /// Move named CPUs into a set.
    TransferCpus {
        /// The set.
        to: Located<String>,
        /// The CPUs: their numbers, or names that no CPU has.
        cpus: Vec<Located<String>>,
    },
    /// Move a number of CPUs from set to set.
    TransferCount {
        /// The number.
        count: u64,
        /// The source set.
        from: Located<String>,
        /// The target set.
        to: Located<String>,
    },
    /// Write the configuration of the machine into the file.
    Discover,
    /// Rename an element; not a CPU.
    Rename {
        /// The element.
        entity: Entity,
        /// Its new name.
        to: Located<String>,
    },
}

/// An error in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxFault {
    /// A different token is expected here.
    Unexpected {
        /// The expected token.
        expected: &'static str,
    },
    /// The script ends too early.
    End {
        /// The expected token.
        expected: &'static str,
    },
    /// The character is not part of the language.
    Character,
    /// A string is not closed on its line.
    Unterminated,
    /// A number is out of the range of its type.
    Range(ValueType),
}

/// An invalid script. Displays as the message of Solaris, without the name of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1; at the end of a line one more than its length.
    pub column: usize,
    /// The error.
    pub fault: SyntaxFault,
    /// The offending token or character; empty at the end.
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
    /// The message for a script in a file: `line 3, syntax error at 'x'`.
    #[must_use]
    pub fn with_line(&self) -> String {
        format!("line {}, {self}", self.line)
    }

    /// The expected token, or a remedy.
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
