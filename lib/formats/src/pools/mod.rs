//! Pools as text.

pub mod info;
pub mod objectives;
pub mod script;
pub mod xml;
