//! Counts page faults, context switches and migrations of a thread over a section, so that their absence is checked.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How migrations are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationSource {
    /// By the kernel's counter for the thread: each migration counts.
    Counter,
    /// By comparing the CPU number at both ends, because the user may not use the counter (`kernel.perf_event_paranoid`): 1 if they differ.
    /// A thread that left its CPU and came back is not detected.
    CpuNumbers,
}

/// Disturbances of a thread in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbances {
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults with disk access.
    pub major_faults: u64,
    /// The thread waited.
    pub voluntary_switches: u64,
    /// The thread was preempted.
    pub involuntary_switches: u64,
    /// The thread moved to another CPU.
    pub migrations: u64,
    /// How migrations were detected.
    pub migrations_by: MigrationSource,
}

impl Disturbances {
    /// Whether all counts are zero.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let switches = self.voluntary_switches | self.involuntary_switches;
        self.minor_faults | self.major_faults | switches | self.migrations == 0
    }
}

impl fmt::Display for Disturbances {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} minor and {} major faults, {} voluntary and {} involuntary switches, {} migrations",
            self.minor_faults,
            self.major_faults,
            self.voluntary_switches,
            self.involuntary_switches,
            self.migrations
        )?;
        match self.migrations_by {
            MigrationSource::Counter => Ok(()),
            MigrationSource::CpuNumbers => write!(out, " (by CPU numbers)"),
        }
    }
}

/// Counters of a thread's disturbances.
///
/// Open it once, in the thread itself, before time-critical work: opening takes a file descriptor and some page faults. A section costs two system
/// calls at each end (one without the migration counter), and no fault of its own, because `open` runs a first section.
///
/// It belongs to the thread and is not `Send`. The child of a fork opens its own.
#[derive(Debug)]
pub struct Calm {
    migrations: Option<OwnedFd>,
    not_send: PhantomData<*mut ()>,
}

/// Counts at one time: minor and major faults, voluntary and involuntary switches, and migrations or the CPU number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts([u64; 5]);

impl Calm {
    /// Opens counters of the calling thread.
    #[must_use]
    pub fn open() -> Calm {
        Calm::over(migration_counter().ok())
    }

    fn over(migrations: Option<OwnedFd>) -> Calm {
        let calm = Calm { migrations, not_send: PhantomData };
        let _: Disturbances = calm.begin().end();
        calm
    }

    /// How migrations are detected.
    #[must_use]
    pub fn migrations_by(&self) -> MigrationSource {
        if self.migrations.is_some() { MigrationSource::Counter } else { MigrationSource::CpuNumbers }
    }

    /// Begins a section. Sections may be nested.
    pub fn begin(&self) -> CalmSection<'_> {
        CalmSection { calm: self, before: self.counts() }
    }

    /// The current counts. Both ends of a section use the same function, so that its frame is in memory at the second one.
    #[inline(never)]
    pub(crate) fn counts(&self) -> Counts {
        let place = self.place();
        let usage = usage();
        let [minor, major, voluntary, involuntary] =
            [usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw].map(i64::cast_unsigned);
        Counts([minor, major, voluntary, involuntary, place])
    }

    fn place(&self) -> u64 {
        let Some(counter) = &self.migrations else {
            // SAFETY: the call has no effect.
            return u64::from(unsafe { libc::sched_getcpu() }.cast_unsigned());
        };
        let mut count = 0u64;
        // A direct system call: `read` of the C library is a cancellation point.
        // SAFETY: it writes at most as many bytes as its last argument says.
        unsafe {
            libc::syscall(libc::SYS_read, counter.as_raw_fd(), &raw mut count, size_of::<u64>());
        }
        count
    }

    pub(crate) fn since(&self, before: Counts) -> Disturbances {
        let now = self.counts();
        let [minor_faults, major_faults, voluntary_switches, involuntary_switches, moved] =
            std::array::from_fn(|at| now.0[at].wrapping_sub(before.0[at]));
        let migrations_by = self.migrations_by();
        let migrations = match migrations_by {
            MigrationSource::Counter => moved,
            MigrationSource::CpuNumbers => u64::from(moved != 0),
        };
        Disturbances {
            minor_faults,
            major_faults,
            voluntary_switches,
            involuntary_switches,
            migrations,
            migrations_by,
        }
    }
}

pub(super) fn usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: an all-zero record is valid, and the call writes to it; it cannot fail for the calling thread.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// An open section.
#[derive(Debug)]
#[must_use = "a section that does not end says nothing"]
pub struct CalmSection<'calm> {
    calm: &'calm Calm,
    before: Counts,
}

impl CalmSection<'_> {
    /// Ends the section and returns its disturbances.
    #[must_use = "whether it was calm"]
    pub fn end(self) -> Disturbances {
        self.calm.since(self.before)
    }
}

/// `struct perf_event_attr`, in its first version.
#[derive(Default)]
#[repr(C)]
struct CounterAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

/// Software events (`PERF_TYPE_SOFTWARE`), and `PERF_COUNT_SW_CPU_MIGRATIONS`.
const SOFTWARE: u32 = 1;
const MIGRATIONS: u64 = 4;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The kernel's counter of the calling thread's migrations.
///
/// It includes kernel mode. A counter of user mode needs no right, but is always 0, because migrations happen in kernel mode.
fn migration_counter() -> io::Result<OwnedFd> {
    let attributes = CounterAttributes {
        kind: SOFTWARE,
        size: u32::try_from(mem::size_of::<CounterAttributes>()).unwrap_or_default(),
        config: MIGRATIONS,
        ..CounterAttributes::default()
    };
    let (this_thread, any_cpu, no_group) = (0, -1, -1);
    // SAFETY: it reads as many bytes as the record's size field says.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: it was just opened, and no other code has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Disturbances = Disturbances {
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        migrations: 0,
        migrations_by: MigrationSource::CpuNumbers,
    };

    #[test]
    fn each_count_disturbs() {
        assert!(NOTHING.is_calm());
        for found in [
            Disturbances { minor_faults: 1, ..NOTHING },
            Disturbances { major_faults: 1, ..NOTHING },
            Disturbances { voluntary_switches: 1, ..NOTHING },
            Disturbances { involuntary_switches: 1, ..NOTHING },
            Disturbances { migrations: 1, ..NOTHING },
        ] {
            assert!(!found.is_calm(), "{found}");
        }
        assert_eq!(
            NOTHING.to_string(),
            "0 minor and 0 major faults, 0 voluntary and 0 involuntary switches, 0 migrations (by CPU numbers)"
        );
    }

    #[test]
    fn without_a_counter_the_processors_of_both_ends_are_compared() {
        let calm = Calm::over(None);
        assert_eq!(calm.migrations_by(), MigrationSource::CpuNumbers);
        let mut before = calm.counts();
        before.0[4] = u64::MAX;
        assert_eq!(calm.since(before).migrations, 1);
    }
}
