//! The table of kernel events per column: used for counting and for explanations.

use super::perf::{self, Event};
use crate::Root;
use crate::tracefs::Tracefs;
use millpond_model::{COLUMNS, Column, CpuId};
use perf_event_open_sys::bindings as sys;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

/// Kind and name of an event.
#[derive(Debug, Clone, Copy)]
enum Source {
    Software(u32, &'static str),
    Tracepoint(&'static str, &'static str, Option<&'static CStr>),
}

/// An event and the columns that it counts for.
#[derive(Debug, Clone, Copy)]
struct Entry {
    columns: &'static [Column],
    source: Source,
}

const fn software(columns: &'static [Column], config: u32, name: &'static str) -> Entry {
    Entry { columns, source: Source::Software(config, name) }
}

const fn tracepoint(
    columns: &'static [Column],
    category: &'static str,
    name: &'static str,
    filter: Option<&'static CStr>,
) -> Entry {
    Entry { columns, source: Source::Tracepoint(category, name, filter) }
}

/// The table. The first entry leads the group, so it is one that every kernel has.
const CATALOGUE: [Entry; 11] = [
    software(&[Column::Csw], sys::PERF_COUNT_SW_CONTEXT_SWITCHES, "context-switches"),
    // A major fault is a minor fault that needs the disk. It counts in both columns.
    software(&[Column::Minf], sys::PERF_COUNT_SW_PAGE_FAULTS_MIN, "minor-faults"),
    software(&[Column::Minf, Column::Mjf], sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ, "major-faults"),
    // Counted on the destination CPU, when the thread first runs there.
    software(&[Column::Migr], sys::PERF_COUNT_SW_CPU_MIGRATIONS, "cpu-migrations"),
    // The thread was preempted while runnable. 0 is "running", 256 "running, preempted in the kernel".
    tracepoint(
        &[Column::Icsw],
        "sched",
        "sched_switch",
        Some(c"prev_pid != 0 && (prev_state == 0 || prev_state == 256)"),
    ),
    // Interrupts whose handler wakes an interrupt thread.
    tracepoint(&[Column::Ithr], "irq", "irq_handler_exit", Some(c"ret & 2")),
    // A reschedule interrupt has no function to call, and is not a cross call.
    tracepoint(&[Column::Xcal], "ipi", "ipi_send_cpu", Some(c"callback != 0")),
    tracepoint(&[Column::Xcal], "ipi", "ipi_send_cpumask", Some(c"callback != 0")),
    // Once per contended mutex: it spins first (flag 1), whether or not it sleeps later. A real-time kernel has another kind of
    // mutex (flag 8) and reader/writer locks of that kind.
    tracepoint(
        &[Column::Smtx],
        "lock",
        "contention_begin",
        Some(c"(flags & 32 && flags & 1) || (flags & 8 && !(flags & 6))"),
    ),
    // Readers (2) and writers (4) about to block. Those that spin (1) are locks of another kind.
    tracepoint(&[Column::Srw], "lock", "contention_begin", Some(c"(flags & 2 || flags & 4) && !(flags & 1)")),
    tracepoint(&[Column::Syscl], "raw_syscalls", "sys_enter", None),
];

/// The event of `ithr` adds to the count from `/proc/softirqs`. The column exists without the event.
const ADDS_TO_SOFTIRQS: Column = Column::Ithr;

/// An event that this kernel supports.
#[derive(Debug, Clone, Copy)]
struct Planned {
    columns: &'static [Column],
    event: Event,
    filter: Option<&'static CStr>,
}

/// The columns that can be counted here, and the reasons why the others cannot.
#[derive(Debug)]
pub(super) struct Plan {
    planned: Vec<Planned>,
    reasons: [Option<String>; COLUMNS.len()],
}

impl Plan {
    /// Finds the events of the wanted columns on this kernel, by opening a first group on a CPU that may be disturbed. Does not
    /// start the group.
    pub(super) fn make(root: &Root, on: CpuId, wanted: impl Fn(Column) -> bool) -> (Plan, Group) {
        let mut plan = Plan { planned: Vec::new(), reasons: Default::default() };
        let mut members: Vec<OwnedFd> = Vec::new();
        let tracefs = OnceCell::new();
        for entry in CATALOGUE.iter().filter(|entry| entry.columns.iter().any(|column| wanted(*column))) {
            let found = match entry.source {
                Source::Software(config, _) => Ok((Event::Software(u64::from(config)), None)),
                Source::Tracepoint(category, name, filter) => tracefs
                    .get_or_init(|| Tracefs::open(root))
                    .as_ref()
                    .map_err(String::clone)
                    .and_then(|tracefs| tracefs.id(category, name))
                    .map(|id| (Event::Tracepoint(id), filter)),
            };
            let opened = found.and_then(|(event, filter)| {
                let planned = Planned { columns: entry.columns, event, filter };
                planned.open(on, members.first()).map(|fd| (planned, fd)).map_err(|error| explain(&error))
            });
            match opened {
                Ok((planned, fd)) => {
                    plan.planned.push(planned);
                    members.push(fd);
                }
                Err(reason) => {
                    for column in entry.columns {
                        plan.reasons[column.index()].get_or_insert_with(|| reason.clone());
                    }
                }
            }
        }
        (plan, Group { members })
    }

    /// Whether nothing can be counted.
    pub(super) fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Whether a column is counted.
    pub(super) fn counts(&self, column: Column) -> bool {
        self.reason(column).is_none() && self.planned.iter().any(|p| p.columns.contains(&column))
    }

    /// Why a column cannot be counted; `None` when it can, or is not wanted.
    pub(super) fn reason(&self, column: Column) -> Option<&str> {
        self.reasons[column.index()].as_deref()
    }

    /// Opens the counters of a CPU without starting them.
    pub(super) fn open(&self, cpu: CpuId) -> io::Result<Group> {
        let mut members: Vec<OwnedFd> = Vec::with_capacity(self.planned.len());
        for planned in &self.planned {
            members.push(planned.open(cpu, members.first())?);
        }
        Ok(Group { members })
    }

    /// Reads a group into columns. `None` when its CPU went off-line meanwhile: the group must be opened again.
    pub(super) fn read(&self, group: &Group) -> io::Result<Option<[Option<u64>; COLUMNS.len()]>> {
        let mut values = [0u64; CATALOGUE.len()];
        let values = &mut values[..self.planned.len()];
        let count = group.members.first().map_or(Ok(0), |leader| perf::read_group(leader, values))?;
        if count < values.len() {
            return Ok(None);
        }
        let mut columns = [None; COLUMNS.len()];
        for (planned, value) in self.planned.iter().zip(values) {
            for column in planned.columns {
                let sum = columns[column.index()].get_or_insert(0u64);
                *sum = sum.wrapping_add(*value);
            }
        }
        for column in COLUMNS {
            // A column with a missing event has no value, unless the events only add to another source.
            if column != ADDS_TO_SOFTIRQS && !self.counts(column) {
                columns[column.index()] = None;
            }
        }
        Ok(Some(columns))
    }
}

impl Planned {
    fn open(&self, cpu: CpuId, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        let fd = perf::open_counter(self.event, cpu, leader)?;
        if let Some(filter) = self.filter {
            perf::set_filter(&fd, filter)?;
        }
        Ok(fd)
    }
}

/// The counters of one CPU. Dropping the value closes them.
#[derive(Debug)]
pub(super) struct Group {
    members: Vec<OwnedFd>,
}

impl Group {
    /// Starts all counters at the same time.
    pub(super) fn start(&self) -> io::Result<()> {
        self.members.first().map_or(Ok(()), perf::enable_group)
    }
}

/// Maximal number of file descriptors per CPU.
pub(super) const DESCRIPTORS_PER_CPU: u64 = CATALOGUE.len() as u64;

/// The source of a column, for explanations: event names as `perf` spells them.
pub(super) fn origin(column: Column) -> String {
    let mut names = Vec::new();
    for entry in CATALOGUE.iter().filter(|entry| entry.columns.contains(&column)) {
        names.push(match entry.source {
            Source::Software(_, name) => name.to_owned(),
            Source::Tracepoint(category, name, None) => format!("{category}:{name}"),
            Source::Tracepoint(category, name, Some(filter)) => {
                format!("{category}:{name} if {}", filter.to_string_lossy())
            }
        });
    }
    names.join(" + ")
}

/// Why an event cannot be opened, as the second half of a sentence.
pub(super) fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "counting on a whole CPU needs CAP_PERFMON, or kernel.perf_event_paranoid at 0".to_owned()
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP) => "this machine has no such event".to_owned(),
        Some(libc::ENOSYS) => "this kernel has no performance events".to_owned(),
        Some(libc::EMFILE | libc::ENFILE) => {
            "too many files would be open (see the limit of open files)".to_owned()
        }
        Some(libc::ENODEV) => "the CPU is off-line".to_owned(),
        _ => format!("the kernel refused it: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_but_intr_has_an_event() {
        for column in COLUMNS {
            assert_eq!(origin(column).is_empty(), column == Column::Intr, "{column}");
        }
    }

    #[test]
    fn major_faults_count_as_minor_ones_too() {
        assert_eq!(origin(Column::Minf), "minor-faults + major-faults");
        assert_eq!(origin(Column::Mjf), "major-faults");
    }
}
