//! What classes remember: of each thread, and FSS of each processor set.

use super::defaults::is_default;
use super::ids::{HolderIndex, PartitionId};
use millpond_model::{Class, Quantum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The highest user part of a time-sharing priority; the lowest is its negative.
pub const UPRI_MAX: i8 = 60;
/// The highest level of the time-sharing table.
pub const TS_TOP: u8 = 59;
/// The system part of the priority of a thread that enters a time-sharing class.
pub const TS_ENTRY: u8 = 29;
/// The global priority of RT level 0.
pub const RT_BASE: i16 = 100;
/// What being in the foreground is worth in the class IA.
pub const IA_BOOST: i8 = 10;

fn unset_quantum() -> Quantum {
    Quantum::Infinite
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_unset(quantum: &Quantum) -> bool {
    *quantum == unset_quantum()
}

/// What a class remembers about a thread. What a user has set is not saved: see [`super::recall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassState {
    /// Of the kernel: nothing, its priority never moves.
    Sys,
    /// Time sharing, or interactive.
    Ts(TsState),
    /// Fixed priority.
    Fx(FxState),
    /// Real time.
    Rt(RtState),
    /// Fair share.
    Fss(FssState),
    /// Time sharing by the rules of Linux.
    Eevdf(EevdfState),
}

impl ClassState {
    /// The class.
    #[must_use]
    #[inline]
    pub fn class(&self) -> Class {
        match self {
            ClassState::Sys => Class::Sys,
            ClassState::Ts(TsState { foreground: None, .. }) | ClassState::Eevdf(_) => Class::Ts,
            ClassState::Ts(TsState { foreground: Some(_), .. }) => Class::Ia,
            ClassState::Fx(_) => Class::Fx,
            ClassState::Rt(_) => Class::Rt,
            ClassState::Fss(_) => Class::Fss,
        }
    }
}

/// Of FSS (reference §3.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FssState {
    /// What it used of late, weighed by what its project used; the more, the worse its priority.
    pub fsspri: u64,
    /// The level that results, 1 to 59; 0 without shares.
    pub umdpri: u8,
    /// The user's part, which makes it nice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upri: i8,
    /// What the user's part may be at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: i8,
    /// Ticks left of the slice.
    pub timeleft: i64,
    /// Ticks that it ran since it was ranked.
    pub ticks: u64,
    /// The update of a second for which `fsspri` last decayed.
    pub decayed: u64,
    /// See [`TsState::back`].
    pub back: bool,
}

/// Of TS and IA (reference §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsState {
    /// The system's part of the priority, a level.
    pub cpupri: u8,
    /// The user's part.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upri: i8,
    /// What the user's part may be at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: i8,
    /// What being in the foreground or in the background adds; 0 in TS.
    pub boost: i8,
    /// The sum of these, a level: what makes the global priority.
    pub umdpri: u8,
    /// Ticks left of the slice. May go below zero in the kernel.
    pub timeleft: i64,
    /// Updates since the slice began.
    pub dispwait: u32,
    /// Whether it goes to the back of its queue when it is next preempted, with a full slice.
    pub back: bool,
    /// `Some` in IA: whether it is in the foreground.
    #[serde(default, skip_serializing_if = "is_default")]
    pub foreground: Option<bool>,
    /// The priority to return to after it was allowed to hold off preemption.
    pub restore: Option<i16>,
}

/// Of TS by the rules of Linux ([`super::eevdf`]). Virtual times are nanoseconds of a thread of the usual weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EevdfState {
    /// The user's part: three for each step of nice, the other way round.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upri: i8,
    /// What the user's part may be at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: i8,
    /// It has had a place on a CPU, and so a virtual time.
    pub placed: bool,
    /// Its virtual time.
    pub vruntime: i64,
    /// When its slice is used up.
    pub deadline: i64,
    /// How far behind it was when it fell asleep.
    pub lag: i64,
    /// For how much of its CPU time its virtual time went on, in nanoseconds.
    pub charged: u64,
}

/// Of FX (reference §3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FxState {
    /// Its level, the user's priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pri: u8,
    /// What that may be at most.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: u8,
    /// Its slice.
    #[serde(default = "unset_quantum", skip_serializing_if = "is_unset")]
    pub quantum: Quantum,
    /// Ticks left of it.
    pub timeleft: i64,
    /// See [`TsState::back`].
    pub back: bool,
}

/// Of RT (reference §3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtState {
    /// Its level.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pri: u8,
    /// Its slice.
    #[serde(default = "unset_quantum", skip_serializing_if = "is_unset")]
    pub quantum: Quantum,
    /// Ticks left of it.
    pub timeleft: i64,
    /// The signal that it gets when its slice ends; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signal: u8,
    /// How many it got.
    pub signalled: u64,
    /// See [`TsState::back`].
    pub back: bool,
}

impl TsState {
    /// The level that results from its parts.
    #[must_use]
    pub fn level(&self) -> u8 {
        let sum = i16::from(self.cpupri) + i16::from(self.upri) + i16::from(self.boost);
        u8::try_from(sum.clamp(0, i16::from(TS_TOP))).unwrap_or(0)
    }
}

/// What FSS knows of a processor set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FssSet {
    /// The largest `fsspri` of late.
    pub largest: u64,
    /// What its projects used there, by their holder.
    pub projects: BTreeMap<HolderIndex, Usage>,
}

/// What a project used on a processor set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Usage {
    /// Decayed, in weighted ticks.
    pub usage: u64,
    /// Of this second.
    pub ticks: u64,
    /// Normalised by shares.
    pub shusage: u64,
}

/// Threads of FSS that could run, by partition and by what holds them. An index: see [`super::index`].
pub(super) type Runnable = BTreeMap<(PartitionId, HolderIndex), u64>;

/// A quantum as ticks left; one that never ends is not counted.
pub(super) fn slice(quantum: Quantum) -> i64 {
    match quantum {
        Quantum::Ticks(ticks) => i64::from(ticks),
        Quantum::Infinite => i64::MAX,
    }
}
