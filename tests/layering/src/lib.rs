//! Checks dependencies between crates, rules for files, and links of pages against the map.
//!
//! # Why
//!
//! What keeps a large tree readable is mostly absence: the room that does no I/O, the command that knows no
//! kernel. An absence is easily lost in a review, so this crate checks it, at every `make test`.
//!
//! # Nouns
//!
//! * A **room** is a crate of a workspace of the tree, named by where it stands: `lib/model` is `model`, `bin/millpond` is `bin`.
//! * An **arrow** is a dependency of one room on another, of any kind: what a test uses it also knows.
//! * A **habit** is a rule that one file keeps or breaks by itself.
//! * A **breach** is an arrow or a line that should not be there.
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
//! All checks are pure functions from text to breaches, so that each is proven on a synthetic tree that breaks exactly
//! one rule. The scanner knows enough Rust to tell code from comments, literals and `#[cfg(test)]` items; it is no parser,
//! and a macro that builds a path from pieces will pass. It is there for accidents, not for cunning.
//!
//! A room that the map does not know is a breach: a new room is drawn on the map first.

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

/// Circles of imports, re-exports around the map, and phrases to avoid in sources and pages.
#[must_use]
pub fn of_words_and_imports(house: &House) -> Vec<Breach> {
    let mut breaches = circles::check(&house.files);
    breaches.extend(reexports::check(&house.metadata, &house.files));
    breaches.extend(house.files.iter().flat_map(words::check));
    breaches.extend(house.pages.iter().flat_map(words::check_page));
    breaches
}

/// Something that should not be there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// A file with its line, or a room.
    pub place: String,
    /// What is wrong there, and with which rule.
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
