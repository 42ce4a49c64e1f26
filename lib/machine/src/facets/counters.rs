//! Event counters and time by use, per CPU: what `mpstat` shows.

use crate::{Absent, Refusal};
use millpond_model::Sample;

/// How to watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Read performance events of fenced and sheltered CPUs too, although that interrupts them.
    pub touch_fenced: bool,
    /// Count no events: only time by use is read, which the machine keeps anyway, so that watching disturbs no CPU.
    pub times_only: bool,
}

/// The facet.
pub trait Counters {
    /// The counters since boot: what the machine keeps by itself.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn since_boot(&self) -> Result<Sample, Refusal>;

    /// Starts counting everything that can be counted. The first sample of the watch is its zero.
    ///
    /// # Errors
    /// [`Absent`] when nothing can be counted here.
    fn watch(&self, options: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent>;
}

/// Counters that run for as long as the value lives.
pub trait CounterWatch {
    /// All counters now. Values only ever grow from one sample of the watch to the next, except for a
    /// CPU that left and came back.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn sample(&mut self) -> Result<Sample, Refusal>;

    /// Lines for `-v`: where each column comes from here, and what watching costs.
    fn explain(&self) -> Vec<String>;
}
