//! Counting in the kernel: small programs at tracepoints that add to memory which we share with it.
//!
//! A performance event per processor and kind of event must be asked for its value, which interrupts that
//! processor. Here a program is attached once for the whole machine, whatever the number of processors; it
//! adds one to a word of the processor that it runs on, and reading all words is reading memory: no system
//! call, nobody interrupted. A program takes some 10 ns.
//!
//! ```text
//!   tracepoint ──▶ program ──▶ row of its processor: a word per column
//!                                      ▲
//!                                      └── mapped into our memory
//! ```
//!
//! `programs` has what each counts, `asm` writes them down, `sys` hands them to the kernel, which checks them
//! before it runs them. Where one is not accepted, or may not be loaded, its columns are counted by performance
//! events instead. Major faults have no tracepoint: there a program runs at each event of a processor's own,
//! which must be opened on every processor, but need not be read either.
//!
//! An event within a program of the same kind (an interrupt that comes while another one is being counted) is
//! not counted: some in a million.

mod asm;
mod programs;
mod sys;

use super::perf;
use crate::Os;
use millpond_model::{COLUMNS, Column, CpuId};
use perf_event_open_sys::bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ;
use programs::{Program, ROW_WORDS, Rows};
use std::io;
use std::os::fd::OwnedFd;
use sys::{Attached, Loaded, Purpose, SharedWords};

/// Since this version the arguments of the tracepoints are what the programs expect.
const OLDEST_KERNEL: (u32, u32) = (6, 0);

/// The column that is counted by an event per processor.
const BY_EVENT: Column = Column::Mjf;

/// Programs at work, and what they count.
#[derive(Debug)]
pub(super) struct SharedCounters {
    words: SharedWords,
    _attached: Vec<Attached>,
    /// The program for [`BY_EVENT`].
    by_event: Option<Loaded>,
    /// By column: where it is counted; empty for one that is not.
    origins: [Vec<String>; COLUMNS.len()],
}

impl SharedCounters {
    /// Loads and attaches every program that this kernel takes.
    ///
    /// # Errors
    /// Why nothing can be counted this way, as the second half of a sentence.
    pub(super) fn open(os: &Os) -> Result<SharedCounters, String> {
        if os.kernel < OLDEST_KERNEL {
            return Err("this kernel is older than 6.0".to_owned());
        }
        let cpus = os.width();
        let words = SharedWords::new(cpus as usize * ROW_WORDS).map_err(|error| explain(&error))?;
        let rows = Rows { map: words.descriptor(), cpu_max: i32::try_from(cpus).unwrap_or(i32::MAX) - 1 };
        let mut attached = Vec::new();
        let mut results = Vec::new();
        for program in programs::all(rows) {
            match Loaded::load(program.purpose, &program.code).and_then(|loaded| loaded.attach()) {
                Ok(link) => {
                    attached.push(link);
                    results.push((program, None));
                }
                Err(error) => results.push((program, Some(explain(&error)))),
            }
        }
        let mut origins = COLUMNS.map(|column| origins(column, &results));
        if let Some((_, Some(why))) = results.into_iter().find(|_| attached.is_empty()) {
            return Err(why);
        }
        let by_event = Loaded::load(Purpose::Event, &programs::of_event(rows, BY_EVENT)).ok();
        if by_event.is_some() {
            origins[BY_EVENT.index()].push("the event major-faults".to_owned());
        }
        Ok(SharedCounters { words, _attached: attached, by_event, origins })
    }

    /// Begins to count on a processor what needs an event there; `None` when nothing does. Ends with the value.
    ///
    /// # Errors
    /// When the kernel refuses the event.
    pub(super) fn open_on(&self, cpu: CpuId) -> io::Result<Option<OwnedFd>> {
        let Some(program) = &self.by_event else { return Ok(None) };
        // Each single one. The kernel would hold events back that come 100,000 times a second; these wait for
        // a disk.
        perf::open_with_program(PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1, cpu, program.descriptor()).map(Some)
    }

    /// From now on the column that needs an event per processor is not counted.
    pub(super) fn give_up_events(&mut self) {
        self.by_event = None;
        self.origins[BY_EVENT.index()].clear();
    }

    /// Whether a column is counted.
    pub(super) fn has(&self, column: Column) -> bool {
        !self.origins[column.index()].is_empty()
    }

    /// Where a column is counted.
    pub(super) fn origin(&self, column: Column) -> String {
        self.origins[column.index()].join(" + ")
    }

    /// What was counted on a processor since the programs were attached.
    pub(super) fn read(&self, cpu: CpuId) -> [Option<u64>; COLUMNS.len()] {
        let row = (cpu.0 as usize).saturating_mul(ROW_WORDS);
        COLUMNS.map(|column| self.has(column).then(|| self.words.get(row + column.index())))
    }
}

/// The programs that count a column; none unless every one that it needs is at work.
fn origins(column: Column, results: &[(Program, Option<String>)]) -> Vec<String> {
    let needed = || results.iter().filter(|(program, _)| program.columns.contains(&column));
    if needed().any(|(program, why)| why.is_some() && !program.optional) {
        return Vec::new();
    }
    needed().filter(|(_, why)| why.is_none()).map(|(program, _)| program.name.clone()).collect()
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "programs in the kernel need CAP_BPF and CAP_PERFMON".to_owned(),
        Some(libc::ENOENT) => "this kernel has no such tracepoint".to_owned(),
        Some(libc::ENOSYS) => "this kernel takes no programs".to_owned(),
        _ => format!("the kernel refused the program: {error}"),
    }
}
