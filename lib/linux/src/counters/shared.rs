//! Counting in the kernel: BPF programs at tracepoints that increment counters in shared memory (`lib/bpf`).
//!
//! Reading a performance event of another CPU interrupts that CPU. A BPF program is attached once for the whole machine, for any
//! number of CPUs. It increments a word of the CPU that it runs on. Reading the words is reading memory, without a system call
//! and without an interrupt. One run of a program takes about 10 ns.
//!
//! ```text
//!   tracepoint ──▶ program ──▶ row of its CPU: a word per column
//!                                      ▲
//!                                      └── mapped into our memory
//! ```
//!
//! If a program is not accepted or must not be loaded, its columns are counted by performance events instead. Major faults have
//! no tracepoint. For them a program runs at each occurrence of a performance event, which must be opened on every CPU, but is
//! never read.
//!
//! An event within a program of the same kind (an interrupt that arrives while another one is being counted) is not counted:
//! about one in a million.

use super::perf;
use crate::Os;
use millpond_bpf::count::Counting;
use millpond_model::{COLUMNS, Column, CpuId};
use perf_event_open_sys::bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ;
use std::io;
use std::os::fd::OwnedFd;

/// The column that needs an event per CPU.
const BY_EVENT: Column = Column::Mjf;

/// The attached programs and the columns that they count.
#[derive(Debug)]
pub(super) struct SharedCounters {
    counting: Counting,
    /// Whether [`BY_EVENT`] is counted.
    by_event: bool,
}

impl SharedCounters {
    /// Loads and attaches every program that this kernel accepts.
    ///
    /// # Errors
    /// Why nothing can be counted this way, as the second half of a sentence.
    pub(super) fn open(os: &Os) -> Result<SharedCounters, String> {
        os.takes_programs()?;
        let counting = Counting::open(os.width()).map_err(|why| why.to_string())?;
        let by_event = counting.event_program().is_ok();
        Ok(SharedCounters { counting, by_event })
    }

    /// Opens the event that must exist on each CPU; `None` when no column needs one. Dropping the value closes it.
    ///
    /// # Errors
    /// When the kernel refuses the event.
    pub(super) fn open_on(&self, cpu: CpuId) -> io::Result<Option<OwnedFd>> {
        let Some(program) = self.counting.event_program().ok().filter(|_| self.by_event) else {
            return Ok(None);
        };
        // Period 1 counts each occurrence. The kernel would throttle an event that occurs 100,000 times a second; these wait for
        // a disk.
        perf::open_with_program(PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1, cpu, program).map(Some)
    }

    /// Stops counting the column that needs an event per CPU.
    pub(super) fn give_up_events(&mut self) {
        self.by_event = false;
    }

    /// Whether a column is counted.
    pub(super) fn has(&self, column: Column) -> bool {
        if column == BY_EVENT { self.by_event } else { !self.counting.places(column.index()).is_empty() }
    }

    /// The source of a column.
    pub(super) fn origin(&self, column: Column) -> String {
        match column {
            BY_EVENT if self.by_event => "the event major-faults".to_owned(),
            _ => self.counting.places(column.index()).join(" + "),
        }
    }

    /// The counts of a CPU since the programs were attached.
    pub(super) fn read(&self, cpu: CpuId) -> [Option<u64>; COLUMNS.len()] {
        COLUMNS.map(|column| self.has(column).then(|| self.counting.get(cpu.0, column.index())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_have_the_columns_of_the_listing() {
        assert_eq!(millpond_bpf::count::COLUMNS, COLUMNS.map(Column::word));
    }
}
