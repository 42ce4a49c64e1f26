//! Pools and poold on simulated machines, in one executable, because each one links the whole simulator.

#![allow(clippy::unwrap_used)]

mod daemon;
mod dedicated;
mod faults;
mod instantiate;
mod laws;
mod manager;
mod random;
mod year;
