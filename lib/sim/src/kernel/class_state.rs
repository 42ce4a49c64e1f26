//! The state of scheduling classes: of each thread, and in FSS of each processor set.

use super::defaults::is_default;
use super::ids::{HolderIndex, PartitionId};
use millpond_model::{Class, Quantum};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The highest user priority of time sharing; the lowest is its negative.
pub const UPRI_MAX: i8 = 60;
/// The highest level of the time-sharing table.
pub const TS_TOP: u8 = 59;
/// The system part of the priority of a thread that enters a time-sharing class.
pub const TS_ENTRY: u8 = 29;
/// The global priority of RT level 0.
pub const RT_BASE: i16 = 100;
/// The priority boost of the foreground in the class IA.
pub const IA_BOOST: i8 = 10;

fn unset_quantum() -> Quantum {
    Quantum::Infinite
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn is_unset(quantum: &Quantum) -> bool {
    *quantum == unset_quantum()
}

/// The state of a thread in its class. Saved states omit user parameters: see [`super::recall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassState {
    /// Kernel threads: no state, because the priority never changes.
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

/// State in FSS: FSS(4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FssState {
    /// Its recent usage, weighted by the usage of its project. A higher value means a lower priority.
    pub fsspri: u64,
    /// The resulting level, 1 to 59; 0 without shares.
    pub umdpri: u8,
    /// The user priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upri: i8,
    /// The limit of the user priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: i8,
    /// Ticks left of the slice.
    pub timeleft: i64,
    /// Ticks that it ran since its priority was last computed.
    pub ticks: u64,
    /// The number of the once-per-second update for which `fsspri` last decayed.
    pub decayed: u64,
    /// See [`TsState::back`].
    pub back: bool,
}

/// State in TS and IA: priocntl(1), ts_dptbl(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TsState {
    /// The system's part of the priority, a level.
    pub cpupri: u8,
    /// The user priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upri: i8,
    /// The limit of the user priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: i8,
    /// The boost of the foreground or background of IA; 0 in TS.
    pub boost: i8,
    /// The sum of these as a level. It determines the global priority.
    pub umdpri: u8,
    /// Ticks left of the slice. Can be negative while a preemption is delayed.
    pub timeleft: i64,
    /// Updates since the slice began.
    pub dispwait: u32,
    /// Whether the next preemption puts it at the back of its queue, with a full slice.
    pub back: bool,
    /// `Some` in IA: whether it is in the foreground.
    #[serde(default, skip_serializing_if = "is_default")]
    pub foreground: Option<bool>,
    /// The priority to restore after it was allowed to hold off preemption.
    pub restore: Option<i16>,
}

/// State in TS by the rules of Linux ([`super::eevdf`]). Virtual times are nanoseconds of a thread with the weight of nice 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EevdfState {
    /// The user priority: minus three for each step of nice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upri: i8,
    /// The limit of the user priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uprilim: i8,
    /// Whether it has been queued on a CPU, and so has a virtual time.
    pub placed: bool,
    /// Its virtual time.
    pub vruntime: i64,
    /// The virtual time at which its slice is used up.
    pub deadline: i64,
    /// Its lag when it fell asleep.
    pub lag: i64,
    /// The CPU time that its virtual time includes, in nanoseconds.
    pub charged: u64,
}

/// State in FX: priocntl(1), fx_dptbl(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FxState {
    /// Its level, which is the user priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pri: u8,
    /// The limit of the user priority.
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

/// State in RT: priocntl(1), rt_dptbl(5).
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
    /// The signal that is sent when its slice ends; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signal: u8,
    /// The number of such signals so far.
    pub signalled: u64,
    /// See [`TsState::back`].
    pub back: bool,
}

impl TsState {
    /// The sum of its parts, as a level.
    #[must_use]
    pub fn level(&self) -> u8 {
        let sum = i16::from(self.cpupri) + i16::from(self.upri) + i16::from(self.boost);
        u8::try_from(sum.clamp(0, i16::from(TS_TOP))).unwrap_or(0)
    }
}

/// State of FSS for a processor set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FssSet {
    /// The largest recent `fsspri`.
    pub largest: u64,
    /// The usage of its projects there, by their holder.
    pub projects: BTreeMap<HolderIndex, Usage>,
}

/// The usage of a project on a processor set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Usage {
    /// Decayed, in weighted ticks.
    pub usage: u64,
    /// Ticks of this second.
    pub ticks: u64,
    /// The usage, normalised by shares.
    pub shusage: u64,
}

/// The number of runnable threads of FSS, by partition and holder. An index: see [`super::index`].
pub(super) type Runnable = BTreeMap<(PartitionId, HolderIndex), u64>;

/// The ticks of a quantum. An infinite one is never counted down.
pub(super) fn slice(quantum: Quantum) -> i64 {
    match quantum {
        Quantum::Ticks(ticks) => i64::from(ticks),
        Quantum::Infinite => i64::MAX,
    }
}
