//! Pools as text.

pub mod objectives;
