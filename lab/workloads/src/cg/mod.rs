//! NPB CG: the smallest eigenvalue of a sparse matrix by inverse iteration, and the best known victim of CPUs
//! that are shared in time.
//!
//! # Theory
//!
//! Threads meet at a barrier three times in each of 25 steps of each iteration: in class S, every few microseconds. Where each
//! thread has a CPU, waiting is short and the spinning barrier the fastest. Where two such programs share
//! the CPUs, a thread spins for one that is not running, so that a time slice (milliseconds) passes for every few
//! microseconds of work. That is the loss that processor sets and pools cure, and blocking barriers only ease.
//!
//! ```text
//! run      matrix, one untimed iteration, then the clock starts
//!  └ team         threads of one count; ended and begun anew only when a malleable run sees another number of CPUs
//!     └ repetition    x = 1, then the class's iterations; each one's zeta is verified
//!        └ iteration      25 steps of conjugate gradient; zeta and the residual
//! ```
//!
//! The calling thread is thread 0 of every team, and the one that decides, between iterations, whether to go on: it writes the
//! verdict before the last barrier of an iteration, so that all threads read the same one after it.
//!
//! Sums are made of blocks that do not depend on the number of threads, so zeta is the same to the last bit for any number
//! of threads, changing or not.

mod barrier;
mod class;
mod matrix;
mod partition;
mod random;
mod report;
mod shared;
mod team;
mod worker;

pub use barrier::{BarrierKind, UnknownBarrier};
pub use class::{Class, Problem, UnknownClass};
pub use report::{header, report, summary};

use crate::Error;
use crate::cpus::allowed_cpu_count;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgSpec {
    /// The problem.
    pub class: Class,
    /// How many threads; without it as many as the CPUs that the calling thread may use. In a malleable run, the most.
    pub threads: Option<NonZeroU32>,
    /// How they wait for each other.
    pub barrier: BarrierKind,
    /// Read the allowed CPUs again after each iteration and go on with that many threads.
    pub malleable: bool,
    /// Repeat the whole benchmark until this time is reached at the end of a repetition; without it one repetition.
    pub duration: Option<Duration>,
}

impl CgSpec {
    /// One repetition of `class` with a spinning barrier on all allowed CPUs.
    pub fn new(class: Class) -> Self {
        Self { class, threads: None, barrier: BarrierKind::Spinning, malleable: false, duration: None }
    }
}

/// What happens while it runs. Given to the callback by the calling thread, between iterations: the other threads wait meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum CgEvent {
    /// The matrix is there.
    Ready {
        /// Its stored elements.
        nonzeros: u64,
        /// Threads of the first team.
        threads: u32,
        /// Time that making it took.
        setup_seconds: f64,
    },
    /// The untimed iteration is over and the clock runs.
    Started,
    /// An outer iteration is over.
    Iteration(Iteration),
    /// A repetition is over.
    Repetition {
        /// Counted from 1.
        repetition: u64,
        /// Its last estimate.
        zeta: f64,
        /// Whether that is the right one.
        verified: bool,
        /// Time since the start.
        seconds: f64,
    },
    /// A malleable run goes on with another number of threads.
    Resized {
        /// Before.
        from: u32,
        /// From now on.
        to: u32,
        /// Time since the start.
        seconds: f64,
    },
}

/// One line of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Iteration {
    /// Which repetition, counted from 1.
    pub repetition: u64,
    /// Which iteration of it, counted from 1.
    pub iteration: u32,
    /// How many threads computed it.
    pub threads: u32,
    /// |x - A z|.
    pub residual: f64,
    /// The eigenvalue estimate.
    pub zeta: f64,
    /// Time since the start, at its end.
    pub seconds: f64,
}

/// Whether the answer was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verification {
    /// Every complete repetition gave the reference's zeta.
    Passed,
    /// At least one did not.
    Failed,
    /// It was stopped before the first repetition was complete.
    NotReached,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CgResult {
    /// The problem.
    pub class: Class,
    /// Threads of the last team.
    pub threads: u32,
    /// How they waited.
    pub barrier: BarrierKind,
    /// How often the number of threads changed.
    pub resizes: u64,
    /// Complete repetitions.
    pub repetitions: u64,
    /// Outer iterations, of incomplete repetitions too.
    pub iterations: u64,
    /// From the end of the untimed iteration to the end of the last one.
    pub seconds: f64,
    /// Nominal millions of operations per second, of all threads, over the whole time.
    pub mops_total: f64,
    /// |x - A z| of the last iteration; 0 before the first.
    pub residual: f64,
    /// The estimate of the last complete repetition, or else of the last iteration; 0 before the first.
    pub zeta: f64,
    /// Whether it was right.
    pub verification: Verification,
    /// The stop flag ended it.
    pub stopped: bool,
}

impl CgResult {
    /// Whether there was an answer and every answer was right.
    pub fn is_verified(&self) -> bool {
        self.verification == Verification::Passed
    }
}

/// Runs the benchmark in the calling thread and those it starts.
///
/// `stop` is looked at after each iteration.
///
/// # Errors
///
/// [`Error::StartThread`] when a thread cannot be had, [`Error::ReadAllowedCpus`] when the number of CPUs is needed and cannot be read.
/// A wrong zeta is no error but part of the result.
pub fn run(spec: &CgSpec, stop: &AtomicBool, on_event: &mut dyn FnMut(CgEvent)) -> Result<CgResult, Error> {
    run_within(spec, stop, &mut || None, on_event)
}

/// The same for a program that is told how many CPUs it has: it takes as many threads as `most` says, and never more than the CPUs
/// that the calling thread may use. `most` is asked where those are read, between iterations; `None` leaves it to them.
///
/// # Errors
///
/// As for [`run`].
pub fn run_within(
    spec: &CgSpec,
    stop: &AtomicBool,
    most: &mut dyn FnMut() -> Option<usize>,
    on_event: &mut dyn FnMut(CgEvent),
) -> Result<CgResult, Error> {
    let mut count = || Ok(allowed_cpu_count()?.min(most().unwrap_or(usize::MAX)));
    team::run(spec, stop, &mut count, on_event)
}
