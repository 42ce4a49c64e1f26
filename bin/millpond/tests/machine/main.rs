//! The program on the machine at hand, whose sets it changes and whose CPUs it loads: apart from the tests that would notice, one test at a time.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod demo;
mod experiment;
mod poold_soak;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Processor sets and pools of a machine are there once: whoever holds this is the only test that makes some.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
