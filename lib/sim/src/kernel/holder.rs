//! Holders of shares and caps.

use super::defaults::is_default;
use super::ids::{CpuIndex, HolderIndex, ThreadId};
use super::time::SECOND;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The kind of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A zone holds projects.
    Zone,
    /// A project holds processes and belongs to a zone.
    Project,
    /// A process holds threads and belongs to a project.
    Process,
}

/// A holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Holder {
    /// Its kind.
    pub level: Level,
    /// The holder that contains it.
    pub parent: Option<HolderIndex>,
    /// Its shares, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// Its cap, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// It holds nothing any more, and its number may be reused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
}

/// Usage may exceed a cap by this many nanoseconds' worth, and by a tick at least.
pub const PERIOD: u64 = SECOND / 10;

/// Unit of usage: hundredths of nanoseconds of a CPU, so that one percent of a nanosecond is an integer.
pub(super) const PERCENT: u64 = 100;

/// A cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cap {
    /// Percent of one CPU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub percent: u32,
    /// Usage that has not decayed, in hundredths of nanoseconds.
    pub used: u64,
    /// Time of the last decay, in nanoseconds since boot.
    pub decayed: u64,
    /// Threads that wait for usage to decay, in order of arrival.
    pub waiting: VecDeque<ThreadId>,
    /// Statistics of its effect.
    pub taken: Taken,
    /// The last period that is in each of the two counts of `taken`.
    pub counted: [u64; 2],
    /// Distribution of time under the rules of Linux; usage does not decay then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// The part of a quota that a CPU gets at a time, in hundredths of nanoseconds: the kernel's default of `sched_cfs_bandwidth_slice_us`, 5 ms.
const PART: i64 = 5_000_000 * PERCENT.cast_signed();

/// A cap under the rules of Linux (`cpu.max`): each period has the time that the cap allows, and CPUs get it in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quota {
    /// The rest of the period's time that no CPU has got yet, in hundredths of nanoseconds.
    pub pool: i64,
    /// The number of the period.
    pub period: u64,
    /// What each CPU has left of its parts, in the same unit; below 0 if it used more.
    pub parts: BTreeMap<CpuIndex, i64>,
}

impl Quota {
    /// Charges time that its threads ran on a CPU.
    fn charge(&mut self, cpu: CpuIndex, used: i64) {
        let part = self.parts.entry(cpu).or_default();
        *part -= used;
        if *part <= 0 {
            let given = (PART - *part).min(self.pool);
            (*part, self.pool) = (*part + given, self.pool - given);
        }
    }

    /// Begins a period: the rest of the old one is lost, and CPUs without a rest get just enough to be above 0.
    fn fill(&mut self, period: u64, whole: i64) {
        (self.pool, self.period) = (whole, period);
        for part in self.parts.values_mut().filter(|part| **part <= 0) {
            let given = (1 - *part).min(self.pool);
            (*part, self.pool) = (*part + given, self.pool - given);
        }
    }
}

/// Effect of a cap. Unfinished waits count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// Total time that threads waited for it, in nanoseconds.
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

    /// The time of a period, in hundredths of nanoseconds.
    fn whole(&self) -> i64 {
        (u64::from(self.percent) * PERIOD).cast_signed()
    }

    /// Charges nanoseconds that its threads ran on a CPU.
    pub fn charge(&mut self, cpu: CpuIndex, ran: u64) {
        let used = ran.saturating_mul(PERCENT);
        match &mut self.quota {
            Some(quota) => quota.charge(cpu, i64::try_from(used).unwrap_or(i64::MAX)),
            None => self.used = self.used.saturating_add(used),
        }
    }

    /// Decays usage up to now.
    pub fn decay(&mut self, now: u64) {
        let passed = now.saturating_sub(self.decayed);
        self.used = self.used.saturating_sub(passed.saturating_mul(u64::from(self.percent)));
        self.decayed = now;
        let (period, whole) = (now / PERIOD, self.whole());
        if let Some(quota) = self.quota.as_mut().filter(|quota| quota.period != period) {
            quota.fill(period, whole);
        }
    }

    /// Usage that may be ahead.
    pub fn ahead(&self, tick: u64) -> u64 {
        u64::from(self.percent) * PERIOD.max(tick)
    }

    /// Whether its threads must stop running on that CPU.
    pub fn is_used_up(&self, tick: u64, cpu: CpuIndex) -> bool {
        match &self.quota {
            Some(quota) => quota.pool <= 0 && quota.parts.get(&cpu).is_none_or(|part| *part <= 0),
            None => self.used > self.ahead(tick),
        }
    }

    /// Counts the current period: as one in which a thread wanted to run, and, if `waits`, as one in which a thread waited.
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
