//! Which program ran where, and for how long: what `occupancy` shows. Measured where the machine can, else estimated from samples.

use crate::{Absent, Refusal};
use millpond_model::{CpuId, Nanos, Pid};

/// How long a program ran on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The CPU.
    pub cpu: CpuId,
    /// The program: the watched process whose own or whose descendants' threads ran. What descends from
    /// several watched processes counts for the nearest.
    pub pid: Pid,
    /// How long, of the interval.
    pub time: Nanos,
}

/// What samples a time was estimated from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Samples {
    /// Samples that were due in the interval, on all CPUs that are sampled.
    pub wanted: u64,
    /// Samples that were taken and read: what times are shares of, CPU by CPU.
    pub taken: u64,
    /// Samples that were taken and lost before they were read. Others of those wanted were never taken.
    pub lost: u64,
}

/// What ran in one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Residence {
    /// Length of the interval.
    pub elapsed: Nanos,
    /// One per program and CPU where it ran.
    pub sightings: Vec<Sighting>,
    /// What times were estimated from; `None` where they were measured.
    pub samples: Option<Samples>,
    /// The programs that still have a living process, ascending.
    pub alive: Vec<Pid>,
    /// How often a thread could not be followed, so that time of it is missing.
    pub unfollowed: u64,
}

/// How times are found. Frequencies are samples a second of each CPU's time; an odd one keeps out of step
/// with clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Measured at each switch where the machine can; else estimated from so many samples.
    MeasureOrSample(u64),
    /// Estimated from so many samples, also where the machine could measure. A simulated machine takes none, and measures.
    Sample(u64),
}

/// The facet.
pub trait Sampler {
    /// Starts to watch the given processes and their descendants.
    ///
    /// # Errors
    /// [`Absent`] when this machine can neither measure nor be sampled.
    fn watch(&self, pids: &[Pid], method: Method) -> Result<Box<dyn OccupancyWatch + '_>, Absent>;
}

/// A watch that goes on for as long as the value lives.
pub trait OccupancyWatch {
    /// What ran since the last call (or the start).
    ///
    /// # Errors
    /// [`Refusal`] when the figures cannot be read.
    fn collect(&mut self) -> Result<Residence, Refusal>;

    /// Why times are estimated from samples although none were asked for.
    fn why_sampled(&self) -> Option<&str>;
}
