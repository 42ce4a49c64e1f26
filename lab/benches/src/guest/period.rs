//! A periodic thread, and its lateness.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// A sequence of due times.
pub struct Period {
    length: Duration,
    due: Duration,
}

impl Period {
    /// The first wake-up is due one period from now.
    pub fn begin(length: Duration) -> Self {
        Period { length, due: now(ClockId::Monotonic) }
    }

    /// Sleeps until the next due time, and returns the lateness. Missed due times are skipped: each would be late for the same reason, and a
    /// thread that continues at once would not wake up.
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
        // Sleep until an absolute time, so that delays before the call do not add up. Resume after an interrupt.
        while clock_nanosleep_absolute(ClockId::Monotonic, &due) == Err(Errno::INTR) {}
        now(ClockId::Monotonic).saturating_sub(self.due)
    }
}

/// The time of a clock since its start.
pub fn now(clock: ClockId) -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
}
