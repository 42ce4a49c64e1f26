//! Locks under which a thread of high priority waits for no more than it must.

#[allow(dead_code, reason = "object caches lock by it")]
pub(crate) mod word;
