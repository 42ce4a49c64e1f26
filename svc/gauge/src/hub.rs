//! The latest frames, and the viewers that wait for the next one.

use crate::texts::Texts;
use millpond_observe::catalogue::Entity;
use millpond_observe::{Frame, Intervals};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Intervals that are kept for the time line: ten minutes, at one per second.
pub const KEPT: usize = 600;

/// The tables of the dashboard: all except for the long lists.
pub const BRIEF: [Entity; 8] = [
    Entity::Machine,
    Entity::Pool,
    Entity::Pset,
    Entity::Cpu,
    Entity::Latency,
    Entity::Noise,
    Entity::Fence,
    Entity::Decision,
];

/// The tables of the time line: few rows, kept for [`KEPT`] intervals.
pub const TIME_LINE: [Entity; 4] = [Entity::Machine, Entity::Pool, Entity::Pset, Entity::Decision];

/// A frame, with its texts.
#[derive(Debug)]
pub struct Published {
    /// The number of the frame, counted from 1 since the service started.
    pub number: u64,
    /// The totals.
    pub totals: Arc<Texts>,
    /// The interval that ends with this frame. Counters of the first interval are unknown.
    pub interval: Arc<Texts>,
}

/// Passes frames from the collector to requests.
#[derive(Debug)]
pub struct Hub {
    past: Mutex<Past>,
    latest: watch::Sender<Option<Arc<Published>>>,
    viewers: Mutex<Viewers>,
    /// Failed reads of the machine.
    failures: AtomicU64,
}

#[derive(Debug, Default)]
struct Viewers {
    /// The number of the frame that each viewer got last; 0 before the first one.
    seen: BTreeMap<u64, u64>,
    /// The id of the next viewer.
    next: u64,
    /// Frames that were not sent, except for those that current viewers lack at this moment.
    dropped: u64,
}

#[derive(Debug, Default)]
struct Past {
    intervals: Intervals,
    number: u64,
    kept: VecDeque<Arc<Texts>>,
}

impl Default for Hub {
    fn default() -> Hub {
        Hub {
            past: Mutex::default(),
            latest: watch::Sender::new(None),
            viewers: Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }
}

impl Hub {
    /// Publishes the next frame and wakes the viewers. A viewer that is slower than the frames skips to the latest
    /// one.
    pub fn publish(&self, totals: Frame) {
        let mut past = self.past();
        let interval = past.intervals.push(totals.clone()).unwrap_or_else(|| past.intervals.first_look());
        past.number += 1;
        if past.kept.len() == KEPT {
            past.kept.pop_front();
        }
        past.kept.push_back(Texts::of(only(&interval, &TIME_LINE)));
        let number = past.number;
        drop(past);
        let published = Published { number, totals: Texts::of(totals), interval: Texts::of(interval) };
        self.latest.send_replace(Some(Arc::new(published)));
    }

    /// The latest frame. `None` before the first one.
    #[must_use]
    pub fn latest(&self) -> Option<Arc<Published>> {
        self.latest.borrow().clone()
    }

    /// The intervals of the [`TIME_LINE`] tables, oldest first: at most [`KEPT`].
    #[must_use]
    pub fn past_intervals(&self) -> Vec<Arc<Texts>> {
        self.past().kept.iter().cloned().collect()
    }

    /// Counts a failed read of the machine. The latest frame stays.
    pub fn fail(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Failed reads of the machine.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Viewers that are connected.
    #[must_use]
    pub fn viewers(&self) -> u64 {
        lock(&self.viewers).seen.len() as u64
    }

    /// Frames that viewers did not get because they read too slowly or not at all.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let latest = self.latest().map_or(0, |latest| latest.number);
        let viewers = lock(&self.viewers);
        viewers.dropped + viewers.seen.values().map(|seen| lost(*seen, latest)).sum::<u64>()
    }

    /// Adds a viewer. It gets the latest frame first.
    #[must_use]
    pub fn view(self: &Arc<Hub>) -> Viewer {
        let mut viewers = lock(&self.viewers);
        let id = viewers.next;
        viewers.next += 1;
        viewers.seen.insert(id, 0);
        let mut frames = self.latest.subscribe();
        frames.mark_changed();
        Viewer { hub: Arc::clone(self), frames, id }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        lock(&self.past)
    }
}

/// Uses a poisoned mutex as it is: every update leaves the data consistent.
fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frames between the last one of a viewer and the latest one, which it gets next.
fn lost(seen: u64, latest: u64) -> u64 {
    if seen == 0 { 0 } else { latest.saturating_sub(seen + 1) }
}

/// A connection that gets frames as they are published.
#[derive(Debug)]
pub struct Viewer {
    hub: Arc<Hub>,
    frames: watch::Receiver<Option<Arc<Published>>>,
    id: u64,
}

impl Viewer {
    /// Waits for a new frame. `None` at the end of the service.
    pub async fn next(&mut self) -> Option<Arc<Published>> {
        loop {
            self.frames.changed().await.ok()?;
            let Some(latest) = self.frames.borrow_and_update().clone() else { continue };
            let mut viewers = lock(&self.hub.viewers);
            let seen = viewers.seen.insert(self.id, latest.number).unwrap_or(0);
            viewers.dropped += lost(seen, latest.number);
            drop(viewers);
            return Some(latest);
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let latest = self.hub.latest().map_or(0, |latest| latest.number);
        let mut viewers = lock(&self.hub.viewers);
        let seen = viewers.seen.remove(&self.id).unwrap_or(0);
        viewers.dropped += lost(seen, latest);
    }
}

/// The frame with only these tables.
#[must_use]
pub fn only(frame: &Frame, tables: &[Entity]) -> Frame {
    let mut part = Frame::at(frame.at, frame.wall);
    part.elapsed = frame.elapsed;
    part.missing.clone_from(&frame.missing);
    for entity in tables {
        part.take_rows_of(*entity, frame);
    }
    part
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use millpond_model::{Nanos, WallTime};
    use millpond_observe::Row;
    use millpond_observe::catalogue::{cpu, thread};

    fn frame(at_s: u64) -> Frame {
        let mut frame = Frame::at(Nanos::from_secs(at_s), WallTime(0));
        let busy = Nanos::from_millis(at_s * 250);
        let row = Row::of(Entity::Cpu).with(cpu::ID, 3u32).with(cpu::USER, busy);
        frame.set_rows(Entity::Cpu, vec![row]);
        frame.set_rows(Entity::Thread, vec![Row::of(Entity::Thread).with(thread::LWP, 1u32)]);
        frame
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    #[test]
    fn a_slow_viewer_gets_the_latest_frame_and_what_it_missed_is_counted() {
        let hub = Arc::new(Hub::default());
        hub.publish(frame(1));
        let mut viewer = hub.view();
        assert_eq!(run(viewer.next()).unwrap().number, 1);
        for at in 2..=5 {
            hub.publish(frame(at));
        }
        assert_eq!(run(viewer.next()).unwrap().number, 5);
        assert_eq!((hub.viewers(), hub.dropped()), (1, 3));
        drop(viewer);
        assert_eq!(hub.viewers(), 0);
    }

    #[test]
    fn events_have_rates_and_no_threads() {
        let hub = Hub::default();
        hub.publish(frame(1));
        hub.publish(frame(2));
        let latest = hub.latest().unwrap();
        let event = run(latest.interval.event(latest.number, &BRIEF)).concat();
        let text = String::from_utf8(event).unwrap();
        assert!(text.starts_with("id: 2\nevent: frame\ndata: {") && text.ends_with("}\n\n"), "{text}");
        assert!(text.contains(r#""user_s":0.25"#) && text.contains(r#""threads":[]"#), "{text}");
        assert_eq!(latest.interval.frame.rows(Entity::Thread).len(), 1);
        assert_eq!(text.matches('\n').count(), 4);
    }

    #[test]
    fn the_time_line_is_bounded() {
        let hub = Hub::default();
        for at in 0..KEPT as u64 + 5 {
            hub.publish(frame(at));
        }
        let kept = hub.past_intervals();
        assert_eq!((kept.len(), kept[0].frame.at), (KEPT, Nanos::from_secs(5)));
        assert!(kept[0].frame.rows(Entity::Cpu).is_empty());
    }
}
