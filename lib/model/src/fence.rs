//! Fences: processor sets with a name that more is kept away from than other threads.

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

/// A text that names no fence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name is a letter, then letters, digits, `-` and `_`, {NAME_MAX} at most")]
pub struct NoFenceName;

impl FenceName {
    /// Its text.
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

/// What becomes of other programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Others {
    /// They are kept out, and the kernel does not balance load inside: a thread stays on the CPU on which it is.
    Isolated,
    /// They are kept out, and load is balanced inside.
    #[default]
    Out,
    /// They may run there as well.
    In,
}

/// A setting of the whole machine that a fence may ask for beside.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MachineSetting {
    /// Whether pages move to the NUMA node that uses them; for that the kernel takes them from their program now and then.
    NumaBalancing,
    /// Seconds between two collections of what a CPU has counted of memory.
    #[serde(rename = "stat-interval-s")]
    StatInterval,
    /// Whether timers of idle CPUs go to busy ones.
    TimerMigration,
    /// Whether CPUs may run faster than they can for long.
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

/// What is kept away from the CPUs of a fence, and how they are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shelter {
    /// Other programs.
    pub others: Others,
    /// Interrupts of devices, and with them what is steered like these: unbound work, network packets.
    #[serde(skip_serializing_if = "is_not")]
    pub interrupts: bool,
    /// Kernel threads that are bound to no CPU.
    #[serde(skip_serializing_if = "is_not")]
    pub kernel_threads: bool,
    /// The detectors of lockups.
    #[serde(skip_serializing_if = "is_not")]
    pub watchdog: bool,
    /// Idle states that take longer to leave are not entered; 0: none that takes any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_latency: Option<Nanos>,
    /// Who chooses the frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Where the memory of what is bound to it comes from.
    #[serde(skip_serializing_if = "SetMemory::is_all")]
    pub memory: SetMemory,
    /// The other strands of its cores are taken off-line.
    #[serde(skip_serializing_if = "is_not")]
    pub siblings_off: bool,
    /// Its CPUs go off-line and come back once, so that timers and work which were queued there are done elsewhere.
    #[serde(skip_serializing_if = "is_not")]
    pub flush: bool,
    /// Ordinary threads get no time there that real-time threads do not leave.
    #[serde(skip_serializing_if = "is_not")]
    pub no_fair_server: bool,
    /// So many ways of each L3 cache that its CPUs share are for it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_ways: Option<u32>,
    /// Others have at most so many percent of the memory bandwidth behind these caches.
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

/// A part of a [`Shelter`], as a profile names it.
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

/// What makes a set a fence: it is kept with the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fencing {
    /// What it is called.
    pub name: FenceName,
    /// The profile that it was made by.
    pub profile: String,
    /// What that asked for.
    pub shelter: Shelter,
    /// The CPUs that took interrupts before, and take them again when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admitted: Vec<CpuId>,
    /// The CPUs that were taken off-line for it, and the states to which they come back when it ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stopped: BTreeMap<CpuId, State>,
    /// What was measured there last.
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

/// What came of measuring whether a fence is quiet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// When it ended.
    #[schemars(with = "i64")]
    pub at: WallTime,
    /// How long was measured, in nanoseconds.
    #[schemars(with = "u64")]
    pub length: Nanos,
    /// The limit, as it was typed: `50us`.
    pub limit: String,
    /// Whether it was kept.
    pub outcome: ProofOutcome,
}

/// Whether a limit was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProofOutcome {
    /// It was.
    Kept,
    /// It was not.
    Broken,
    /// It cannot be told.
    Unknown,
}

/// A fence that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// What makes it one.
    pub fencing: Fencing,
    /// Its set.
    pub set: PsetId,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Where the machine is not as it should be, a line each.
    pub breaches: Vec<String>,
    /// What comes there all the same and cannot be moved, a line each.
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
