//! Every process and thread of a machine, and where its time goes: what `prstat` shows.

use crate::{Absent, Refusal};
use millpond_model::{LockPlace, Pid, Roster};
use std::collections::BTreeMap;

/// How closely the time of threads is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Depth {
    /// CPU time only.
    #[default]
    Use,
    /// As far as the machine keeps it by itself.
    Kept,
    /// Every microstate that can be measured, which may cost the machine something while the watch lives.
    Measured,
}

/// What is asked for; less is cheaper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CensusOptions {
    /// Every thread, and not only processes.
    pub threads: bool,
    /// Where the time went. Anything but [`Depth::Use`] lists threads.
    pub depth: Depth,
    /// Sizes.
    pub memory: bool,
    /// Sets and zones.
    pub places: bool,
    /// System calls, as a watch at [`Depth::Measured`] counts them; and what time in them is, exactly. Without it the time on a CPU may
    /// be divided into user mode and the kernel by clock ticks. It costs more than everything else, for nothing happens as often.
    pub calls: bool,
    /// What waits were for, as far as a watch at [`Depth::Measured`] can tell it.
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
    /// Everything that lives now. What is cumulated counts since the beginning of each thread, so that [`Depth::Measured`] gives no more than
    /// [`Depth::Kept`] where a machine keeps no more.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn list(&self, options: CensusOptions) -> Result<Roster, Refusal>;

    /// Starts to watch. Where the time of a thread went counts from its first sight on.
    ///
    /// # Errors
    /// [`Absent`] when nothing can be watched here.
    fn watch(&self, options: CensusOptions) -> Result<Box<dyn CensusWatch + '_>, Absent>;

    /// Where a lock lies that a thread of a process waited for, by its address. `None` where that cannot be told.
    fn lock_place(&self, pid: Pid, address: u64) -> Option<LockPlace>;

    /// The names of users by their numbers, as far as they are known.
    fn users(&self) -> BTreeMap<u32, String>;
}

/// A watch that goes on for as long as the value lives.
pub trait CensusWatch {
    /// Everything that lives now.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn sample(&mut self) -> Result<Roster, Refusal>;

    /// From now on samples tell where processes and threads are, and what processes have in memory, or no longer: both take files of each process, so
    /// that who looks often asks for them seldom.
    fn set_places(&mut self, places: bool, memory: bool);

    /// Lines that say where the figures come from here, and what watching costs.
    fn explain(&self) -> Vec<String>;
}
