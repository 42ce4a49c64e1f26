//! Holders of shares and caps: what is kept of each.

use super::defaults::is_default;
use super::ids::{HolderIndex, ThreadId};
use super::time::SECOND;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What sort of holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Of projects.
    Zone,
    /// Of processes; belongs to a zone.
    Project,
    /// Of threads; belongs to a project.
    Process,
}

/// A holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Holder {
    /// What sort.
    pub level: Level,
    /// The holder that it belongs to.
    pub parent: Option<HolderIndex>,
    /// Its shares, where they were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// Its cap, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// Nothing belongs to it any more, and its place may be given away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
}

/// Usage ahead of a cap is allowed for so many nanoseconds, and for a tick at least.
pub const PERIOD: u64 = SECOND / 10;

/// Usage is counted in hundredths of nanoseconds of a CPU, so that a percent of a nanosecond is a whole number.
pub(super) const PERCENT: u64 = 100;

/// A cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cap {
    /// Percent of one CPU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub percent: u32,
    /// What was used and has not decayed, in hundredths of nanoseconds.
    pub used: u64,
    /// Since boot in nanoseconds, until when it decayed.
    pub decayed: u64,
    /// Threads that wait until usage has decayed, in order of arrival.
    pub waiting: VecDeque<ThreadId>,
    /// What it took away so far.
    pub taken: Taken,
    /// The last period that is counted in each of the two counts of `taken`.
    pub counted: [u64; 2],
}

/// What a cap took away. The waits that go on count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// For how long threads waited for it, all together, in nanoseconds.
    pub time: u64,
    /// [`PERIOD`]s in which threads waited for it.
    pub periods: u64,
    /// [`PERIOD`]s in which threads ran or waited for it.
    pub of: u64,
}

impl Cap {
    pub fn new(percent: u32, now: u64) -> Self {
        Cap {
            percent,
            used: 0,
            decayed: now,
            waiting: VecDeque::new(),
            taken: Taken::default(),
            counted: [u64::MAX; 2],
        }
    }

    /// What may be used ahead.
    pub fn ahead(&self, tick: u64) -> u64 {
        u64::from(self.percent) * PERIOD.max(tick)
    }

    pub fn is_used_up(&self, tick: u64) -> bool {
        self.used > self.ahead(tick)
    }

    /// Counts the period of this moment, once as one in which a thread wanted to run, and once as one in which a thread waited.
    pub fn note(&mut self, now: u64, waits: bool) {
        let period = now / PERIOD;
        if std::mem::replace(&mut self.counted[0], period) != period {
            self.taken.of += 1;
        }
        if waits && std::mem::replace(&mut self.counted[1], period) != period {
            self.taken.periods += 1;
        }
    }
}
