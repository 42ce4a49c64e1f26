//! Configurations of pools from outside: rules for edits, and scripts.

#![allow(clippy::unwrap_used)]

mod edit;
mod script;
