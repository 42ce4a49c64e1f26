//! What counts whatever disturbs a thread over a section of it, so that "nothing did" is checked.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How migrations were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationSource {
    /// By the kernel's counter for the thread: each of them.
    Counter,
    /// By the number of the CPU at both ends, because the counter is not for this user (`kernel.perf_event_paranoid`): 1 when they differ.
    /// A thread that went away and came back is not seen.
    CpuNumbers,
}

/// What happened to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disturbances {
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// It waited for something.
    pub voluntary_switches: u64,
    /// It was preempted.
    pub involuntary_switches: u64,
    /// It was moved to another CPU.
    pub migrations: u64,
    /// How that was found.
    pub migrations_by: MigrationSource,
}

impl Disturbances {
    /// Nothing happened.
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

/// What a thread looks at to know whether it was disturbed.
///
/// Opened once, by the thread itself, before anything must be in time: opening takes a file and some page faults. A section costs two system calls
/// at each end (one without the counter of migrations), and no fault of its own, because the first section of all was made when it was opened.
///
/// It is the thread's, and not `Send`. A child that was forked opens its own.
#[derive(Debug)]
pub struct Calm {
    migrations: Option<OwnedFd>,
    not_send: PhantomData<*mut ()>,
}

/// The counts at one moment: minor and major faults, voluntary and involuntary switches, and migrations, or the CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts([u64; 5]);

impl Calm {
    /// For the calling thread.
    #[must_use]
    pub fn open() -> Calm {
        Calm::over(migration_counter().ok())
    }

    fn over(migrations: Option<OwnedFd>) -> Calm {
        let calm = Calm { migrations, not_send: PhantomData };
        let _: Disturbances = calm.begin().end();
        calm
    }

    /// How migrations are found.
    #[must_use]
    pub fn migrations_by(&self) -> MigrationSource {
        if self.migrations.is_some() { MigrationSource::Counter } else { MigrationSource::CpuNumbers }
    }

    /// A section begins. There may be one in another.
    pub fn begin(&self) -> CalmSection<'_> {
        CalmSection { calm: self, before: self.counts() }
    }

    /// What is counted now. The same function at both ends, so that its frame is in memory at the second one.
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
            // SAFETY: it only asks.
            return u64::from(unsafe { libc::sched_getcpu() }.cast_unsigned());
        };
        let mut count = 0u64;
        // By the kernel itself: a thread can be cancelled in the C library's call.
        // SAFETY: it writes at most as many bytes as it is told.
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
    // SAFETY: a record of zeros is one, and the call writes to it; for the calling thread it cannot fail.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// A section that has begun.
#[derive(Debug)]
#[must_use = "a section that does not end says nothing"]
pub struct CalmSection<'calm> {
    calm: &'calm Calm,
    before: Counts,
}

impl CalmSection<'_> {
    /// It ends: what happened.
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

/// A software event: `PERF_TYPE_SOFTWARE`, and of these `PERF_COUNT_SW_CPU_MIGRATIONS`.
const SOFTWARE: u32 = 1;
const MIGRATIONS: u64 = 4;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The kernel's counter of the calling thread's migrations.
///
/// With the kernel's own part: a migration is counted there, and a counter without it, which needs no right, is always 0.
fn migration_counter() -> io::Result<OwnedFd> {
    let attributes = CounterAttributes {
        kind: SOFTWARE,
        size: u32::try_from(mem::size_of::<CounterAttributes>()).unwrap_or_default(),
        config: MIGRATIONS,
        ..CounterAttributes::default()
    };
    let (this_thread, any_cpu, no_group) = (0, -1, -1);
    // SAFETY: it reads as many bytes as the record says it has.
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
