//! One description of a command, and everything that is made of it.
//!
//! # Why
//!
//! A command's options appear in its parser, its usage, its manual page, its completions and the reference. Each
//! list that is written by hand drifts from the others. Here a command is described once, as a constant.
//!
//! # Nouns
//!
//! A [`Spec`] is the description of one command or service: name, summary, forms, flags, operands, examples, files,
//! exit status, and the text of its manual. A [`Flag`] is one option with its letter, long name, value and help.
//! A [`ValueKind`] says what a value or an operand is (a CPU list, a set, a file), so that completions know what to
//! offer. [`Parsed`] is what was typed. [`Misuse`] is why it could not be parsed. A service that does not run gives an
//! [`Answer`].
//!
//! ```text
//!             ┌─▶ parse       words → Parsed, or Misuse with the nearest right option
//!             ├─▶ help        --help (short), help COMMAND (long), usage
//!    Spec ────┼─▶ man         a page of man(7) macros
//!             ├─▶ markdown    a page of the reference
//!             └─▶ complete    what may stand at the cursor
//! ```
//!
//! # What callers must know
//!
//! * Letters come first, alone or in clusters, and end at the first operand, at `--` or at a lone `-`. A command with
//!   [`Spec::permutes`] takes options behind operands as well, like GNU `getopt`.
//! * The manual's text is the head of the module that is named in [`Spec::prose`]: paragraphs, headings (`# `) and
//!   fenced examples. Lists of options do not belong there: they come from the flags.
//! * [`ValueKind`] is not checked by the parser. A command reads its values itself, with the parsers of [`units`].
//!
//! This crate reads no file, asks no machine and prints nothing.

pub mod complete;
pub mod help;
pub mod man;
mod manual;
pub mod markdown;
mod near;
mod parse;
pub mod prose;
mod scan;
mod service;
mod spec;
mod text;
pub mod units;
mod usage;
mod value;

pub use near::nearest;
pub use parse::{Common, Given, Misuse, Parsed, parse};
pub use service::{Answer, service};
pub use spec::{
    COMMON, Example, Flag, Group, INTERRUPTED, MISUSED, Misused, Operands, Spec, Status, Value, ValueKind,
};
