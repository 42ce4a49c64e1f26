//! Lgroup affinities of a thread.

use serde::{Deserialize, Serialize};

/// The lgroups that a thread prefers, one bit each. Lgroups without a bit are never preferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LgroupAffinities {
    /// Strong affinity: preferred whenever the thread can run there.
    pub strong: u64,
    /// Weak affinity: preferred where no other rule decides.
    pub weak: u64,
}

impl LgroupAffinities {
    /// Whether there is no affinity.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.strong == 0 && self.weak == 0
    }

    /// Affinity for an lgroup: 2 strong, 1 weak, 0 none.
    #[must_use]
    pub fn of(&self, lgroup: u32) -> u8 {
        let has = |bits: u64| bits.checked_shr(lgroup).is_some_and(|rest| rest & 1 == 1);
        if has(self.strong) { 2 } else { u8::from(has(self.weak)) }
    }
}
