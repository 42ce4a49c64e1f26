//! The latency probe: a thread that waits for timers on a CPU of its own, and what is needed to give it one.

use crate::{Absent, Change, Refusal};
use millpond_model::{CpuId, LatencySample, Moment, Nanos, Pid, PsetId, Sharer};

/// How a probe is to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlan {
    /// The CPU whose events are seen. The probe has to be bound to it before it goes.
    pub cpu: CpuId,
    /// What the time until the next timer is drawn from; at least one, none of them zero.
    pub intervals: Vec<Nanos>,
    /// Its level in the real-time class, first in first out: 0 to 59.
    pub level: u8,
    /// What tells of the stages.
    pub stamps: Stamps,
}

/// What tells of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// Nothing: only the whole is known.
    None,
    /// Programs of ours in the kernel.
    Programs,
    /// The kernel's own tracer timerlat, which the probe's place has to be made for. It has one interval, the first one.
    Timerlat,
}

/// What a place is wanted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacePlan {
    /// Its CPU.
    pub cpu: CpuId,
    /// Whether other threads and interrupts are left alone.
    pub keep_others: bool,
    /// Its owner.
    pub owner: Pid,
    /// The interval of the tracer timerlat, where that is to measure there.
    pub timerlat: Option<Nanos>,
}

/// A place for a probe: a set of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The set.
    pub set: PsetId,
    /// Its CPU.
    pub cpu: CpuId,
    /// Whether interrupts were driven away for it.
    pub sheltered: bool,
    /// Whether the tracer timerlat was set up for it.
    pub traced: bool,
    /// The process that it was made for.
    pub owner: Pid,
}

/// The facet.
pub trait LatencyProbe {
    /// Makes a probe, which waits until it is told to go.
    ///
    /// # Errors
    /// [`Absent`] when nothing can be measured here, or stages were asked for and cannot be stamped.
    fn begin(&self, plan: &ProbePlan) -> Result<Box<dyn LatencyWatch + '_>, Absent>;

    /// Prepares a set of one CPU for a process. Unless others are kept they are pushed out, and interrupts are driven away; the tracer is set up
    /// where it is wanted. The owner is remembered, so that [`LatencyProbe::abandoned`] tells when its owner was killed.
    ///
    /// # Errors
    /// As for the sets and the states of CPUs; where the tracer is not there, or is in use by another program.
    fn prepare_place(&self, plan: &PlacePlan) -> Result<Change<Place>, Refusal>;

    /// Prepares the end of a place, and that everything is as it was before. What another program ended or changed meanwhile is left alone.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn prepare_leave(&self, place: &Place) -> Result<Change<()>, Refusal>;

    /// Places whose owners are gone.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn abandoned(&self) -> Result<Vec<Place>, Refusal>;
}

/// A probe. It ends with the value.
pub trait LatencyWatch {
    /// The process to be bound to its CPU.
    fn pid(&self) -> Pid;

    /// Locks its memory, enters the real-time class, passes once untimed, and then measures until it is dropped.
    ///
    /// # Errors
    /// [`Refusal`] when the rights are missing, or it is not on its CPU.
    fn go(&mut self) -> Result<(), Refusal>;

    /// What was measured since the last call; returns when so much has come together as a buffer holds, and no later than the deadline, or when a signal
    /// came.
    ///
    /// # Errors
    /// [`Refusal`] when the probe ended: its CPU went off-line, or it was killed.
    fn collect(&mut self, deadline: Nanos) -> Result<Measured, Refusal>;

    /// The longest waits since it went, longest first, each with what happened on the CPU from before the timer until user mode.
    fn worst(&self) -> Vec<(LatencySample, Vec<Moment>)>;

    /// What else ran on the CPU since then, longest first.
    fn sharers(&self) -> Vec<Sharer>;
}

/// What a probe measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// In the order of time.
    pub samples: Vec<LatencySample>,
    /// Samples that found no room since the last call.
    pub lost: u64,
}
