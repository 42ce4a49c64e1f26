//! CPU time and run-queue delay by set: the input of poold.

use crate::{Absent, Refusal};
use millpond_model::{CpuId, Nanos, PsetId};
use std::collections::BTreeMap;

/// The time that the threads of a set waited for a CPU, cumulated since the watch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Time that runnable threads were without a CPU, summed over threads.
    Threads(Nanos),
    /// Time in which at least one thread was without a CPU.
    Any(Nanos),
    /// Unknown on this machine.
    Unknown,
}

/// The counters at an instant, cumulated since the watch began. Values never decrease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// The time on the machine's monotonic clock.
    pub at: Nanos,
    /// The busy time of each active CPU.
    pub busy: BTreeMap<CpuId, Nanos>,
    /// The waiting time of each set, including the default one.
    pub waited: BTreeMap<PsetId, Waited>,
}

/// The polling interval on a machine that cannot wait for pressure.
pub const PRESSURE_INTERVAL: Nanos = Nanos::from_millis(10);

/// Pressure: the threads of a set waited for more than the elapsed time divided by this number.
const PRESSED_PART: u64 = 4;

impl Usage {
    /// The waiting time of a set; 0 if unknown.
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

/// The reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// The deadline passed.
    Deadline,
    /// Threads wait for CPUs.
    Pressure,
    /// The pool configuration was written, possibly by the waiting program itself.
    Changed,
}

/// The facet.
pub trait Accounting {
    /// Starts accounting.
    ///
    /// # Errors
    /// [`Absent`] if accounting is not possible here.
    fn watch(&self) -> Result<Box<dyn UsageWatch + '_>, Absent>;

    /// The number of running and runnable threads now, for each set including the default one. A single reading, without the calling thread.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn load(&self) -> Result<BTreeMap<PsetId, u64>, Refusal>;
}

/// Accounting for the lifetime of the value.
pub trait UsageWatch {
    /// The counters now.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn sample(&mut self) -> Result<Usage, Refusal>;

    /// Waits until `deadline` of the machine's clock, until threads wait for CPUs, until the pool configuration is written (if the machine
    /// can report that), or until the program is asked to stop.
    fn wait(&mut self, deadline: Nanos) -> WakeReason;

    /// Lines that describe the source of the figures on this machine.
    fn explain(&self) -> Vec<String>;
}
