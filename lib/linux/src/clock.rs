//! The machine's clock: `CLOCK_MONOTONIC` and the wall.

use crate::Root;
use millpond_machine::Clock;
use millpond_model::{Nanos, WallTime};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::OnceCell;

/// The clock of the machine that we run on; a captured machine shares it.
#[derive(Debug)]
pub struct LinuxClock {
    root: Root,
    booted: OnceCell<WallTime>,
}

impl LinuxClock {
    /// The clock of a root. When the machine was booted is read, from the `btime` line of its `stat` file, when
    /// somebody asks.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        LinuxClock { root: root.clone(), booted: OnceCell::new() }
    }
}

impl Clock for LinuxClock {
    fn now(&self) -> Nanos {
        let now = clock_gettime(ClockId::Monotonic);
        let part = |n: i64| u64::try_from(n).unwrap_or(0);
        Nanos(part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec))
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
        let seconds = i64::try_from(deadline.0 / 1_000_000_000).unwrap_or(i64::MAX);
        let nanos = i64::try_from(deadline.0 % 1_000_000_000).unwrap_or(0);
        let request = Timespec { tv_sec: seconds, tv_nsec: nanos };
        // A signal ends the wait: whoever waits looks at why.
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}
