//! Playback of a recording: frames in order, at any speed, from any time.

use crate::ctx::Ctx;
use crate::failure::Failure;
use crate::recordings::{self, Reel, Shot};
use jiff::tz::TimeZone;
use millpond_model::{Nanos, WallTime};
use millpond_screen::Screen;
use millpond_store::{Recording, Span};

pub struct Player<'r> {
    recording: &'r Recording,
    reel: Reel<'r>,
    span: Span,
    zone: TimeZone,
    /// The time of the shown frame.
    at: Nanos,
    wall: WallTime,
    next: Option<Shot>,
}

impl<'r> Player<'r> {
    /// A player that starts at the given moment, by default at the beginning.
    ///
    /// # Errors
    /// [`Failure`] for an invalid moment, or one that was not recorded.
    pub fn open(
        recording: &'r Recording,
        at: Option<&str>,
        screen: &mut Screen,
        zone: TimeZone,
    ) -> Result<Player<'r>, Failure> {
        let span = recording.span().ok_or_else(|| Failure::Operand("no frame is in the recording".into()))?;
        let wall = at.map_or(Ok(span.first), |text| recordings::moment(text, &span, &zone))?;
        let reel = Reel::from(recording, wall);
        let mut player = Player { recording, reel, span, zone, at: Nanos(0), wall, next: None };
        player.go_to(wall, screen);
        Ok(player)
    }

    /// Shows the frame at this moment, or the first one after it.
    pub fn go_to(&mut self, wall: WallTime, screen: &mut Screen) {
        let wall = WallTime(wall.0.clamp(self.span.first.0, self.span.last.0));
        self.reel.go_to(self.recording, wall);
        self.next = None;
        // The first frame has an interval only if the frame before it was read.
        while self.step(screen) && self.wall < wall {}
    }

    /// Moves by this many seconds from the shown frame, forwards or backwards.
    pub fn go(&mut self, seconds: i64, screen: &mut Screen) {
        self.go_to(WallTime(self.wall.0.saturating_add(seconds)), screen);
    }

    fn peek(&mut self) -> Option<&Shot> {
        if self.next.is_none() {
            self.next = self.reel.next();
        }
        self.next.as_ref()
    }

    /// Shows the next frame, if there is one.
    pub fn step(&mut self, screen: &mut Screen) -> bool {
        let _ = self.peek();
        let Some(Shot { frame, begins }) = self.next.take() else { return false };
        if begins {
            screen.restart();
        }
        (self.at, self.wall) = (frame.at, frame.wall);
        screen.push(frame);
        screen.set_time(recordings::time_of_day(self.wall, &self.zone));
        true
    }

    /// Shows the frame that is later by this time. It stops at the first frame after a restart.
    pub fn step_for(&mut self, time: Nanos, screen: &mut Screen) -> bool {
        let until = self.at + time;
        let mut moved = false;
        while self.peek().is_some_and(|next| !moved || (!next.begins && next.frame.at <= until)) {
            moved |= self.step(screen);
        }
        moved
    }

    /// The time until the next frame.
    pub fn until_next(&mut self) -> Option<Nanos> {
        let at = self.at;
        let next = self.peek()?;
        Some(if next.begins { Nanos(0) } else { next.frame.at - at })
    }

    /// A read error that was not reported yet.
    pub fn damaged(&mut self) -> Option<String> {
        self.reel.damaged.pop()
    }

    /// Reports read errors.
    pub fn warn(&mut self, ctx: &mut Ctx<'_>) {
        self.reel.warn(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_observe::Frame;
    use millpond_screen::{Watched, colour};
    use millpond_store::{Limits, Ring};

    #[test]
    fn a_recording_whose_clock_was_set_back_is_played() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ring, _) = Ring::open(dir.path(), "mine", WallTime(5000), Limits::default()).unwrap();
        for (second, wall) in [5000, 5001, 1400, 1401].into_iter().enumerate() {
            let at = Nanos::from_secs(second as u64);
            ring.push(&Frame::at(at, WallTime(wall))).unwrap();
        }
        let _ = ring.finish().unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        let mut screen = Screen::new(colour::Depth::Mono, Watched::Recorded);
        let mut player = Player::open(&recording, None, &mut screen, jiff::tz::TimeZone::UTC).unwrap();
        let mut seen = vec![player.wall.0];
        while player.step(&mut screen) {
            seen.push(player.wall.0);
        }
        assert_eq!(seen, [5000, 5001, 1400, 1401]);
        for seconds in [-10, 10, i64::MIN, i64::MAX] {
            player.go(seconds, &mut screen);
            assert!((1400..=5001).contains(&player.wall.0));
        }
    }
}
