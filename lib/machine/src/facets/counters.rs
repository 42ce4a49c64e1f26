//! Event counters and time by use, per CPU: the data of `mpstat`.

use crate::{Absent, Refusal};
use millpond_model::Sample;

/// Options of a watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Read performance events of fenced and sheltered CPUs too, although that interrupts them.
    pub touch_fenced: bool,
    /// Count no events: read only time by use, which the machine keeps anyway, so that watching disturbs no CPU.
    pub times_only: bool,
}

/// The facet.
pub trait Counters {
    /// The counters since boot, as the machine keeps them.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn since_boot(&self) -> Result<Sample, Refusal>;

    /// Starts counting all available events. The first sample of the watch is the zero point.
    ///
    /// # Errors
    /// [`Absent`] if counting is not possible here.
    fn watch(&self, options: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent>;
}

/// Counters for the lifetime of the value.
pub trait CounterWatch {
    /// All counters now. Values never decrease from one sample of the watch to the next, except for a CPU that was off-line in between.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn sample(&mut self) -> Result<Sample, Refusal>;

    /// Lines for `-v`: the source of each column here, and the overhead of the watch.
    fn explain(&self) -> Vec<String>;
}
