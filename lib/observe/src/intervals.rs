//! Frames one after another as intervals.

use crate::Frame;
use crate::catalogue::Entity;
use millpond_model::Nanos;

/// Makes an interval of each frame and those before it. Tables that are read less often than frames are made keep the rates of their own last
/// interval until they are read again.
#[derive(Debug, Clone, Default)]
pub struct Intervals {
    latest: Option<Frame>,
    /// For each table its last reading before that of the latest frame.
    before: Frame,
}

impl Intervals {
    /// The interval that ends with this frame. `None` for the first one: nothing is known of what was before.
    pub fn push(&mut self, frame: Frame) -> Option<Frame> {
        let latest = self.latest.replace(frame)?;
        let frame = self.latest.as_ref()?;
        for entity in Entity::ALL {
            if frame.read_at(entity) != latest.read_at(entity) {
                self.before.take_rows_of(entity, &latest);
            }
        }
        self.before.at = latest.at;
        Some(frame.since(&self.before))
    }

    /// The latest frame, with totals.
    #[must_use]
    pub fn latest(&self) -> Option<&Frame> {
        self.latest.as_ref()
    }

    /// The latest frame as a first look: what is counted is unknown.
    #[must_use]
    pub fn first_look(&self) -> Frame {
        let Some(latest) = &self.latest else { return Frame::default() };
        let mut first = latest.since(latest);
        first.elapsed = None;
        first
    }

    /// The length of the latest frame's interval at which a table is told.
    #[must_use]
    pub fn elapsed(&self, entity: Entity) -> Option<Nanos> {
        let latest = self.latest.as_ref()?;
        Some(latest.read_at(entity)? - self.before.read_at(entity)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::catalogue::{cpu, thread};
    use millpond_model::WallTime;

    fn frame(at_s: u64, threads_at_s: u64) -> Frame {
        let mut frame = Frame::at(Nanos::from_secs(at_s), WallTime(0));
        let cpu = Row::of(Entity::Cpu).with(cpu::ID, 0u32).with(cpu::USER, Nanos::from_millis(at_s * 500));
        frame.set_rows(Entity::Cpu, vec![cpu]);
        let time = Nanos::from_millis(threads_at_s * 250);
        let thread = Row::of(Entity::Thread).with(thread::LWP, 1u32).with(thread::TIME, time);
        frame.set_rows_read_at(Entity::Thread, Nanos::from_secs(threads_at_s), vec![thread]);
        frame
    }

    #[test]
    fn what_is_read_less_often_keeps_its_rate_until_it_is_read_again() {
        let mut intervals = Intervals::default();
        assert_eq!(intervals.push(frame(10, 10)), None);
        assert_eq!(intervals.first_look().rows(Entity::Cpu)[0].number(cpu::USER), None);
        let rates = |interval: Option<Frame>| {
            let interval = interval.unwrap();
            (
                interval.rows(Entity::Cpu)[0].number(cpu::USER),
                interval.rows(Entity::Thread)[0].number(thread::TIME),
            )
        };
        assert_eq!(
            rates(intervals.push(frame(11, 10))),
            (Some(0.5), None),
            "there is one reading of threads"
        );
        assert_eq!(rates(intervals.push(frame(12, 12))), (Some(0.5), Some(0.25)));
        assert_eq!(rates(intervals.push(frame(13, 12))), (Some(0.5), Some(0.25)));
        assert_eq!(intervals.elapsed(Entity::Thread), Some(Nanos::from_secs(2)));
        assert_eq!(intervals.elapsed(Entity::Cpu), Some(Nanos::from_secs(1)));
    }
}
