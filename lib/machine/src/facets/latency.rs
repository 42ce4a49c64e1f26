//! The latency probe: a thread that waits for timers on a reserved CPU, and the reservation of that CPU.

use crate::{Absent, Change, Refusal};
use millpond_model::{CpuId, LatencySample, Moment, Nanos, Pid, PsetId, Sharer};

/// The parameters of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlan {
    /// The CPU whose events are recorded. The probe must be bound to it before it starts.
    pub cpu: CpuId,
    /// The timer intervals to choose from; at least one, none of them zero.
    pub intervals: Vec<Nanos>,
    /// Its level in the real-time class (FIFO): 0 to 59.
    pub level: u8,
    /// The source of the time stamps of stages.
    pub stamps: Stamps,
}

/// The source of the time stamps of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// None: only the total is known.
    None,
    /// BPF programs of Millpond.
    Programs,
    /// The kernel tracer timerlat, which the place must be prepared for. It has one interval, the first one.
    Timerlat,
}

/// The parameters of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacePlan {
    /// Its CPU.
    pub cpu: CpuId,
    /// Whether other threads and interrupts may stay.
    pub keep_others: bool,
    /// Its owner.
    pub owner: Pid,
    /// The interval of the tracer timerlat, if it is used.
    pub timerlat: Option<Nanos>,
}

/// A place for a probe: a reserved set of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The set.
    pub set: PsetId,
    /// Its CPU.
    pub cpu: CpuId,
    /// Whether interrupts were moved away for it.
    pub sheltered: bool,
    /// Whether the tracer timerlat was set up for it.
    pub traced: bool,
    /// Its owner.
    pub owner: Pid,
}

/// The facet.
pub trait LatencyProbe {
    /// Creates a probe, which waits for [`LatencyWatch::go`].
    ///
    /// # Errors
    /// [`Absent`] if measurement is not possible here, or the requested stages cannot be stamped.
    fn begin(&self, plan: &ProbePlan) -> Result<Box<dyn LatencyWatch + '_>, Absent>;

    /// Prepares a set of one CPU for a process. Unless `keep_others` is set, other threads and interrupts are moved away. The tracer is set up
    /// if requested. The owner is recorded, so that [`LatencyProbe::abandoned`] finds the place after its owner was killed.
    ///
    /// # Errors
    /// As for sets and states of CPUs; also if the tracer is missing, or is in use by another program.
    fn prepare_place(&self, plan: &PlacePlan) -> Result<Change<Place>, Refusal>;

    /// Prepares the end of a place, which restores the former state. Changes by other programs in the meantime are left alone.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn prepare_leave(&self, place: &Place) -> Result<Change<()>, Refusal>;

    /// Places whose owners no longer exist.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn abandoned(&self) -> Result<Vec<Place>, Refusal>;
}

/// A probe for the lifetime of the value.
pub trait LatencyWatch {
    /// The process to be bound to its CPU.
    fn pid(&self) -> Pid;

    /// Locks its memory, enters the real-time class, runs one untimed cycle, and then measures until it is dropped.
    ///
    /// # Errors
    /// [`Refusal`] if permission is missing, or it is not on its CPU.
    fn go(&mut self) -> Result<(), Refusal>;

    /// The measurements since the last call. Returns when the buffer is full, at the deadline, or after a signal.
    ///
    /// # Errors
    /// [`Refusal`] if the probe ended: its CPU went off-line, or it was killed.
    fn collect(&mut self, deadline: Nanos) -> Result<Measured, Refusal>;

    /// The longest waits since the start, longest first, each with the activity on the CPU from before the timer until user mode.
    fn worst(&self) -> Vec<(LatencySample, Vec<Moment>)>;

    /// Other activity on the CPU since the start, longest first.
    fn sharers(&self) -> Vec<Sharer>;
}

/// The measurements of a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// In order of time.
    pub samples: Vec<LatencySample>,
    /// Samples since the last call that were lost because the buffer was full.
    pub lost: u64,
}
