//! CPU time and waiting by set: the input of poold.

use crate::{Absent, Refusal};
use millpond_model::{CpuId, Nanos, PsetId};
use std::collections::BTreeMap;

/// How the threads of a set waited for a CPU, cumulated since the watch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Time that runnable threads were without a CPU, added up over threads.
    Threads(Nanos),
    /// Time in which at least one thread was without a CPU.
    Any(Nanos),
    /// It cannot be told here.
    Unknown,
}

/// The counters at an instant, cumulated since the watch began. Values never go back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// When, on the machine's monotonic clock.
    pub at: Nanos,
    /// For each CPU that runs threads, how long it was used.
    pub busy: BTreeMap<CpuId, Nanos>,
    /// For each set, the default one among them, how its threads waited.
    pub waited: BTreeMap<PsetId, Waited>,
}

/// How often a machine that cannot wait for pressure looks for it.
pub const PRESSURE_INTERVAL: Nanos = Nanos::from_millis(10);

/// Pressure: the threads of a set waited for more than one part in so many of the time.
const PRESSED_PART: u64 = 4;

impl Usage {
    /// How long the threads of a set waited; 0 where that is unknown.
    #[must_use]
    pub fn waited_ns(&self, set: PsetId) -> u64 {
        match self.waited.get(&set) {
            Some(Waited::Threads(time) | Waited::Any(time)) => time.0,
            Some(Waited::Unknown) | None => 0,
        }
    }

    /// Whether threads of a set waited for CPUs since `before`.
    #[must_use]
    pub fn is_pressed_since(&self, before: &Usage) -> bool {
        let passed = (self.at - before.at).0;
        let more = |set| self.waited_ns(set).saturating_sub(before.waited_ns(set));
        self.waited.keys().any(|set| more(*set) * PRESSED_PART > passed)
    }
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// Its time was over.
    Deadline,
    /// Threads wait for CPUs.
    Pressure,
    /// The configuration of the pools was written, perhaps by the program that waits.
    Changed,
}

/// The facet.
pub trait Accounting {
    /// Starts to account.
    ///
    /// # Errors
    /// [`Absent`] when nothing can be accounted here.
    fn watch(&self) -> Result<Box<dyn UsageWatch + '_>, Absent>;

    /// How many threads run or wait for a CPU now, for each set, the default one among them. One look, without the thread that looks.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn load(&self) -> Result<BTreeMap<PsetId, u64>, Refusal>;
}

/// Accounting that goes on for as long as the value lives.
pub trait UsageWatch {
    /// The counters now.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn sample(&mut self) -> Result<Usage, Refusal>;

    /// Waits until `deadline` of the machine's clock, or until threads wait for CPUs, or until the configuration of the
    /// pools is written, where the machine can tell, or until the program is asked to stop.
    fn wait(&mut self, deadline: Nanos) -> WakeReason;

    /// Lines that say where the figures come from here.
    fn explain(&self) -> Vec<String>;
}
