//! The configuration file (`/etc/pooladm.conf`): XML with the DTD `rm_pool.dtd.1` of Solaris.
//!
//! # Contents
//!
//! `system` contains `pool`s and `res_comp`s (processor sets), which contain `comp`s (CPUs). A property that the DTD
//! declares as an attribute of its element is stored there under its short name (`pset.min` is `min`). Every other
//! property is an element `property` with its full name and its type.
//!
//! # Reading
//!
//! ```text
//!   text ──▶ prolog: which DTD? ──▶ bounds ──▶ tree ──▶ rules of the DTD ──▶ relations between elements ──▶ PoolsConf
//!            (no declarations)                         (schema, read)     (check)
//! ```
//!
//! The DTD is never loaded, here or elsewhere: its rules are in `schema`, and a test compares both. A file with declarations of its own is
//! rejected before any expansion, so that it cannot expand to a large size. An element has at most 64 attributes and 1,000 properties
//! (`bounds`), so that reading takes linear time. Errors have a line, a column ([`XmlError`]) and a remedy.
//!
//! A missing `pset.size` is computed, and a wrong one is corrected. A pool that refers to several sets keeps the first one. Text in `pool` and
//! `comp`, which the DTD allows, has no meaning and is lost, as are comments and `a-dtype`.
//!
//! # Writing
//!
//! The same checks come first: the output can be read back, gives the same configuration, and is valid by the DTD. Temporary
//! elements are omitted. A permanent pool with a temporary set gets the default set.

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

/// The DTD, for validators.
pub const DTD: &str = include_str!("../rm_pool.dtd.1");

/// The public name of the DTD.
pub const PUBLIC_ID: &str = "-//Sun Microsystems Inc//DTD Resource Management All//EN";

/// The location of the DTD in files.
pub const SYSTEM_ID: &str = "file:///usr/share/lib/xml/dtd/rm_pool.dtd.1";

#[cfg(test)]
mod tests;
