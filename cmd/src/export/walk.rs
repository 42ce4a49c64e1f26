//! Iterates over the intervals of a recording.

use crate::interval::Meter;
use crate::recordings::{Reel, Shot};
use millpond_model::{Nanos, WallTime};
use millpond_observe::catalogue::{Entity, FieldKind, fields};
use millpond_observe::{Frame, Intervals};
use millpond_store::{Recording, Span};

pub struct Walk<'r> {
    reel: Reel<'r>,
    from: WallTime,
    until: WallTime,
    goes_back: bool,
    intervals: Intervals,
    /// Shows the progress on a terminal.
    meter: Option<(Meter<'r>, WallTime, WallTime)>,
}

/// An interval of a recording.
pub struct Interval {
    /// Its end on the machine's clock.
    pub at: Nanos,
    /// Its end on the wall clock.
    pub wall: WallTime,
    /// Its length, for the requested table.
    pub elapsed: Option<Nanos>,
    pub frame: Frame,
}

impl<'r> Walk<'r> {
    /// The intervals that end between two moments.
    pub fn begin(recording: &'r Recording, from: WallTime, until: WallTime) -> Walk<'r> {
        let (reel, goes_back) = (Reel::from(recording, from), recording.goes_back());
        Walk { reel, from, until, goes_back, intervals: Intervals::default(), meter: None }
    }

    /// The same with a progress meter.
    pub fn measured(self, meter: Option<Meter<'r>>, span: Option<&Span>) -> Walk<'r> {
        let ends = |span: &Span| (self.from.max(span.first), self.until.min(span.last));
        let meter = meter.zip(span.map(ends)).map(|(meter, (from, until))| (meter, from, until));
        Walk { meter, ..self }
    }

    /// The next interval.
    pub fn next(&mut self) -> Option<Interval> {
        loop {
            let Shot { frame, begins } = self.reel.next()?;
            if begins {
                self.intervals = Intervals::default();
            }
            if frame.wall > self.until {
                // After the clock was set back, frames of an earlier time may follow.
                match self.goes_back {
                    true => continue,
                    false => return None,
                }
            }
            let (at, wall) = (frame.at, frame.wall);
            if let Some((meter, from, until)) = &mut self.meter {
                #[expect(clippy::cast_precision_loss, reason = "a part is shown in percent")]
                meter.at(wall.0.saturating_sub(from.0) as f64 / until.0.saturating_sub(from.0).max(1) as f64);
            }
            if let Some(frame) = self.intervals.push(frame)
                && wall >= self.from
            {
                return Some(Interval { at, wall, elapsed: frame.elapsed, frame });
            }
        }
    }

    /// The next interval in which this table was read, with the length of its own interval.
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

    /// The parts that could not be read, a sentence each.
    pub fn damaged(self) -> Vec<String> {
        self.reel.damaged
    }
}
