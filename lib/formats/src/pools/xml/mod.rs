//! The file of a configuration (`/etc/pooladm.conf`): XML by a DTD (reference §9).
//!
//! # What is in it
//!
//! `system` holds `pool`s and `res_comp`s (processor sets), and these hold `comp`s (processors). A property that the DTD
//! declares as an attribute of its element is kept there under its short name (`pset.min` is `min`); every other
//! one is an element `property` with its whole name and its type.
//!
//! # How it is read
//!
//! ```text
//!   text ──▶ prolog: which DTD? ──▶ bounds ──▶ tree ──▶ what the DTD says ──▶ what holds between elements ──▶ PoolsConf
//!            (no declarations)                         (schema, read)        (check)
//! ```
//!
//! The DTD is never fetched, here or elsewhere: what it says stands in `schema`, and a test compares both. A file that
//! declares things of its own is refused before anything in it is expanded, so that it cannot make itself large. One element has 64 attributes
//! and 1,000 properties at most (`bounds`), so that reading takes time in proportion to the text. What is wrong comes with its line and column
//! ([`XmlError`]) and a remedy.
//!
//! A missing `pset.size` is counted, and a wrong one is corrected. A pool that refers to several sets keeps the first one. Text in `pool` and
//! `comp`, which the DTD allows, says nothing and is lost, as are comments and `a-dtype`.
//!
//! # How it is written
//!
//! The same checks come first: what is written can be read, is the same configuration then, and is valid by the DTD. Temporary
//! elements are left out. A pool that is not, but whose set is, gets the default set.

mod bounds;
mod check;
mod fault;
mod prolog;
mod read;
mod schema;
mod values;
mod write;

pub use fault::{Fault, WriteError, XmlError};
pub use read::read;
pub use write::{check, write};

/// The DTD, as a program that validates files wants it.
pub const DTD: &str = include_str!("../rm_pool.dtd.1");

/// The public name of the DTD.
pub const PUBLIC_ID: &str = "-//Sun Microsystems Inc//DTD Resource Management All//EN";

/// Where files say that the DTD is.
pub const SYSTEM_ID: &str = "file:///usr/share/lib/xml/dtd/rm_pool.dtd.1";

#[cfg(test)]
mod tests;
