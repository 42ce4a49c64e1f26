//! What commands ask of the scheduler of the classes: by its maps, or in tests by a scheduler in memory.

use millpond_bpf::Refused;
use millpond_bpf::classes::{Control, ThreadState, Wish};
use std::fmt::Debug;

/// A scheduler that can be asked. Each call is that of [`Control`].
pub(super) trait Asked: Debug {
    /// The tables that hold, as words.
    fn tables(&self) -> Vec<u64>;

    /// Other tables hold from now on.
    fn set_tables(&self, tables: &[u64]) -> Result<(), Refused>;

    /// What a thread has.
    fn thread(&self, tid: u32) -> Result<Option<ThreadState>, Refused>;

    /// Has a thread scheduled in another class or with other parameters.
    fn set_thread(&self, tid: u32, start: u64, wish: Wish) -> Result<Option<ThreadState>, Refused>;

    /// Nothing is asked for a thread any more.
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
