//! Access of commands to the class scheduler: by its maps, or by the files of a captured root.

use millpond_bpf::Refused;
use millpond_bpf::classes::{Control, ThreadState, Wish};
use std::fmt::Debug;

/// The access to a scheduler. Each method is that of [`Control`].
pub(super) trait Asked: Debug {
    /// The valid tables, as words.
    fn tables(&self) -> Vec<u64>;

    /// Replaces the tables.
    fn set_tables(&self, tables: &[u64]) -> Result<(), Refused>;

    /// The state of a thread.
    fn thread(&self, tid: u32) -> Result<Option<ThreadState>, Refused>;

    /// Changes the class or the parameters of a thread.
    fn set_thread(&self, tid: u32, start: u64, wish: Wish) -> Result<Option<ThreadState>, Refused>;

    /// Removes the wish of a thread.
    fn forget(&self, tid: u32);

    /// A figure of a level.
    fn level(&self, level: i8, figure: usize) -> u64;

    /// A sum over CPUs.
    fn sum(&self, figure: usize) -> u64;

    /// A figure of the timer.
    fn beat(&self, figure: usize) -> u64;
}

impl Asked for Control {
    fn tables(&self) -> Vec<u64> {
        Control::tables(self)
    }

    fn set_tables(&self, tables: &[u64]) -> Result<(), Refused> {
        Control::set_tables(self, tables)
    }

    fn thread(&self, tid: u32) -> Result<Option<ThreadState>, Refused> {
        Control::thread(self, tid)
    }

    fn set_thread(&self, tid: u32, start: u64, wish: Wish) -> Result<Option<ThreadState>, Refused> {
        Control::set_thread(self, tid, start, wish)
    }

    fn forget(&self, tid: u32) {
        Control::forget(self, tid);
    }

    fn level(&self, level: i8, figure: usize) -> u64 {
        Control::level(self, level, figure)
    }

    fn sum(&self, figure: usize) -> u64 {
        Control::sum(self, figure)
    }

    fn beat(&self, figure: usize) -> u64 {
        Control::beat(self, figure)
    }
}
