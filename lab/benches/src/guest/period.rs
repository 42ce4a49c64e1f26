//! A thread that wakes up by a period, and how late it was.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// What is due at each period.
pub struct Period {
    length: Duration,
    due: Duration,
}

impl Period {
    /// The first wake-up is due a period from now.
    pub fn begin(length: Duration) -> Self {
        Period { length, due: now(ClockId::Monotonic) }
    }

    /// Sleeps until the next wake-up is due, and gives how late it was. Times that were missed are not made up for: each
    /// would be late for the same reason, and a thread that goes on at once would not wake up.
    pub fn wake(&mut self) -> Duration {
        let before = now(ClockId::Monotonic);
        if before > self.due + self.length {
            self.due = before;
        }
        self.due += self.length;
        let due = Timespec {
            tv_sec: self.due.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: self.due.subsec_nanos().into(),
        };
        // To a moment, not for a time: what comes in between does not make it later. One that is interrupted sleeps on.
        while clock_nanosleep_absolute(ClockId::Monotonic, &due) == Err(Errno::INTR) {}
        now(ClockId::Monotonic).saturating_sub(self.due)
    }
}

/// A clock, since it began.
pub fn now(clock: ClockId) -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
}
