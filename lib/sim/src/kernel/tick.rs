//! The current clock tick. It is needed several times per switch and costs divisions, so the last result is cached.

use super::time::SECOND;

/// A clock tick.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tick {
    /// Ticks per second.
    hz: u32,
    /// Its start, in nanoseconds since boot.
    begin: u64,
    /// Its length in nanoseconds.
    pub length: u64,
    /// Ticks since boot.
    pub number: u64,
    /// Once-per-second updates since boot.
    pub beat: u64,
}

impl Tick {
    /// The tick at a time.
    pub fn at(now: u64, hz: u32) -> Tick {
        let length = SECOND / u64::from(hz.max(1));
        let number = now / length;
        Tick { hz, begin: number * length, length, number, beat: number / u64::from(hz.max(1)) }
    }

    /// Whether it is the tick at that time.
    #[inline]
    pub fn is_at(&self, now: u64, hz: u32) -> bool {
        now.wrapping_sub(self.begin) < self.length && self.hz == hz
    }
}

/// The cached tick does not affect the kernel's state.
impl PartialEq for Tick {
    fn eq(&self, _: &Tick) -> bool {
        true
    }
}

impl Eq for Tick {}
