//! Which lgroups a thread prefers.

use serde::{Deserialize, Serialize};

/// The lgroups that a thread prefers: a bit for each, those beyond the last bit never are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LgroupAffinities {
    /// As long as it can run there.
    pub strong: u64,
    /// Where nothing speaks against it.
    pub weak: u64,
}

impl LgroupAffinities {
    /// Whether it prefers none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.strong == 0 && self.weak == 0
    }

    /// How much an lgroup is preferred: 2 strongly, 1 weakly, 0 not.
    #[must_use]
    pub fn of(&self, lgroup: u32) -> u8 {
        let has = |bits: u64| bits.checked_shr(lgroup).is_some_and(|rest| rest & 1 == 1);
        if has(self.strong) { 2 } else { u8::from(has(self.weak)) }
    }
}
