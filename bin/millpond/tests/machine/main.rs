//! The program on this machine, whose sets it changes and whose CPUs it loads. Separate from the tests that would
//! notice; one test at a time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod demo;
mod experiment;
mod poold_soak;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Serializes the tests: processor sets and pools of a machine are global.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
