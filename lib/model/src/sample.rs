//! Raw counters at an instant. Rates are computed from two samples elsewhere (`lib/observe`).

use crate::{CpuId, Nanos, PsetId, WallTime};
use serde::{Deserialize, Serialize};

crate::words! {
    /// The event columns of `mpstat`, in the order of its listing. The manual mpstat(8) defines the counts, with their differences on
    /// Linux.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Column {
        /// Minor faults.
        Minf = "minf",
        /// Major faults.
        Mjf = "mjf",
        /// Cross calls sent.
        Xcal = "xcal",
        /// Interrupts.
        Intr = "intr",
        /// Interrupts handled in threads.
        Ithr = "ithr",
        /// Context switches.
        Csw = "csw",
        /// Involuntary context switches.
        Icsw = "icsw",
        /// Threads that arrived from another CPU.
        Migr = "migr",
        /// Mutexes not acquired at the first attempt.
        Smtx = "smtx",
        /// Reader/writer locks not acquired at the first attempt.
        Srw = "srw",
        /// System calls.
        Syscl = "syscl",
    }
}

/// Every column, in listing order.
pub const COLUMNS: [Column; 11] = Column::ALL;

impl Column {
    /// Its place in [`COLUMNS`] and in [`CpuSample::events`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Time of a CPU by use, since boot. Never decreasing while the CPU stays on-line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticks {
    /// User mode.
    pub user: Nanos,
    /// Kernel mode, including interrupts.
    pub sys: Nanos,
    /// Idle with outstanding input or output. Solaris always reports 0.
    pub wait: Nanos,
    /// Idle.
    pub idle: Nanos,
    /// Stolen by the hypervisor.
    pub steal: Nanos,
}

impl Ticks {
    /// The sum of all times.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.user + self.sys + self.wait + self.idle + self.steal
    }
}

/// The counters of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSample {
    /// Its number.
    pub cpu: CpuId,
    /// Its set ([`PsetId::DEFAULT`] for none).
    pub set: PsetId,
    /// Events by [`Column::index`]; `None` if not counted.
    pub events: [Option<u64>; COLUMNS.len()],
    /// Time by use.
    pub ticks: Ticks,
}

/// The counters of all active CPUs at an instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The time on the machine's monotonic clock.
    pub at: Nanos,
    /// The wall-clock time.
    pub wall: WallTime,
    /// Active CPUs, ascending.
    pub cpus: Vec<CpuSample>,
    /// The existing sets except the default one, ascending.
    pub sets: Vec<PsetId>,
    /// Missing data with the reason, one sentence each.
    pub missing: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_total_is_the_sum_of_its_parts(parts in proptest::array::uniform5(0u64..u64::MAX / 8)) {
            let [user, sys, wait, idle, steal] = parts.map(Nanos);
            let ticks = Ticks { user, sys, wait, idle, steal };
            prop_assert_eq!(ticks.total().0, parts.iter().sum::<u64>());
        }
    }

    #[test]
    fn columns_stand_where_their_index_says() {
        for (index, column) in COLUMNS.iter().enumerate() {
            assert_eq!(column.index(), index);
        }
    }
}
