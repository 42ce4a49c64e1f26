//! Run time of programs by CPU: the data of `occupancy`. Measured if the machine can, else estimated from samples.

use crate::{Absent, Refusal};
use millpond_model::{CpuId, Nanos, Pid};

/// Run time of a program on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The CPU.
    pub cpu: CpuId,
    /// The program: the watched process whose own threads or descendants ran. A descendant of several watched processes counts for the
    /// nearest one.
    pub pid: Pid,
    /// The run time within the interval.
    pub time: Nanos,
}

/// The samples behind an estimated time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Samples {
    /// Samples due in the interval, on all sampled CPUs.
    pub wanted: u64,
    /// Samples that were taken and read; times are fractions of these, per CPU.
    pub taken: u64,
    /// Samples that were taken but lost before they were read. The other missing ones were never taken.
    pub lost: u64,
}

/// Run times in one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Residence {
    /// Length of the interval.
    pub elapsed: Nanos,
    /// One per program and CPU where it ran.
    pub sightings: Vec<Sighting>,
    /// The samples of the estimate; `None` for measured times.
    pub samples: Option<Samples>,
    /// The programs with a live process, ascending.
    pub alive: Vec<Pid>,
    /// The number of times that a thread could not be followed, so that some of its time is missing.
    pub unfollowed: u64,
}

/// The method of measurement. Frequencies are samples per second of CPU time; an odd number avoids lockstep with clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Measured at each context switch if the machine can, else estimated from samples with this frequency.
    MeasureOrSample(u64),
    /// Estimated from samples with this frequency, even if the machine could measure. A simulated machine always measures.
    Sample(u64),
}

/// The facet.
pub trait Sampler {
    /// Starts to watch the given processes and their descendants.
    ///
    /// # Errors
    /// [`Absent`] if this machine supports neither method.
    fn watch(&self, pids: &[Pid], method: Method) -> Result<Box<dyn OccupancyWatch + '_>, Absent>;
}

/// A watch for the lifetime of the value.
pub trait OccupancyWatch {
    /// The run times since the last call (or the start).
    ///
    /// # Errors
    /// [`Refusal`] if the figures cannot be read.
    fn collect(&mut self) -> Result<Residence, Refusal>;

    /// The reason why times are estimated although measurement was requested.
    fn why_sampled(&self) -> Option<&str>;
}
