//! All processes and threads of a machine with their microstates: the data of `prstat`.

use crate::{Absent, Refusal};
use millpond_model::{LockPlace, Pid, Roster};
use std::collections::BTreeMap;

/// The level of detail of thread times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Depth {
    /// CPU time only.
    #[default]
    Use,
    /// The times that the machine keeps anyway.
    Kept,
    /// Every microstate that can be measured, possibly with some overhead during the watch.
    Measured,
}

/// The requested data; less is cheaper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CensusOptions {
    /// All threads, in addition to processes.
    pub threads: bool,
    /// The detail of times. Anything but [`Depth::Use`] lists threads.
    pub depth: Depth,
    /// Memory sizes.
    pub memory: bool,
    /// Sets and zones.
    pub places: bool,
    /// System calls, as counted by a watch at [`Depth::Measured`], and the exact time in them. Otherwise the time on a CPU may
    /// be divided between user and kernel mode by clock ticks. This is the most expensive option, because no event is as frequent.
    pub calls: bool,
    /// The causes of waits, as far as a watch at [`Depth::Measured`] can determine them.
    pub causes: bool,
}

impl CensusOptions {
    /// Whether threads are listed.
    #[must_use]
    pub fn lists_threads(&self) -> bool {
        self.threads || self.depth != Depth::Use
    }
}

/// The facet.
pub trait Census {
    /// All processes and threads now. Cumulated values count since the start of each thread. [`Depth::Measured`] then returns no more than
    /// [`Depth::Kept`], unless the machine keeps more.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn list(&self, options: CensusOptions) -> Result<Roster, Refusal>;

    /// Starts a watch. Times of a thread count from its first observation on.
    ///
    /// # Errors
    /// [`Absent`] if watching is not possible here.
    fn watch(&self, options: CensusOptions) -> Result<Box<dyn CensusWatch + '_>, Absent>;

    /// The location of a lock that a thread of a process waited for, by address. `None` if unknown.
    fn lock_place(&self, pid: Pid, address: u64) -> Option<LockPlace>;

    /// The names of users by number, as far as known.
    fn users(&self) -> BTreeMap<u32, String>;
}

/// A watch for the lifetime of the value.
pub trait CensusWatch {
    /// All processes and threads now.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn sample(&mut self) -> Result<Roster, Refusal>;

    /// Enables or disables places (sets and zones) and memory sizes in later samples. Both read further files of each process, so
    /// frequent samples should rarely include them.
    fn set_places(&mut self, places: bool, memory: bool);

    /// Lines that describe the source of the figures and the overhead of the watch.
    fn explain(&self) -> Vec<String>;
}
