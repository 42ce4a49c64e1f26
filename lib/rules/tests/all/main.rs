//! The rules of the header: those of the reference, and what holds of any state. Without the rules as functions of this program there is
//! `undefined.c` alone.

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
