//! Pools: rules for changes of a configuration, how a file is applied to the machine, and one transaction for each.
//!
//! # How it works
//!
//! A configuration ([`millpond_model::pools::PoolsConf`]) is a value. An [`Editor`] changes a copy by the rules of libpool(3LIB);
//! a failure leaves the original unchanged. The result is either written to a file, or committed to the machine as a whole
//! ([`dynamic`]): the pools facet compares the new configuration with the present one and prepares a single change. So a configuration is never
//! applied in part.
//!
//! ```text
//!   file ──read──▶ PoolsConf ──Editor──▶ PoolsConf ──write──▶ file
//!                      │ instantiate (by name, then CPUs are shared out)
//!                      ▼
//!   machine ──state──▶ PoolsState ──Editor──▶ PoolsState ──commit──▶ machine (one change, all or nothing)
//! ```
//!
//! A `poolcfg` script ([`script::Script`]) runs the commands of an editor in order, and reports the position of an error in the script.
//!
//! Errors have the texts of libpool ([`PoolError`]); details and a remedy are in the hint.
//!
//! The [`Manager`] resizes sets. In each turn it measures, calls a policy of `planner`, and commits its plan. Instead of measured load it can use
//! demand that is played on a machine without threads ([`DemandPlayer`]).
//!
//! This crate reads no file, prints nothing, and does not decide how many CPUs a set should have: that is
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
