//! E7: thread stacks, and how much of them is in memory, compared with the published listing (Solaris, 2007).
//!
//! # Claim
//!
//! A stack that the system created has almost no memory when its thread begins, and touching its lowest byte is not enough. One that
//! the program allocated and wrote to is in memory from the start. So a thread that must not wait runs on such a stack.
//!
//! # Method
//!
//! A program examines its main stack, the default stack of a thread, and one that it allocated itself (`millpond load stacks`). It is a
//! separate process, because a touched main stack stays large, and only a main thread has one. `mincore` counts the pages. These are compared
//! with a stack of the library for real-time programs, if the library is found; no figures of it were published.
//!
//! # Comparison
//!
//! The number of pages in memory, of how many, when nothing was touched, when the lowest byte was, and when every page was. Sizes are those of the
//! real machine. A sentence below each part states the differences; it is generated from the figures.

mod library;

use crate::Failure;
use crate::program::Program;
use millpond_machine::Absent;
use millpond_report::{Cell, Table};
use millpond_session::Library;
use millpond_workloads::stacks::{Count, Kind, Look, Stack, StacksResult, Touched};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The published figures.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The title.
    pub title: String,
    /// The source.
    pub source: String,
    /// The three parts of the listing.
    pub stacks: Vec<Stack>,
}

/// The published figures, and those of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct E7 {
    /// The published ones.
    pub published: Published,
    /// The measured ones.
    pub here: StacksResult,
    /// A stack of the library, or the reason why it is missing.
    pub library: Result<Count, String>,
}

/// Examines the stacks of a program, and one of the library; `program` is the one with the command `load stacks`.
///
/// # Errors
/// [`Failure`], also for a requested stop.
pub fn run(program: &Path, library: Result<Library, Absent>, stop: &AtomicBool) -> Result<E7, Failure> {
    let mut looking = Program::start("load stacks", program, &["stacks"])?;
    looking.go()?;
    looking.wait_for("ready", stop)?;
    looking.go()?;
    let found = library.and_then(|library| library::look(&library));
    let told = |Absent { why, what_would_help }| {
        what_would_help.map_or_else(|| why.clone(), |help| format!("{why}; {help}"))
    };
    E7::of(looking.result(stop)?, found.map_err(told))
}

impl Published {
    /// Parses the data, which are part of the program.
    #[must_use]
    pub fn read() -> Published {
        let text = include_str!("published.json");
        // A test proves that the text is valid.
        serde_json::from_str(text).unwrap_or(Published {
            title: String::new(),
            source: String::new(),
            stacks: Vec::new(),
        })
    }
}

const LIBRARY: &str = "one of stack_alloc, 64 KB";

const LIBRARY_LESSON: &str =
    "The library has touched it before, and keeps it for the next thread that wants one of its size.\n";

/// One line of a part.
type Row = (Touched, Option<Count>, Option<Count>);

const ORDER: [Touched; 3] = [Touched::Nothing, Touched::LowestByte, Touched::EveryPage];

impl E7 {
    /// The result from the output of `load stacks`, and from the library.
    fn of(said: Value, library: Result<Count, String>) -> Result<E7, Failure> {
        let unclear = |error: serde_json::Error| Failure::Program {
            program: "load stacks".into(),
            why: format!("it said what is no result: {error}"),
        };
        Ok(E7 { published: Published::read(), here: serde_json::from_value(said).map_err(unclear)?, library })
    }

    /// The parts, each with the published and the measured figures.
    fn parts(&self) -> impl Iterator<Item = (&Stack, Vec<Row>)> {
        self.here.stacks.iter().map(|ours| {
            let published = self.published.stacks.iter().find(|stack| stack.kind == ours.kind);
            let row = |touched| (touched, published.and_then(|p| count(p, touched)), count(ours, touched));
            let is_there = |(_, published, ours): &Row| published.is_some() || ours.is_some();
            (ours, ORDER.into_iter().map(row).filter(is_there).collect())
        })
    }

    /// A table and a conclusion for each part.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "e7: {}\npublished: {}\nhere: kernel {}, pages of {} KB\n",
            self.published.title,
            self.published.source,
            self.here.kernel,
            self.here.page_bytes >> 10
        );
        let cell = |count: Option<Count>| {
            Cell::from(count.map(|Count { resident, pages }| format!("{resident} of {pages}")).as_deref())
        };
        for (ours, rows) in self.parts() {
            let mut table = Table::of(&[name(ours.kind)], &["published", "here"]);
            for (touched, published, here) in rows {
                table.row([words(touched).into(), cell(published), cell(here)]);
            }
            text += &format!("\n{}", table.text());
            if let Some(why) = &ours.left_out {
                text += &format!("left out: {why}\n");
            }
            text += &lesson(ours).map(|lesson| lesson + "\n").unwrap_or_default();
        }
        let mut table = Table::of(&[LIBRARY], &["published", "here"]);
        table.row([words(Touched::Nothing).into(), Cell::Missing, cell(self.library.as_ref().ok().copied())]);
        text += &format!("\n{}", table.text());
        match &self.library {
            Ok(count) if count.resident == count.pages => text += LIBRARY_LESSON,
            Ok(count) => text += &format!("{} of it went away again.\n", pages(count.pages - count.resident)),
            Err(why) => text += &format!("left out: {why}\n"),
        }
        text
    }

    /// CSV output: a line for each reading.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut table =
            Table::of(&["stack", "touched", "published", "published pages", "here", "here pages"], &[]);
        let cells = |count: Option<Count>| {
            [count.map(|count| count.resident), count.map(|count| count.pages)]
                .map(|number| number.map_or(Cell::Missing, |number| Cell::Count(number as u64)))
        };
        for (ours, rows) in self.parts() {
            for (touched, published, here) in rows {
                let what = [ours.kind.word(), touched.words()].map(Cell::from);
                table.row(what.into_iter().chain(cells(published)).chain(cells(here)));
            }
        }
        if let Ok(count) = self.library {
            let what = ["stack_alloc", Touched::Nothing.words()].map(Cell::from);
            table.row(what.into_iter().chain(cells(None)).chain(cells(Some(count))));
        }
        table.csv()
    }

    /// JSON output.
    #[must_use]
    pub fn json(&self) -> Document<'_> {
        let look = |(touched, published, here)| LookRow { touched, published, here };
        let stack = |(ours, rows): (&'_ Stack, Vec<Row>)| StackRow {
            kind: ours.kind,
            looks: rows.into_iter().map(look).collect(),
            lesson: lesson(ours),
            left_out: ours.left_out.clone(),
        };
        Document {
            experiment: "e7",
            title: &self.published.title,
            source: &self.published.source,
            kernel: &self.here.kernel,
            page_bytes: self.here.page_bytes,
            stacks: self.parts().map(stack).collect(),
            library: LibraryRow {
                here: self.library.as_ref().ok(),
                left_out: self.library.as_ref().err().map(String::as_str),
            },
        }
    }
}

/// The JSON document.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stacks")]
pub struct Document<'a> {
    experiment: &'static str,
    title: &'a str,
    /// The publication.
    source: &'a str,
    /// The kernel's version.
    kernel: &'a str,
    page_bytes: usize,
    stacks: Vec<StackRow>,
    library: LibraryRow<'a>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stack")]
struct StackRow {
    kind: Kind,
    looks: Vec<LookRow>,
    /// The conclusion, as a sentence.
    lesson: Option<String>,
    /// What could not be measured, and why.
    left_out: Option<String>,
}

/// A stack after a part of it was touched.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Look")]
struct LookRow {
    touched: Touched,
    published: Option<Count>,
    here: Option<Count>,
}

/// A stack of the real-time library.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LibraryStack")]
struct LibraryRow<'a> {
    here: Option<&'a Count>,
    /// Why it was left out, if it was.
    left_out: Option<&'a str>,
}

fn count(stack: &Stack, touched: Touched) -> Option<Count> {
    stack.looks.iter().find(|look| look.touched == touched).map(|look| look.count)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Main => "the main stack",
        Kind::Default => "the default stack of a thread",
        Kind::Own => "one that was written to before",
    }
}

fn words(touched: Touched) -> &'static str {
    match touched {
        Touched::Nothing => "nothing touched",
        Touched::LowestByte => "its lowest byte touched",
        Touched::EveryPage => "every page touched",
    }
}

/// The conclusion from a stack's figures; `None` with too few figures.
fn lesson(stack: &Stack) -> Option<String> {
    let first = stack.looks.first()?.count;
    if stack.kind == Kind::Own {
        return Some(match first.pages - first.resident {
            0 => "All of it is there when its thread begins, on both systems: no touch of it waits. stack_alloc of millpond-rt gives such \
                  stacks, with a guard on each side."
                .into(),
            gone => format!("{} of it went away again before its thread began.", pages(gone)),
        });
    }
    let Look { count: touched, .. } = stack.looks.get(1)?;
    let (came, open) = (touched.resident.saturating_sub(first.resident), touched.pages - touched.resident);
    Some(match (stack.kind, open) {
        (_, 0) if first.resident == touched.pages => {
            "All of it was there before anything was touched.".into()
        }
        (_, 0) => "To touch its lowest byte brings all of it.".into(),
        (Kind::Main, _) => format!(
            "On Solaris a touch of its lowest byte fills the gap. Here the stack grows down to there, and {} of it {}: {} still to come, each \
             when it is touched. A real-time thread touches every page of it first, or locks the whole (stack_lock of millpond-rt).",
            pages(came),
            if came == 1 { "comes" } else { "come" },
            pages(open) + if open == 1 { " is" } else { " are" },
        ),
        _ => format!(
            "A touch brings {}, {}: a thread that must not wait touches every page first, and each thread anew.",
            pages(came),
            if came == 1 { "on both systems" } else { "and brought 1 on Solaris" },
        ),
    })
}

/// A count of pages: `1 page`, `2 pages`.
fn pages(count: usize) -> String {
    format!("{count} page{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
