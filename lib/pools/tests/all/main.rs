//! Configurations of pools from outside: rules of edits, and scripts.

#![allow(clippy::unwrap_used)]

mod edit;
mod script;
