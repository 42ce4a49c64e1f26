//! The intervals of a recording, one after another.

use crate::ctx::Ctx;
use crate::recordings::{Reel, Shot};
use millpond_model::{Nanos, WallTime};
use millpond_observe::catalogue::{Entity, FieldKind, fields};
use millpond_observe::{Frame, Intervals};
use millpond_store::Recording;

pub struct Walk<'r> {
    reel: Reel<'r>,
    from: WallTime,
    until: WallTime,
    intervals: Intervals,
}

/// What happened in an interval.
pub struct Interval {
    /// When it ended on the machine's clock.
    pub at: Nanos,
    /// And on the wall.
    pub wall: WallTime,
    /// Its length: of the table that was asked for.
    pub elapsed: Option<Nanos>,
    pub frame: Frame,
}

impl<'r> Walk<'r> {
    /// Intervals that end from one moment to the other.
    pub fn begin(recording: &'r Recording, from: WallTime, until: WallTime) -> Walk<'r> {
        Walk { reel: Reel::from(recording, from), from, until, intervals: Intervals::default() }
    }

    /// The next interval.
    pub fn next(&mut self) -> Option<Interval> {
        loop {
            let Shot { frame, begins } = self.reel.next()?;
            if frame.wall > self.until {
                return None;
            }
            if begins {
                self.intervals = Intervals::default();
            }
            let (at, wall) = (frame.at, frame.wall);
            if let Some(frame) = self.intervals.push(frame)
                && wall >= self.from
            {
                return Some(Interval { at, wall, elapsed: frame.elapsed, frame });
            }
        }
    }

    /// The next in which this table was read anew, with its own length.
    pub fn next_of(&mut self, entity: Entity) -> Option<Interval> {
        loop {
            let before = self.intervals.latest().and_then(|latest| latest.read_at(entity));
            let interval = self.next()?;
            let elapsed = self.intervals.elapsed(entity);
            let counts = fields(entity).iter().any(|field| field.kind == FieldKind::Counter);
            if counts && elapsed.is_none() {
                continue;
            }
            if interval.frame.read_at(entity).is_some_and(|read| Some(read) != before) {
                return Some(Interval { elapsed, ..interval });
            }
        }
    }

    /// Says what could not be read.
    pub fn warn(mut self, ctx: &mut Ctx<'_>) {
        self.reel.warn(ctx);
    }
}
