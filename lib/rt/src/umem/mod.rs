//! Object caches: what they are made of.

#![allow(dead_code, reason = "the parts stand here before the caches that use them")]

pub(crate) mod options;
