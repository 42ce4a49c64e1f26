//! Pools as text.

pub mod info;
pub mod objectives;
