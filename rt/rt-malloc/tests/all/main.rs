//! Tests of the library as a replacement of malloc, in one executable: every test starts programs of its own, and none changes this process.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod family;
mod forks;
mod mistakes;
mod programs;
