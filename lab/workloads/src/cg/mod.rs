//! NPB CG: the smallest eigenvalue of a sparse matrix by inverse iteration. It is the best known program that suffers from
//! time-shared CPUs.
//!
//! # Theory
//!
//! Threads meet at a barrier three times in each of 25 steps of each iteration: in class S, every few microseconds. If each
//! thread has a CPU, waits are short and the spinning barrier is the fastest. If two such programs share the CPUs, a thread spins
//! for one that is not running, and a time slice (milliseconds) passes for every few microseconds of work. Processor
//! sets and pools avoid that loss; blocking barriers only reduce it.
//!
//! ```text
//! run      matrix, one untimed iteration, then the clock starts
//!  └ team         a fixed number of threads; replaced only when a malleable run sees another number of CPUs
//!     └ repetition    x = 1, then the class's iterations; each one's zeta is verified
//!        └ iteration      25 steps of conjugate gradient; zeta and the residual
//! ```
//!
//! The calling thread is thread 0 of every team. It decides, between iterations, whether to continue: it writes the verdict before the
//! last barrier of an iteration, so that all threads read the same one after it.
//!
//! Sums are computed in blocks that do not depend on the number of threads. So zeta is identical to the last bit for any number of
//! threads, constant or changing.

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

/// The parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgSpec {
    /// The problem.
    pub class: Class,
    /// Number of threads; by default the number of CPUs that the calling thread may use. In a malleable run, the maximum.
    pub threads: Option<NonZeroU32>,
    /// How threads wait for each other.
    pub barrier: BarrierKind,
    /// Whether to read the allowed CPUs again after each iteration and continue with that many threads.
    pub malleable: bool,
    /// Repeats the whole benchmark until this time has passed at the end of a repetition; `None` for one repetition.
    pub duration: Option<Duration>,
}

impl CgSpec {
    /// One repetition of `class` with a spinning barrier on all allowed CPUs.
    pub fn new(class: Class) -> Self {
        Self { class, threads: None, barrier: BarrierKind::Spinning, malleable: false, duration: None }
    }
}

/// An event during a run. The calling thread passes it to the callback, between iterations; the other threads wait meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum CgEvent {
    /// The matrix is complete.
    Ready {
        /// Its stored elements.
        nonzeros: u64,
        /// Threads of the first team.
        threads: u32,
        /// Seconds of its generation.
        setup_seconds: f64,
    },
    /// The untimed iteration has ended and the measured time begins.
    Started,
    /// An outer iteration has ended.
    Iteration(Iteration),
    /// A repetition has ended.
    Repetition {
        /// Counted from 1.
        repetition: u64,
        /// Its last estimate.
        zeta: f64,
        /// Whether this is the correct value.
        verified: bool,
        /// Time since the start.
        seconds: f64,
    },
    /// A malleable run continues with another number of threads.
    Resized {
        /// The old number.
        from: u32,
        /// The new number.
        to: u32,
        /// Time since the start.
        seconds: f64,
    },
}

/// A line of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Iteration {
    /// The repetition, from 1.
    pub repetition: u64,
    /// The iteration within it, from 1.
    pub iteration: u32,
    /// The number of threads that computed it.
    pub threads: u32,
    /// |x - A z|.
    pub residual: f64,
    /// The eigenvalue estimate.
    pub zeta: f64,
    /// Time since the start, at its end.
    pub seconds: f64,
}

/// Whether the answer is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verification {
    /// Every complete repetition gave the reference value of zeta.
    Passed,
    /// At least one did not.
    Failed,
    /// It was stopped before the first repetition was complete.
    NotReached,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CgResult {
    /// The problem class.
    pub class: Class,
    /// Threads of the last team.
    pub threads: u32,
    /// How they waited.
    pub barrier: BarrierKind,
    /// The number of changes of the number of threads.
    pub resizes: u64,
    /// Complete repetitions.
    pub repetitions: u64,
    /// Outer iterations, including incomplete repetitions.
    pub iterations: u64,
    /// From the end of the untimed iteration to the end of the last one.
    pub seconds: f64,
    /// Nominal millions of operations per second, of all threads, over the measured time.
    pub mops_total: f64,
    /// |x - A z| of the last iteration; 0 before the first.
    pub residual: f64,
    /// The estimate of the last complete repetition, otherwise of the last iteration; 0 before the first.
    pub zeta: f64,
    /// Whether it is right.
    pub verification: Verification,
    /// Whether the stop flag ended it.
    pub stopped: bool,
}

impl CgResult {
    /// Whether there are results and all of them are correct.
    pub fn is_verified(&self) -> bool {
        self.verification == Verification::Passed
    }
}

/// Runs the benchmark in the calling thread and in threads that it starts.
///
/// `stop` is checked after each iteration.
///
/// # Errors
///
/// [`Error::StartThread`] when a thread cannot be started, [`Error::ReadAllowedCpus`] when the number of CPUs is needed and cannot be read.
/// A wrong zeta is not an error but part of the result.
pub fn run(spec: &CgSpec, stop: &AtomicBool, on_event: &mut dyn FnMut(CgEvent)) -> Result<CgResult, Error> {
    run_within(spec, stop, &mut || None, on_event)
}

/// The same with a limit: `most` returns the number of threads, which never exceeds the CPUs that the calling thread may use. It is called
/// between iterations, when the allowed CPUs are read; `None` means no limit.
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
