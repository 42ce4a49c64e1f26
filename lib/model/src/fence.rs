//! Fences: named processor sets that also exclude interrupts and kernel threads.

use crate::{CpuId, CpuSet, Nanos, PsetId, SetMemory, State, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The name of a fence: a letter, then letters, digits, `-` and `_`; 32 at most.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct FenceName(String);

/// The longest name, in bytes.
const NAME_MAX: usize = 32;

/// A text that is not the name of a fence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name is a letter, then letters, digits, `-` and `_`, {NAME_MAX} at most")]
pub struct NoFenceName;

impl FenceName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FenceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FenceName {
    type Err = NoFenceName;

    fn from_str(text: &str) -> Result<Self, NoFenceName> {
        let is_first = text.starts_with(|c: char| c.is_ascii_alphabetic());
        let fits = text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
        if is_first && fits && text.len() <= NAME_MAX {
            Ok(FenceName(text.to_owned()))
        } else {
            Err(NoFenceName)
        }
    }
}

impl TryFrom<String> for FenceName {
    type Error = NoFenceName;

    fn try_from(text: String) -> Result<Self, NoFenceName> {
        text.parse()
    }
}

impl From<FenceName> for String {
    fn from(name: FenceName) -> String {
        name.0
    }
}

/// The treatment of other programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// They are kept out, and the kernel does not balance load inside: a thread stays on its CPU.
    Isolated,
    /// They are kept out, and the kernel balances load inside.
    #[default]
    Out,
    /// They may run there as well.
    In,
}

/// A setting of the whole machine that a fence may request as well.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MachineSetting {
    /// Whether the kernel moves pages to the NUMA node that uses them; to find out, it unmaps pages now and then.
    NumaBalancing,
    /// Seconds between two collections of a CPU's memory statistics.
    #[serde(rename = "stat-interval-s")]
    StatInterval,
    /// Whether timers of idle CPUs move to busy ones.
    TimerMigration,
    /// Whether CPUs may exceed their sustained frequency.
    Turbo,
}

impl MachineSetting {
    /// Its key in a profile.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            MachineSetting::NumaBalancing => "numa-balancing",
            MachineSetting::StatInterval => "stat-interval-s",
            MachineSetting::TimerMigration => "timer-migration",
            MachineSetting::Turbo => "turbo",
        }
    }
}

/// The settings of a fence: what is kept away from its CPUs, and how they are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shelter {
    /// Other programs.
    pub others: Others,
    /// Device interrupts, and with them the unbound workqueue cpumask and RPS/XPS masks.
    #[serde(skip_serializing_if = "is_not")]
    pub interrupts: bool,
    /// Kernel threads that are not bound to a CPU.
    #[serde(skip_serializing_if = "is_not")]
    pub kernel_threads: bool,
    /// The lockup detectors.
    #[serde(skip_serializing_if = "is_not")]
    pub watchdog: bool,
    /// Idle states with a longer exit latency are disabled; 0: all that have an exit latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_latency: Option<Nanos>,
    /// The cpufreq governor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Where memory of bound threads is allocated.
    #[serde(skip_serializing_if = "SetMemory::is_all")]
    pub memory: SetMemory,
    /// The other strands of its cores are taken off-line.
    #[serde(skip_serializing_if = "is_not")]
    pub siblings_off: bool,
    /// Its CPUs go off-line and come back once, so that timers and work queued there move to other CPUs.
    #[serde(skip_serializing_if = "is_not")]
    pub flush: bool,
    /// Ordinary threads get no time reserved from real-time threads (the fair server is off).
    #[serde(skip_serializing_if = "is_not")]
    pub no_fair_server: bool,
    /// The number of ways of each L3 cache of its CPUs that are reserved for the fence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_ways: Option<u32>,
    /// The limit for other threads, in percent of the memory bandwidth of these caches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_bandwidth: Option<u32>,
    /// Settings of the whole machine; 0 and 1 for no and yes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub global: BTreeMap<MachineSetting, u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// A setting of a [`Shelter`], by its key in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShelterItem {
    /// [`Shelter::others`].
    Others,
    /// [`Shelter::interrupts`].
    Interrupts,
    /// [`Shelter::kernel_threads`].
    KernelThreads,
    /// [`Shelter::watchdog`].
    Watchdog,
    /// [`Shelter::idle_latency`].
    #[serde(rename = "idle-latency-us")]
    IdleLatency,
    /// [`Shelter::governor`].
    Governor,
    /// [`Shelter::memory`].
    Memory,
    /// [`Shelter::siblings_off`].
    Smt,
    /// [`Shelter::flush`].
    Flush,
    /// [`Shelter::no_fair_server`].
    FairServer,
    /// [`Shelter::l3_ways`].
    #[serde(rename = "l3-ways")]
    CacheWays,
    /// [`Shelter::others_bandwidth`].
    #[serde(rename = "others-memory-bandwidth")]
    OthersBandwidth,
    /// One of [`Shelter::global`].
    #[serde(untagged)]
    Global(MachineSetting),
}

impl ShelterItem {
    /// Its key in a profile.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            ShelterItem::Others => "others",
            ShelterItem::Interrupts => "interrupts",
            ShelterItem::KernelThreads => "kernel-threads",
            ShelterItem::Watchdog => "watchdog",
            ShelterItem::IdleLatency => "idle-latency-us",
            ShelterItem::Governor => "governor",
            ShelterItem::Memory => "memory",
            ShelterItem::Smt => "smt",
            ShelterItem::Flush => "flush",
            ShelterItem::FairServer => "fair-server",
            ShelterItem::CacheWays => "l3-ways",
            ShelterItem::OthersBandwidth => "others-memory-bandwidth",
            ShelterItem::Global(setting) => setting.key(),
        }
    }
}

/// The data that makes a set a fence; stored with the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fencing {
    /// The name of the fence.
    pub name: FenceName,
    /// The profile from which it was created.
    pub profile: String,
    /// The settings of the profile.
    pub shelter: Shelter,
    /// CPUs that took interrupts before the fence, and take them again after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admitted: Vec<CpuId>,
    /// CPUs that were taken off-line for the fence, and the states to which they return after it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stopped: BTreeMap<CpuId, State>,
    /// The result of the last measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

impl Fencing {
    /// What states of CPUs say against it, a sentence each: one of its `cpus` runs no threads, a CPU that must not takes interrupts again, or a sibling runs
    /// threads again.
    pub fn breaches(&self, cpus: &CpuSet, state: impl Fn(CpuId) -> Option<State>) -> Vec<String> {
        let stopped_of = |cpu: CpuId| Some((cpu, state(cpu).filter(|state| !state.runs_threads())?));
        let lost = cpus.iter().filter_map(stopped_of).map(|(cpu, state)| format!("CPU {cpu} is {state}"));
        let admitted = self.admitted.iter().filter(|cpu| state(**cpu).is_some_and(State::takes_interrupts));
        let stopped = self.stopped.keys().filter(|cpu| state(**cpu).is_some_and(State::runs_threads));
        let takes = admitted.map(|cpu| format!("CPU {cpu} takes interrupts"));
        lost.chain(takes).chain(stopped.map(|cpu| format!("CPU {cpu} is on-line"))).collect()
    }
}

/// The result of measuring the noise on a fence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// End of the measurement.
    #[schemars(with = "i64")]
    pub at: WallTime,
    /// Length of the measurement, in nanoseconds.
    #[schemars(with = "u64")]
    pub length: Nanos,
    /// The limit as typed: `50us`.
    pub limit: String,
    /// Whether noise stayed within the limit.
    pub outcome: ProofOutcome,
}

/// Whether noise stayed within a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProofOutcome {
    /// It did.
    Kept,
    /// It did not.
    Broken,
    /// It could not be determined.
    Unknown,
}

/// An existing fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Its data.
    pub fencing: Fencing,
    /// Its set.
    pub set: PsetId,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Differences between the machine and the settings, a line each.
    pub breaches: Vec<String>,
    /// Noise that cannot be moved away, a line each.
    pub stays: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_words() {
        for good in ["trading", "T2", "a-b_c", "x"] {
            assert_eq!(good.parse::<FenceName>().unwrap().as_str(), good);
        }
        for bad in ["", "2x", "-a", "a b", "a/b", "a.b", "ä", "a\n", &"x".repeat(33)] {
            assert!(bad.parse::<FenceName>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_makes_a_set_a_fence_survives_json(
            name in "[a-zA-Z][a-zA-Z0-9_-]{0,31}",
            parts in any::<[bool; 3]>(),
            latency in proptest::option::of(0u64..1_000_000),
            cpus in proptest::collection::vec(0u32..64, 0..4),
        ) {
            let shelter = Shelter {
                others: if parts[0] { Others::Isolated } else { Others::Out },
                interrupts: parts[1],
                kernel_threads: parts[2],
                idle_latency: latency.map(Nanos),
                global: latency.map(|us| (MachineSetting::StatInterval, u32::try_from(us).unwrap())).into_iter().collect(),
                ..Shelter::default()
            };
            let admitted = cpus.into_iter().map(CpuId).collect();
            let proof = parts[2].then(|| Proof {
                at: WallTime(1_700_000_000),
                length: Nanos(5),
                limit: "50us".into(),
                outcome: ProofOutcome::Kept,
            });
            let stopped = parts[1].then_some((CpuId(3), State::NoIntr)).into_iter().collect();
            let fencing =
                Fencing { name: name.parse().unwrap(), profile: "own".into(), shelter, admitted, stopped, proof };
            let text = serde_json::to_string(&fencing).unwrap();
            prop_assert_eq!(serde_json::from_str::<Fencing>(&text).unwrap(), fencing);
        }
    }
}
