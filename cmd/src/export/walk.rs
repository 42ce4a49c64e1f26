//! The intervals of a recording, one after another.

use crate::ctx::Ctx;
use millpond_model::{Nanos, WallTime};
use millpond_observe::catalogue::{Entity, FieldKind, fields};
use millpond_observe::{Frame, Intervals};
use millpond_store::{Frames, Recording};

pub struct Walk<'r> {
    frames: Frames<'r>,
    from: WallTime,
    until: WallTime,
    run: Option<WallTime>,
    intervals: Intervals,
    damaged: Vec<String>,
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
        let frames = recording.frames_from(from);
        let (intervals, damaged) = (Intervals::default(), Vec::new());
        Walk { frames, from, until, run: None, intervals, damaged }
    }

    /// The next interval.
    pub fn next(&mut self) -> Option<Interval> {
        loop {
            let moment = match self.frames.next()? {
                Ok(moment) => moment,
                Err(error) => {
                    self.damaged.push(error.to_string());
                    continue;
                }
            };
            if moment.frame.wall > self.until {
                return None;
            }
            if self.run.replace(moment.run).is_some_and(|before| before != moment.run) {
                self.intervals = Intervals::default();
            }
            let (at, wall) = (moment.frame.at, moment.frame.wall);
            if let Some(frame) = self.intervals.push(moment.frame)
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
    pub fn warn(self, ctx: &mut Ctx<'_>) {
        self.damaged.iter().for_each(|why| ctx.warn(why));
    }
}
