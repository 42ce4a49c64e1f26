//! Checks dependencies between crates, rules for files, and links of pages.
//!
//! # Why
//!
//! A large tree stays readable because of what its parts do not do: crates without I/O, commands without access to the kernel.
//! Reviews easily miss a violation of such a rule, so this crate checks the rules in every `make test`.
//!
//! # Nouns
//!
//! * A **room** is a crate of a workspace, named by its directory: `lib/model` is `model`, `bin/millpond` is `bin`.
//! * An **arrow** is a dependency of one room on another, of any kind. Dependencies of tests count, too.
//! * A **habit** is a rule for single files.
//! * A **breach** is a forbidden arrow or line.
//!
//! # How it works
//!
//! ```text
//!   cargo metadata ──▶ rooms and arrows ──▶ arrows, dependencies, published ──┐
//!                                                          ├──▶ breaches (none, or the test fails)
//!   *.rs of the tree ──▶ Scan (code, literals, tests) ──▶ habits::check ──┤
//!                    └──▶ circles, reexports, words ──────────▶ of_words_and_imports ──┤
//!   *.md of the tree ──▶ links, anchors, paths ──────────▶ links::check ───┤
//!                    └──▶ tables of measured figures ────▶ figures::check ─┘
//! ```
//!
//! All checks are pure functions from text to breaches, so each is tested on a synthetic tree that violates exactly one rule. The
//! scanner distinguishes code, comments, literals and `#[cfg(test)]` items. It is not a parser: a macro that builds a path from
//! pieces is not detected. It finds accidents, not intent.
//!
//! A room that is not on the map is a breach: a new room must be added to the map first.

pub mod arrows;
pub mod circles;
pub mod dependencies;
pub mod figures;
pub mod habits;
pub mod links;
pub mod promises;
mod prose;
pub mod published;
pub mod reexports;
mod scan;
mod tree;
pub mod words;

pub use scan::Scan;
pub use tree::{House, OTHER_WORKSPACES, ReadError, SourceFile};

use std::fmt;

/// Import cycles, re-exports that circumvent the map, and phrases to avoid in sources and pages.
#[must_use]
pub fn of_words_and_imports(house: &House) -> Vec<Breach> {
    let mut breaches = circles::check(&house.files);
    breaches.extend(reexports::check(&house.metadata, &house.files));
    breaches.extend(house.files.iter().flat_map(words::check));
    breaches.extend(house.pages.iter().flat_map(words::check_page));
    breaches
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// A file with its line, or a room.
    pub place: String,
    /// The violation and its rule.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
