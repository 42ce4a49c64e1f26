//! Priority inversion: three threads of different priorities on one CPU. With a plain lock, the high one waits as long as the middle one
//! computes. With priority inheritance, it waits at most for the critical section of the low one. On the real machine; no figures were published.
//!
//! The locks are those of the library for real-time programs, which is loaded at run time: the suite is not linked with it. The
//! experiment is the library's own example, from the same file.

mod locks;
#[path = "../../../../rt/rt/examples/inversion/meeting.rs"]
mod meeting;

use crate::Failure;
use locks::{FoundLock, Kind};
use meeting::{Event, Level, Meeting, What, Work, meet};
use millpond_machine::Absent;
use millpond_report::{Cell, Table};
use millpond_session::Library;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;

/// Run time of the middle thread, in milliseconds. With a bounded wait, these times make no difference.
const MIDDLE_MILLIS: [u64; 3] = [20, 60, 180];

/// Run time of the low thread under the lock, in milliseconds: the bound.
const LOW_MILLIS: u64 = 10;

/// Run time of the high thread.
const HIGH_MILLIS: u64 = 5;

/// Length of one mark of a time line, in milliseconds.
const MARK_MILLIS: u64 = 4;

/// The results.
#[derive(Debug)]
pub struct Inversion {
    library: String,
    runs: Vec<Run>,
}

/// One meeting.
#[derive(Debug)]
struct Run {
    kind: Kind,
    middle_millis: u64,
    meeting: Meeting,
}

/// The JSON document.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Inversion")]
pub struct Document<'a> {
    experiment: &'static str,
    /// The library's file name.
    library: &'a str,
    meetings: Vec<MeetingRow>,
}

/// A run with three threads and a lock.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Meeting")]
struct MeetingRow {
    lock: &'static str,
    /// Computing time of the middle thread.
    middle_ms: u64,
    /// The high thread's wait for the lock; null if it did not get it.
    waited_ms: Option<f64>,
    /// Whether it waited for the middle thread's work; null if unknown.
    inverted: Option<bool>,
    events: Vec<EventRow>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MeetingEvent")]
struct EventRow {
    /// `low`, `middle` or `high`.
    thread: &'static str,
    /// `wants`, `has` or `frees` the lock; `begins` or `ends` its work.
    event: &'static str,
    /// Nanoseconds since the start.
    ns: u64,
}

/// Runs the six meetings: less than a second in total.
///
/// # Errors
/// [`Failure::NotHere`]: the library lacks the functions, the kernel lacks such locks, or the process may not use real-time classes.
pub fn run(library: &Library) -> Result<Inversion, Failure> {
    let mut runs = Vec::new();
    for kind in [Kind::Plain, Kind::Inherits] {
        for middle_millis in MIDDLE_MILLIS {
            let lock = FoundLock::new(library, kind).map_err(Failure::NotHere)?;
            let work = Work { low: LOW_MILLIS, middle: middle_millis, high: HIGH_MILLIS };
            let meeting = meet(&lock, work).map_err(|why| Failure::NotHere(Absent::because(why)))?;
            runs.push(Run { kind, middle_millis, meeting });
        }
    }
    Ok(Inversion { library: library.name().to_owned(), runs })
}

impl Run {
    fn waited_millis(&self) -> Option<f64> {
        // Exact: microseconds of less than a second.
        let micros = u32::try_from(self.meeting.waited()? / 1000).ok()?;
        Some(f64::from(micros) / 1000.0)
    }

    fn json(&self) -> MeetingRow {
        let events = self.meeting.events.iter();
        let event =
            |event: &Event| EventRow { thread: name(event.level), event: what(event.what), ns: event.nanos };
        MeetingRow {
            lock: self.kind.name(),
            middle_ms: self.middle_millis,
            waited_ms: self.waited_millis(),
            inverted: self.meeting.is_inverted(),
            events: events.map(event).collect(),
        }
    }
}

impl Inversion {
    /// A row for each meeting.
    fn table(&self) -> Table {
        let mut table =
            Table::of(&["lock"], &["middle ms", "high waits ms"]).and_words(&["and has the lock"]);
        for run in &self.runs {
            let order = match run.meeting.is_inverted() {
                Some(true) => Cell::from("behind the middle one's work"),
                Some(false) => Cell::from("before the middle one's work is done"),
                None => Cell::Missing,
            };
            table.row([
                Cell::from(run.kind.name()),
                Cell::Count(run.middle_millis),
                run.waited_millis().map_or(Cell::Missing, |millis| Cell::Real(millis, 1)),
                order,
            ]);
        }
        table
    }

    /// Text output: time lines, the table, and the conclusion.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "A low, a middle and a high thread meet on one CPU ({}).\n= has the lock, - waits for it, # computes without it; a mark is {MARK_MILLIS} ms.\n",
            self.library
        );
        for run in &self.runs {
            let _ = write!(
                text,
                "\n{}, the middle one computes {} ms\n{}",
                run.kind.name(),
                run.middle_millis,
                run.meeting.timeline(MARK_MILLIS)
            );
        }
        let _ = write!(text, "\n{}\n{}", self.table().text(), self.verdict());
        text
    }

    /// The conclusion, from the order of events and not their times.
    fn verdict(&self) -> &'static str {
        let all = |kind, inverted| {
            let mut runs = self.runs.iter().filter(|run| run.kind == kind);
            runs.all(|run| run.meeting.is_inverted() == Some(inverted))
        };
        match (all(Kind::Plain, true), all(Kind::Inherits, false)) {
            (true, true) => {
                "Under the plain lock the high one waits for the middle one, however long that is; with inheritance only for the section of the low one.\n"
            }
            (_, false) => {
                "With inheritance the high one waited for the middle one: this kernel does not lend priorities.\n"
            }
            (false, true) => {
                "Under the plain lock the middle one was not in the way: something else ran the threads on this CPU.\n"
            }
        }
    }

    /// CSV output.
    #[must_use]
    pub fn csv(&self) -> String {
        self.table().csv()
    }

    /// JSON output.
    #[must_use]
    pub fn json(&self) -> Document<'_> {
        let meetings = self.runs.iter().map(Run::json).collect();
        Document { experiment: "inversion", library: &self.library, meetings }
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Low => "low",
        Level::Middle => "middle",
        Level::High => "high",
    }
}

fn what(what: What) -> &'static str {
    match what {
        What::Wants => "wants",
        What::Has => "has",
        What::Frees => "frees",
        What::Begins => "begins",
        What::Ends => "ends",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meeting as it would be if only the threads took time.
    fn ideal(kind: Kind, middle_millis: u64) -> Run {
        let (has, begins) = match kind {
            Kind::Plain => (LOW_MILLIS + middle_millis, 0),
            Kind::Inherits => (LOW_MILLIS, LOW_MILLIS + HIGH_MILLIS),
        };
        let mut events = vec![
            (Level::Low, What::Wants, 0),
            (Level::Low, What::Has, 0),
            (Level::High, What::Wants, 0),
            (Level::Middle, What::Begins, begins),
            (Level::Middle, What::Ends, begins + middle_millis),
            (Level::Low, What::Frees, has),
            (Level::High, What::Has, has),
            (Level::High, What::Frees, has + HIGH_MILLIS),
        ];
        events.sort_by_key(|(_, _, millis)| *millis);
        let event = |(place, (level, what, millis)): (usize, (Level, What, u64))| Event {
            place,
            level,
            what,
            nanos: millis * 1_000_000,
        };
        let events = events.into_iter().enumerate().map(event).collect();
        Run { kind, middle_millis, meeting: Meeting { events } }
    }

    #[test]
    fn what_happened_is_told_in_lines_a_table_and_a_sentence() {
        let runs = vec![ideal(Kind::Plain, 20), ideal(Kind::Inherits, 20)];
        let found = Inversion { library: "libmillpond_rt.so.0".into(), runs };
        let expected = "\
A low, a middle and a high thread meet on one CPU (libmillpond_rt.so.0).
= has the lock, - waits for it, # computes without it; a mark is 4 ms.

plain, the middle one computes 20 ms
  high    |-------=
  middle  |#####
  low     |=======

inherits, the middle one computes 20 ms
  high    |--=
  middle  |   #####
  low     |==

lock      middle ms  high waits ms  and has the lock
plain            20           30.0  behind the middle one's work
inherits         20           10.0  before the middle one's work is done

Under the plain lock the high one waits for the middle one, however long that is; with inheritance only for the section of the low one.
";
        assert_eq!(found.text(), expected);
        assert_eq!(found.csv().lines().nth(1), Some("plain,20,30.0,behind the middle one's work"));
        let json = serde_json::to_value(found.json()).unwrap();
        assert_eq!(json["meetings"][1]["inverted"], false);
        assert_eq!(json["meetings"][0]["waited_ms"], 30.0);
    }

    #[test]
    fn a_kernel_that_lends_no_priority_is_told() {
        let mut run = ideal(Kind::Plain, 20);
        run.kind = Kind::Inherits;
        let found = Inversion { library: "a".into(), runs: vec![ideal(Kind::Plain, 20), run] };
        assert!(found.verdict().ends_with("this kernel does not lend priorities.\n"));
    }
}
