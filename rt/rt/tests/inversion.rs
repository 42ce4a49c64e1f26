//! The example of priority inversion with three threads, checked by the order of events.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../examples/inversion/meeting.rs"]
#[allow(dead_code, reason = "the test draws no lines")]
mod meeting;

use meeting::{Lock, Work, meet};
use millpond_rt::Mutex;

struct Ours(Mutex<()>);

impl Lock for Ours {
    fn hold(&self, section: &mut dyn FnMut()) -> Result<(), String> {
        let _held = self.0.lock().map_err(|error| error.to_string())?;
        section();
        Ok(())
    }
}

#[test]
fn the_high_one_waits_for_the_middle_one_under_a_plain_lock_and_not_under_ours() {
    let work = Work { low: 5, middle: 20, high: 2 };
    let plain = match meet(&Ours(Mutex::plain(()).unwrap()), work) {
        Ok(plain) => plain,
        Err(why) => {
            return println!(
                "skipped: the_high_one_waits_for_the_middle_one_under_a_plain_lock_and_not_under_ours: {why}"
            );
        }
    };
    assert_eq!(plain.events.len(), 8);
    assert_eq!(plain.is_inverted(), Some(true), "{plain:?}");
    let ours = meet(&Ours(Mutex::new(()).unwrap()), work).unwrap();
    assert_eq!(ours.events.len(), 8);
    assert_eq!(ours.is_inverted(), Some(false), "{ours:?}");
}

#[test]
fn lines_show_who_has_the_lock_and_who_waits() {
    use meeting::{Event, Level, Meeting, What};
    let happened = [
        (Level::Low, What::Wants, 0),
        (Level::Low, What::Has, 0),
        (Level::High, What::Wants, 1),
        (Level::Middle, What::Begins, 1),
        (Level::Middle, What::Ends, 4),
        (Level::Low, What::Frees, 6),
        (Level::High, What::Has, 6),
        (Level::High, What::Frees, 8),
    ];
    let event = |(place, (level, what, millis)): (usize, (Level, What, u64))| Event {
        place,
        level,
        what,
        nanos: millis * 1_000_000,
    };
    let meeting = Meeting { events: happened.into_iter().enumerate().map(event).collect() };
    assert_eq!(meeting.timeline(1), "  high    | -----==\n  middle  | ###\n  low     |======\n");
    assert_eq!(meeting.waited(), Some(5_000_000));
    assert_eq!(meeting.is_inverted(), Some(true));
}
