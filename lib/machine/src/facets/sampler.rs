//! Statistical samples of what runs where: what `occupancy` shows.

use crate::{Absent, Refusal};
use millpond_model::{CpuId, Nanos, Pid};

/// How often a program was seen on a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The processor.
    pub cpu: CpuId,
    /// The program: the watched process whose own or whose descendants' threads were seen. What descends from
    /// several watched processes counts for the nearest.
    pub pid: Pid,
    /// In how many samples.
    pub samples: u64,
}

/// What was seen in one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Residence {
    /// Length of the interval.
    pub elapsed: Nanos,
    /// Samples that an uninterrupted run on one processor would have given in the interval: 100 %.
    pub full: u64,
    /// One per program and processor where it was seen.
    pub sightings: Vec<Sighting>,
    /// Samples that were lost.
    pub lost: u64,
    /// The programs that still have a living process, ascending.
    pub alive: Vec<Pid>,
}

/// The facet.
pub trait Sampler {
    /// Starts sampling the given processes and their descendants, `frequency_hz` times a second of their run
    /// time. An odd frequency keeps samples out of step with clocks.
    ///
    /// # Errors
    /// [`Absent`] when this machine cannot be sampled.
    fn watch(&self, pids: &[Pid], frequency_hz: u64) -> Result<Box<dyn OccupancyWatch + '_>, Absent>;
}

/// Sampling that runs for as long as the value lives.
pub trait OccupancyWatch {
    /// What was seen since the last call (or the start).
    ///
    /// # Errors
    /// [`Refusal`] when the samples cannot be read.
    fn collect(&mut self) -> Result<Residence, Refusal>;
}
