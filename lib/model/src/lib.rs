//! The nouns of Millpond as plain data.
//!
//! A *CPU* is the unit of scheduling (a Linux logical CPU, a Solaris virtual processor). A CPU is part of a *core*, a core of a *chip*, and
//! a chip of an *lgroup* (locality group). Together they are the [`Topology`]. Each CPU has a [`State`] with rules for transitions, and
//! belongs to exactly one *processor set* ([`Pset`]). CPUs that were never assigned are in the default set, [`PsetId::DEFAULT`]. Threads
//! (*LWPs*) of processes may be bound to a set, to one CPU, or both.
//!
//! Everything here is a value: this crate does no input or output, reads no clock and knows no machine. The text
//! forms of listings are in `formats`. Only identifiers and CPU lists can be printed and parsed here, because
//! messages everywhere contain them.
//!
//! ```
//! use millpond_model::{CpuId, CpuSet, State};
//!
//! let online: CpuSet = "0-7".parse()?;
//! let isolated: CpuSet = "2-3,6".parse()?;
//! let others = &online - &isolated;
//! assert_eq!(others.to_string(), "0-1,4-5,7");
//! assert_eq!(isolated.to_mask(8), "4c"); // as /proc/irq/default_smp_affinity has it
//! assert!(isolated.contains(CpuId(6)) && isolated.is_disjoint(&others));
//!
//! let state: State = "no-intr".parse()?;
//! assert!(state.runs_threads() && !state.takes_interrupts());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod census;
mod class_params;
mod controls;
mod counted;
mod cpuset;
mod dispatch;
mod disturbance;
mod fence;
mod histogram;
mod ids;
mod kernel_feature;
mod latency;
mod lgroups;
mod node_set;
mod outcome;
pub mod pools;
mod posix;
mod printable;
mod processor_groups;
mod projects;
mod pset;
mod real_time;
mod sample;
mod services;
mod state;
mod time;
mod topology;
mod words;

pub use census::{
    Causes, Doing, FutexFacts, FutexOperation, LockPlace, MICROSTATES, Microstate, Named, ProcessEntry,
    Roster, Spent, Standing, ThreadEntry, Wait, WaitFacts, WaitKind,
};
pub use class_params::{
    Clamped, ClassParams, ClassRequest, NoSuchParams, OutOfRange, most_favoured, nice_of_upri, upri_of_nice,
};
pub use controls::{
    CONTROL_NAMES, CONTROLS, Control, ControlError, ControlHolder, ControlName, ControlSetting,
    ControlValues, CpuCap, HolderKind, Shares,
};
pub use counted::Counted;
pub use cpuset::{CpuSet, ListError};
pub use dispatch::{
    CLASSES, Class, ClassTable, DispatchTables, FX_LEVELS, FssQuantum, NoSuchClass, Quantum, QuantumTable,
    RT_LEVELS, TS_LEVELS, TableError, TsRow, TsTable,
};
pub use disturbance::{
    Cause, Disturbance, DisturbanceKind, Disturbed, Doer, InterruptCount, KernelSettings, Stretch,
};
pub use fence::{
    Fence, FenceName, Fencing, MachineSetting, NoFenceName, Others, Proof, ProofOutcome, Shelter, ShelterItem,
};
pub use histogram::{HISTOGRAM_BUCKETS, Histogram};
pub use ids::{CPU_MAX, ChipId, CoreId, CpuId, LgrpId, Lwp, LwpId, ParseIdError, Pid, PoolId, PsetId};
pub use kernel_feature::KernelFeature;
pub use latency::{LATENCY_ROWS, LATENCY_STAGES, LatencySample, Moment, MomentKind, Sharer};
pub use lgroups::{Affinity, Group, GroupId, GroupKind, LgroupTree, NoSuchAffinity, SetMemory};
pub use node_set::NodeSet;
pub use outcome::{EndlessProcess, Outcome, StuckThread, WorkloadError};
pub use posix::{PosixAnswer, PosixBundle, PosixOption};
pub use printable::{escaped, is_unprintable, printable};
pub use processor_groups::{PgId, Physical, ProcessorGroup, ProcessorGroups, Relationship};
pub use projects::{FIRST_PROJECT, PROJECT_MAX, PROJECT_NAME_MAX, ProjectError, ZoneError};
pub use pset::{Former, Move, Pset, PsetMode};
pub use real_time::{Effect, RealTimeSetting};
pub use sample::{COLUMNS, Column, CpuSample, Sample, Ticks};
pub use services::{NoSuchService, SERVICES, Service};
pub use state::{PARSEABLE_STATES, State, Transition, TransitionError};
pub use time::{Nanos, WallTime};
pub use topology::{Cache, CacheKind, Core, CoreKind, Lgroup, Processor, Topology, TopologyError};
