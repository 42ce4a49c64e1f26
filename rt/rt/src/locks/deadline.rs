//! Deadlines of waits.

use libc::timespec;
use std::time::{Duration, Instant};

/// A time on `CLOCK_MONOTONIC`, a clock that cannot be set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(timespec);

impl Deadline {
    /// From a C program's `timespec`. `None`: it is invalid.
    pub(crate) fn new(moment: timespec) -> Option<Deadline> {
        (moment.tv_sec >= 0 && (0..1_000_000_000).contains(&moment.tv_nsec)).then_some(Deadline(moment))
    }

    pub(super) fn timespec(&self) -> &timespec {
        &self.0
    }
}

impl From<Instant> for Deadline {
    /// On Linux an `Instant` is of the same clock, but its value is not accessible: the time left is added to the current time.
    fn from(moment: Instant) -> Deadline {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is writable.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        let left = moment.saturating_duration_since(Instant::now());
        let nanos = Duration::from_nanos(now.tv_nsec.unsigned_abs())
            + Duration::from_nanos(left.subsec_nanos().into());
        let seconds = left.as_secs().saturating_add(nanos.as_secs());
        Deadline(timespec {
            tv_sec: now.tv_sec.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX)),
            tv_nsec: nanos.subsec_nanos().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_moments_are_taken() {
        let taken = |tv_sec, tv_nsec| Deadline::new(timespec { tv_sec, tv_nsec }).is_some();
        assert!(taken(0, 0) && taken(1, 999_999_999));
        assert!(!taken(-1, 0) && !taken(0, -1) && !taken(0, 1_000_000_000));
    }

    #[test]
    fn an_instant_is_the_same_moment() {
        let earlier = Deadline::from(Instant::now());
        let later = Deadline::from(Instant::now() + Duration::from_millis(1_999));
        let nanos = |deadline: Deadline| deadline.0.tv_sec * 1_000_000_000 + deadline.0.tv_nsec;
        assert!(nanos(later) - nanos(earlier) >= 1_999_000_000);
        assert!(Deadline::new(later.0).is_some());
    }
}
