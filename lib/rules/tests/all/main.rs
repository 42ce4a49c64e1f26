//! Tests of the rules: test vectors, and properties of any state. Without the feature `host` only `undefined.c` is tested.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[cfg(feature = "host")]
mod any_state;
#[cfg(feature = "host")]
mod common;
#[cfg(feature = "host")]
mod queue;
mod undefined;
#[cfg(feature = "host")]
mod vectors;
