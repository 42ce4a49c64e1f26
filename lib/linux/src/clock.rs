//! The machine's clocks: `CLOCK_MONOTONIC` and wall time.

use crate::Root;
use millpond_machine::Clock;
use millpond_model::{Nanos, WallTime};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::OnceCell;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The value of a kernel clock. The clocks used here are never negative.
pub(crate) fn read(clock: ClockId) -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Nanos(part(tv_sec).saturating_mul(NANOS_PER_SECOND).saturating_add(part(tv_nsec)))
}

/// A point in time or a duration, as a kernel structure.
pub(crate) fn timespec(time: Nanos) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.0 / NANOS_PER_SECOND).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(time.0 % NANOS_PER_SECOND).unwrap_or(0),
    }
}

/// The clock of the running machine. A captured machine uses it, too.
#[derive(Debug)]
pub struct LinuxClock {
    root: Root,
    booted: OnceCell<WallTime>,
}

impl LinuxClock {
    /// The clock of a root. The boot time is read from the `btime` line of its `stat` file, on first use.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        LinuxClock { root: root.clone(), booted: OnceCell::new() }
    }
}

impl Clock for LinuxClock {
    fn now(&self) -> Nanos {
        read(ClockId::Monotonic)
    }

    fn wall(&self) -> WallTime {
        WallTime(clock_gettime(ClockId::Realtime).tv_sec)
    }

    fn booted(&self) -> WallTime {
        *self.booted.get_or_init(|| {
            let stat = self.root.read(&self.root.proc.join("stat")).ok().flatten().unwrap_or_default();
            let booted = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
            WallTime(booted.unwrap_or(0))
        })
    }

    fn sleep_until(&self, deadline: Nanos) {
        // A signal ends the wait. The caller checks why it returned.
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &timespec(deadline));
    }
}
