//! Counting in the kernel: programs at tracepoints that add to memory which we share with it (`lib/bpf`).
//!
//! A performance event per CPU and kind of event must be asked for its value, which interrupts that
//! CPU. Here a program is attached once for the whole machine, whatever the number of CPUs; it
//! adds one to a word of the CPU that it runs on, and reading all words is reading memory: no system
//! call and without an interrupt. A program takes some 10 ns.
//!
//! ```text
//!   tracepoint ──▶ program ──▶ row of its CPU: a word per column
//!                                      ▲
//!                                      └── mapped into our memory
//! ```
//!
//! Where one is not accepted, or may not be loaded, its columns are counted by performance
//! events instead. Major faults have no tracepoint: there a program runs at each event of a CPU's own,
//! which must be opened on every CPU, but need not be read either.
//!
//! An event within a program of the same kind (an interrupt that comes while another one is being counted) is
//! not counted: some in a million.

use super::perf;
use crate::Os;
use millpond_bpf::count::Counting;
use millpond_model::{COLUMNS, Column, CpuId};
use perf_event_open_sys::bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ;
use std::io;
use std::os::fd::OwnedFd;

/// The column that is counted by an event per CPU.
const BY_EVENT: Column = Column::Mjf;

/// Programs at work, and what they count.
#[derive(Debug)]
pub(super) struct SharedCounters {
    counting: Counting,
    /// Whether [`BY_EVENT`] is counted.
    by_event: bool,
}

impl SharedCounters {
    /// Loads and attaches every program that this kernel takes.
    ///
    /// # Errors
    /// Why nothing can be counted this way, as the second half of a sentence.
    pub(super) fn open(os: &Os) -> Result<SharedCounters, String> {
        os.takes_programs()?;
        let counting = Counting::open(os.width()).map_err(|why| why.to_string())?;
        let by_event = counting.event_program().is_ok();
        Ok(SharedCounters { counting, by_event })
    }

    /// Begins to count on a CPU what needs an event there; `None` when nothing does. Ends with the value.
    ///
    /// # Errors
    /// When the kernel refuses the event.
    pub(super) fn open_on(&self, cpu: CpuId) -> io::Result<Option<OwnedFd>> {
        let Some(program) = self.counting.event_program().ok().filter(|_| self.by_event) else {
            return Ok(None);
        };
        // Each single one. The kernel would hold events back that come 100,000 times a second; these wait for
        // a disk.
        perf::open_with_program(PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1, cpu, program).map(Some)
    }

    /// From now on the column that needs an event per CPU is not counted.
    pub(super) fn give_up_events(&mut self) {
        self.by_event = false;
    }

    /// Whether a column is counted.
    pub(super) fn has(&self, column: Column) -> bool {
        if column == BY_EVENT { self.by_event } else { !self.counting.places(column.index()).is_empty() }
    }

    /// Where a column is counted.
    pub(super) fn origin(&self, column: Column) -> String {
        match column {
            BY_EVENT if self.by_event => "the event major-faults".to_owned(),
            _ => self.counting.places(column.index()).join(" + "),
        }
    }

    /// What was counted on a CPU since the programs were attached.
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
