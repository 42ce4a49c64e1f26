//! Holders of shares and caps: what is kept of each.

use super::defaults::is_default;
use super::ids::{CpuIndex, HolderIndex, ThreadId};
use super::time::SECOND;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

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
    /// How time is given out under the rules of Linux; nothing decays then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// What a CPU is given of a quota at a time, in hundredths of nanoseconds: the kernel's default of `sched_cfs_bandwidth_slice_us`, 5 ms.
const PART: i64 = 5_000_000 * PERCENT.cast_signed();

/// The time of a cap as Linux gives it out (`cpu.max`): in each period as much as the cap allows, to CPUs in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quota {
    /// What no CPU has been given yet of this period, in hundredths of nanoseconds.
    pub pool: i64,
    /// The period.
    pub period: u64,
    /// What each CPU has left of its parts, in the same; below 0 where more was used.
    pub parts: BTreeMap<CpuIndex, i64>,
}

impl Quota {
    /// Its threads ran there.
    fn charge(&mut self, cpu: CpuIndex, used: i64) {
        let part = self.parts.entry(cpu).or_default();
        *part -= used;
        if *part <= 0 {
            let given = (PART - *part).min(self.pool);
            (*part, self.pool) = (*part + given, self.pool - given);
        }
    }

    /// Another period begins: what was not given out is lost, and CPUs that used too much are given that.
    fn fill(&mut self, period: u64, whole: i64) {
        (self.pool, self.period) = (whole, period);
        for part in self.parts.values_mut().filter(|part| **part <= 0) {
            let given = (1 - *part).min(self.pool);
            (*part, self.pool) = (*part + given, self.pool - given);
        }
    }
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
    pub fn new(percent: u32, now: u64, has_quota: bool) -> Self {
        let mut cap = Cap {
            percent,
            used: 0,
            decayed: now,
            waiting: VecDeque::new(),
            taken: Taken::default(),
            counted: [u64::MAX; 2],
            quota: None,
        };
        cap.quota = has_quota.then(|| Quota { pool: cap.whole(), period: now / PERIOD, ..Quota::default() });
        cap
    }

    /// What a period has, in hundredths of nanoseconds.
    fn whole(&self) -> i64 {
        (u64::from(self.percent) * PERIOD).cast_signed()
    }

    /// Its threads ran so many nanoseconds on a CPU.
    pub fn charge(&mut self, cpu: CpuIndex, ran: u64) {
        let used = ran.saturating_mul(PERCENT);
        match &mut self.quota {
            Some(quota) => quota.charge(cpu, i64::try_from(used).unwrap_or(i64::MAX)),
            None => self.used = self.used.saturating_add(used),
        }
    }

    /// Time passed until now.
    pub fn decay(&mut self, now: u64) {
        let passed = now.saturating_sub(self.decayed);
        self.used = self.used.saturating_sub(passed.saturating_mul(u64::from(self.percent)));
        self.decayed = now;
        let (period, whole) = (now / PERIOD, self.whole());
        if let Some(quota) = self.quota.as_mut().filter(|quota| quota.period != period) {
            quota.fill(period, whole);
        }
    }

    /// What may be used ahead.
    pub fn ahead(&self, tick: u64) -> u64 {
        u64::from(self.percent) * PERIOD.max(tick)
    }

    /// Whether its threads may run no longer on that CPU.
    pub fn is_used_up(&self, tick: u64, cpu: CpuIndex) -> bool {
        match &self.quota {
            Some(quota) => quota.pool <= 0 && quota.parts.get(&cpu).is_none_or(|part| *part <= 0),
            None => self.used > self.ahead(tick),
        }
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
