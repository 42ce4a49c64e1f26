//! Tests of simulated machines, rule by rule.

mod hands;
mod machine;
mod sets;
mod states;
