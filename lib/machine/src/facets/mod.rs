//! The facets: one trait per noun. Each file has the same shape: what is read, then what can be prepared.

mod accounting;
mod census;
mod clock;
mod controls;
mod counters;
mod dispatcher;
mod disturbances;
mod fences;
mod hardware;
mod images;
mod interrupts;
mod latency;
mod lgroups;
mod pools;
mod processors;
mod programs;
mod psets;
mod sampler;
mod threads;
mod zones;

pub use accounting::{Accounting, PRESSURE_INTERVAL, Usage, UsageWatch, Waited, WakeReason};
pub use census::{Census, CensusOptions, CensusWatch, Depth};
pub use clock::Clock;
pub use controls::{Controlled, Controls, Enforced, Recontrolled, Throttled, throttled_between};
pub use counters::{CounterWatch, Counters, WatchOptions};
pub use dispatcher::{
    ClassScheduler, Dispatcher, LevelCounts, ProcessIds, Reclassed, Scheduled, SchedulerCheck,
    SchedulerCounts, SchedulerEnd, SchedulerOptions, SchedulerOutcome,
};
pub use disturbances::{DisturbanceWatch, Disturbances, Job, WatchedJob};
pub use fences::{
    DevicePlace, FenceWish, Fenced, Fences, Remainder, fences_stay, has_room, siblings, with_fence,
    without_fence,
};
pub use hardware::{
    CpuCounting, CpuReading, EventKind, EventList, Follow, Happening, HardwareCounters, Interface,
    LwpCounting, LwpReading, Tracked, Tracking, Wanted,
};
pub use images::{Image, Images, Mapping, StoppedThread, Symbol};
pub use interrupts::{Interrupt, InterruptKind, Interrupts};
pub use latency::{LatencyProbe, LatencyWatch, Measured, Place, PlacePlan, ProbePlan, Stamps};
pub use lgroups::{Homed, Lgroups, NodeMemory, NodeStatus, Reach, nothing_near};
pub use pools::{Member, Pools, StartOption};
pub use processors::{ProcessorStatus, Processors, Reserved, StateChange};
pub use programs::{Launch, LaunchMode, Program, ProgramExit};
pub use psets::{CreateOptions, Psets};
pub use sampler::{Method, OccupancyWatch, Residence, Sampler, Samples, Sighting};
pub use threads::{LwpStatus, Process, Rebinding, Threads};
pub use zones::{Zone, Zones};
