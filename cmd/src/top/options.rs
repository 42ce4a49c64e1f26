//! The options of `top`.

use crate::failure::Failure;
use crate::interval::Repetition;
use crate::values;
use millpond_cli::Parsed;
use millpond_model::Nanos;
use millpond_observe::catalogue::FieldId;
use millpond_screen::{Filter, NUMBERED, Order, View};
use std::path::PathBuf;

/// The names of the screens.
pub const VIEWS: &[&str] =
    &["overview", "cpus", "threads", "processes", "interrupts", "decisions", "fences", "latency", "noise"];

/// The default interval.
const INTERVAL: Nanos = Nanos::from_secs(1);

/// The most printed rows of a list.
const LINES: usize = 20;

pub struct Options {
    pub view: View,
    pub order: Order,
    pub filter: Filter,
    pub lines: usize,
    pub loads: Vec<String>,
    pub events: bool,
    pub noise: bool,
    /// Shows a recording: the given one, or the default one of this machine.
    pub replays: bool,
    pub recording: Option<PathBuf>,
    pub at: Option<String>,
    pub json: bool,
    /// Prints reports, even on a terminal.
    pub prints: bool,
    pub repetition: Repetition,
}

fn view(name: &str) -> Result<View, Failure> {
    let named = NUMBERED.into_iter().find(|view| view.title().eq_ignore_ascii_case(name));
    named
        .ok_or_else(|| Failure::Operand(format!("there is no view `{name}`; there are {}", VIEWS.join(", "))))
}

impl Options {
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let view = parsed.long_value("view").map_or(Ok(View::Overview), |name| view(&name))?;
        let order = match parsed.long_value("sort") {
            None => view.order(),
            Some(word) => Order { by: Some(field(&view, &word)?), reversed: false },
        };
        let once = parsed.long("once");
        let given = Repetition::parse(&parsed.words())?;
        let count = if once { Some(1) } else { given.and_then(|given| given.count) };
        if once && given.is_some_and(|given| given.count.is_some()) {
            return Err(Failure::Usage("--once prints one report: a count goes with --batch".into()));
        }
        let lines = match parsed.value('n') {
            None => LINES,
            Some(text) => values::count(&text).ok_or_else(|| {
                Failure::Operand(format!("cannot print {text} lines: a count is at least 1"))
            })?,
        };
        Ok(Options {
            order,
            filter: Filter::new(&parsed.long_value("filter").unwrap_or_default()),
            lines,
            loads: parsed.long_values("load"),
            events: parsed.long("events") || view == View::Cpus,
            noise: parsed.long("noise") || view == View::Noise,
            replays: parsed.long_value("replay").is_some() || parsed.long_value("at").is_some(),
            recording: parsed.long_value("replay").map(PathBuf::from),
            at: parsed.long_value("at"),
            json: parsed.common.json,
            prints: once || parsed.long("batch") || count.is_some(),
            repetition: Repetition { interval: given.map_or(INTERVAL, |given| given.interval), count },
            view,
        })
    }

    /// Whether a screen is shown if there is a terminal.
    pub fn is_screen_wanted(&self) -> bool {
        !self.prints && !self.json
    }

    /// The data to read.
    pub fn collected(&self) -> millpond_collect::Options {
        millpond_collect::Options {
            events: self.events,
            noise: self.noise,
            ..millpond_collect::Options::default()
        }
    }
}

/// The field of a view with this name.
fn field(view: &View, word: &str) -> Result<FieldId, Failure> {
    let (entity, shown) = view.list();
    FieldId::headed(entity, word).ok_or_else(|| {
        let names: Vec<&str> = shown.iter().map(|id| id.field().heading).collect();
        Failure::Mistake(
            format!("`{word}` is no field of {}", view.title()),
            format!("there are {}", names.join(", ")),
        )
    })
}
