//! Tests of simulated machines: their laws, machines with a defect that breaks one, and the rules one by one.

#![allow(clippy::unwrap_used)]

mod common;
mod hardware_counters;
mod laws;
mod mutant;
mod mutants;
mod rules;
mod saved_machines;
