//! Pools: what may be changed in a configuration, how a file is applied to the machine, and one transaction for each.
//!
//! # How it fits together
//!
//! A configuration ([`millpond_model::pools::PoolsConf`]) is a value. An [`Editor`] changes a copy by the rules that libpool has; whatever
//! fails leaves the original alone. What is done is then either written to a file, or given to the machine as a whole
//! ([`dynamic`]): its facet compares the new configuration with what is, and makes one change of it. So nothing is ever half done.
//!
//! ```text
//!   file ──read──▶ PoolsConf ──Editor──▶ PoolsConf ──write──▶ file
//!                      │ instantiate (by name, then processors are shared out)
//!                      ▼
//!   machine ──state──▶ PoolsState ──Editor──▶ PoolsState ──commit──▶ machine (one change, all or nothing)
//! ```
//!
//! A script of `poolcfg` ([`script::Script`]) is commands of an editor, one after the other, with a place for what is wrong with each.
//!
//! Errors have the texts of libpool ([`PoolError`]); what is wrong in the case at hand, and what would help, stands in the hint beside it.
//!
//! The [`Manager`] resizes sets: in each turn it measures, asks a policy of `planner`, and commits what that decides. What it measures can be a demand
//! that is played on a machine on which nothing runs ([`DemandPlayer`]).
//!
//! What this room does not do: it reads no file, prints nothing, and does not decide how many CPUs a set should have; that is
//! `planner`.

pub mod dedicated;
pub mod dynamic;
mod edit;
mod error;
mod instantiate;
mod manager;
mod played;
pub mod requests;
pub mod script;
pub mod share;
pub mod validate;
pub mod values;
pub mod zones;

pub use edit::{Editor, Element, Place};
pub use error::{Code, PoolError, errno};
pub use instantiate::instantiate;
pub use manager::{Done, Manager, OnPressure, PRESSED, Record, Rhythm, SLOW, Turn, Wait};
pub use played::{DemandPlayer, Seen, Served, Unserved};
pub use values::POLICY_PROPERTY;
