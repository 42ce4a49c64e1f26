//! One description of a command, and everything generated from it.
//!
//! # Why
//!
//! The options of a command appear in its parser, its usage, its manual page, its completions and the reference.
//! Handwritten lists drift apart. Here a command is described once, as a constant.
//!
//! # Nouns
//!
//! A [`Spec`] is the description of one command or service: name, summary, forms, flags, operands, examples, files, exit status, and the
//! text of its manual. A [`Flag`] is one option with its letter, long name, value and help. A [`ValueKind`] is the kind of a value or an
//! operand (a CPU list, a set, a file), for completions. [`Parsed`] is a parsed command line, [`Misuse`] a parse error. A service that does
//! not run returns an [`Answer`].
//!
//! ```text
//!             ┌─▶ parse       words → Parsed, or Misuse with the nearest right option
//!             ├─▶ help        --help (short), help COMMAND (long), usage
//!    Spec ────┼─▶ man         a page of man(7) macros
//!             ├─▶ markdown    a page of the reference
//!             └─▶ complete    candidates at the cursor
//! ```
//!
//! # Rules for callers
//!
//! * Letters come first, alone or in clusters. Options end at the first operand, at `--` or at a lone `-`. A command with
//!   [`Spec::permutes`] also accepts options after operands, like GNU `getopt`.
//! * The text of the manual is the head of the module named in [`Spec::prose`]: paragraphs, headings (`# `) and
//!   fenced examples. It must not contain lists of options, which are generated from the flags.
//! * The parser does not check [`ValueKind`]. A command parses its values itself, with the parsers of [`units`].
//!
//! This crate reads no file, accesses no machine and prints nothing.

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
