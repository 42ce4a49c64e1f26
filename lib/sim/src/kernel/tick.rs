//! The clock tick that time is in. It is asked for at each switch, several times, and to find it takes divisions; so the one that was found last is kept.

use super::time::SECOND;

/// A clock tick.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tick {
    /// Ticks in a second.
    hz: u32,
    /// When it began, in nanoseconds since boot.
    begin: u64,
    /// Nanoseconds that it takes.
    pub length: u64,
    /// How many there were since boot.
    pub number: u64,
    /// The updates of each second since boot.
    pub beat: u64,
}

impl Tick {
    /// The one at a moment.
    pub fn at(now: u64, hz: u32) -> Tick {
        let length = SECOND / u64::from(hz.max(1));
        let number = now / length;
        Tick { hz, begin: number * length, length, number, beat: number / u64::from(hz.max(1)) }
    }

    /// Whether it is the one at that moment.
    #[inline]
    pub fn is_at(&self, now: u64, hz: u32) -> bool {
        now.wrapping_sub(self.begin) < self.length && self.hz == hz
    }
}

/// Which one is kept makes no difference.
impl PartialEq for Tick {
    fn eq(&self, _: &Tick) -> bool {
        true
    }
}

impl Eq for Tick {}
