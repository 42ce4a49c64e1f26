//! A recording, played: frames in their order, at any speed, from any moment.

use crate::ctx::Ctx;
use crate::failure::Failure;
use crate::recordings;
use jiff::tz::TimeZone;
use millpond_model::{Nanos, WallTime};
use millpond_screen::Screen;
use millpond_store::{Frames, Moment, Recording, Span};

pub struct Player<'r> {
    recording: &'r Recording,
    frames: Frames<'r>,
    span: Span,
    zone: TimeZone,
    run: Option<WallTime>,
    /// When what is shown was.
    at: Nanos,
    wall: WallTime,
    next: Option<Moment>,
    /// What cannot be read, a sentence each.
    pub damaged: Vec<String>,
}

impl<'r> Player<'r> {
    /// From the moment that is named; from the beginning where none is.
    ///
    /// # Errors
    /// [`Failure`] for a moment that is none, or was not recorded.
    pub fn open(
        recording: &'r Recording,
        at: Option<&str>,
        screen: &mut Screen,
    ) -> Result<Player<'r>, Failure> {
        let span = recording.span().ok_or_else(|| Failure::Operand("no frame is in the recording".into()))?;
        let zone = TimeZone::system();
        let wall = at.map_or(Ok(span.first), |text| recordings::moment(text, &span, &zone))?;
        let frames = recording.frames_from(wall);
        let (next, damaged) = (None, Vec::new());
        let mut player =
            Player { recording, frames, span, zone, run: None, at: Nanos(0), wall, next, damaged };
        player.go_to(wall, screen);
        Ok(player)
    }

    /// Shows the moment, or the one after it.
    pub fn go_to(&mut self, wall: WallTime, screen: &mut Screen) {
        let wall = WallTime(wall.0.clamp(self.span.first.0, self.span.last.0));
        self.frames = self.recording.frames_from(wall);
        self.next = None;
        screen.restart();
        self.run = None;
        // The first frame has no interval unless the one before it was read.
        while self.step(screen) && self.wall < wall {}
    }

    /// The same, so many seconds after what is shown, or before.
    pub fn go(&mut self, seconds: i64, screen: &mut Screen) {
        self.go_to(WallTime(self.wall.0.saturating_add(seconds)), screen);
    }

    fn peek(&mut self) -> Option<&Moment> {
        while self.next.is_none() {
            match self.frames.next()? {
                Ok(moment) => self.next = Some(moment),
                Err(error) => self.damaged.push(error.to_string()),
            }
        }
        self.next.as_ref()
    }

    /// Shows the next frame, if there is one.
    pub fn step(&mut self, screen: &mut Screen) -> bool {
        let _ = self.peek();
        let Some(Moment { frame, run }) = self.next.take() else { return false };
        if self.run.replace(run).is_some_and(|before| before != run) {
            screen.restart();
        }
        (self.at, self.wall) = (frame.at, frame.wall);
        screen.push(frame);
        screen.set_time(recordings::time_of_day(self.wall, &self.zone));
        true
    }

    /// Shows the frame that is so much later: one of the same watch, or the first of the next.
    pub fn step_for(&mut self, time: Nanos, screen: &mut Screen) -> bool {
        let (until, run) = (self.at + time, self.run);
        let mut moved = false;
        while self.peek().is_some_and(|next| !moved || (Some(next.run) == run && next.frame.at <= until)) {
            moved |= self.step(screen);
        }
        moved
    }

    /// How long until the next frame.
    pub fn until_next(&mut self) -> Option<Nanos> {
        let (at, run) = (self.at, self.run);
        let next = self.peek()?;
        Some(if Some(next.run) == run { next.frame.at - at } else { Nanos(0) })
    }

    /// Says what could not be read.
    pub fn warn(&mut self, ctx: &mut Ctx<'_>) {
        self.damaged.drain(..).for_each(|why| ctx.warn(why));
    }
}
