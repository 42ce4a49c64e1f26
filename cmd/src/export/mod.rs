//! Converts a recording to a file for other programs: CSV, Parquet or a Perfetto trace.
//!
//! ```text
//! $ millpond export --csv --table sets --from 09:41 > sets.csv
//! $ millpond export --parquet --table threads --output threads.parquet
//! $ millpond export --perfetto --output trace.json
//! ```
//!
//! `--csv` and `--parquet` have a row for each object and interval. It begins with the end of the interval: `time` in seconds
//! since 1970, and `up_s` in seconds since boot. In CSV `time` has fractions if the interval is shorter than a second. The
//! length of the interval and the fields of `docs/reference/fields.md` follow. Counters are per second. A table that is read
//! less often than every second has rows of its own intervals. Unknown values are empty. In CSV an apostrophe precedes a
//! name that begins with `=`, `+`, `-` or `@`, so that no spreadsheet evaluates it.
//!
//! `--perfetto` writes a trace for `https://ui.perfetto.dev`: for each set its CPU use and waiting threads, for each
//! CPU its use and its sets, and the decisions of poold.
//!
//! Without an operand it converts the recording of this machine.

mod parquet;
mod perfetto;
mod walk;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::interval::Meter;
use crate::json::Describe;
use crate::recordings;
use jiff::tz::TimeZone;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_model::{Histogram, Nanos, WallTime};
use millpond_observe::catalogue::{Entity, fields};
use millpond_observe::{Frame, Value};
use millpond_report::Cell;
use millpond_session::{Output, create_file, create_output, output_is_terminal, stop_on_signal};
use millpond_store::Recording;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use walk::Walk;

/// It prints no JSON document of Millpond.
pub(crate) const DOCUMENTS: &[Describe] = &[];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "export",
        summary: "write a recording as CSV, Parquet or a trace for Perfetto",
        group: Group::Past,
        forms: &[
            "--csv [--table table] [--from moment] [--until moment] [--output file] [recording]",
            "--parquet --output file [--table table] [--from moment] [--until moment] [recording]",
            "--perfetto [--from moment] [--until moment] [--output file] [recording]",
        ],
        flags: &[
            Flag::long("csv", "write comma-separated values"),
            Flag::long("parquet", "write a Parquet file").conflicts(&["csv"]),
            Flag::long("perfetto", "write a trace for Perfetto").conflicts(&["csv", "parquet", "table"]),
            Flag::long("table", "write this table: sets (the default), machine, pools, cpus, processes, threads, latencies, noise, interrupts, fences or decisions").value("table", ValueKind::Word(TABLES)),
            Flag::long("from", "begin at this moment").value("moment", ValueKind::Text),
            Flag::long("until", "end at this moment").value("moment", ValueKind::Text),
            Flag::long("output", "write into this file").value("file", ValueKind::File),
        ],
        in_shell: true,
        permutes: true,
        operands: Operands { shown: "[recording]", kinds: &[ValueKind::Directory] },
        examples: &[
            Example { words: "--csv --table cpus", what: "print what each CPU did, each second" },
            Example { words: "--perfetto --output trace.json", what: "write a trace that Perfetto opens" },
        ],
        status: &[INTERRUPTED, ("1", "the recording cannot be read, or the file cannot be written"), MISUSED],
        see_also: &["millpond-record(1)", "millpond-top(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The names of tables, as JSON has them.
const TABLES: &[&str] = &[
    "machine",
    "pools",
    "sets",
    "cpus",
    "processes",
    "threads",
    "latencies",
    "noise",
    "interrupts",
    "fences",
    "decisions",
];

/// The columns before those of fields.
const HEADS: [&str; 3] = ["time", "up_s", "interval_s"];

/// The requested export.
struct Wanted<'r> {
    recording: &'r Recording,
    entity: Entity,
    from: WallTime,
    until: WallTime,
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let path = recordings::named(&parsed.words())?;
    let formats = ["csv", "parquet", "perfetto"];
    let Some(format) = formats.into_iter().find(|format| parsed.long(format)) else {
        return Err(Failure::Usage("must specify --csv, --parquet or --perfetto".into()));
    };
    let output = parsed.long_value("output").map(PathBuf::from);
    let recording = recordings::open(&path)?;
    recording.notes.iter().for_each(|note| ctx.warn(note));
    let wanted = wanted(parsed, &recording, &ctx.zone())?;
    recordings::readable(&path, &recording, wanted.from)?;
    if let Some(output) = &output {
        recordings::not_within(output, &path)?;
    }
    let refused = |path: &Path, why: String| Complaint::new(format!("write {}", path.display()), why);
    let span = recording.span();
    // If the output goes to a terminal, its lines show the progress.
    let meter = match output.is_none() && output_is_terminal() {
        true => None,
        false => Meter::begin(&ctx.prog, ctx.err.lend(), "Ctrl-C ends it, and what was written stays"),
    };
    let mut walk = wanted.walk().measured(meter, span.as_ref());
    match (format, &output) {
        ("parquet", None) => {
            return Err(Failure::Usage("--parquet needs --output file: it is no text".into()));
        }
        ("parquet", Some(path)) => {
            let file = create_file(path).map_err(|why| refused(path, why))?;
            parquet::write(&wanted, &mut walk, file).map_err(|why| refused(path, why))?;
        }
        (_, Some(path)) => {
            let mut out = create_output(path).map_err(|why| refused(path, why))?;
            lines(format, &wanted, &mut walk, &mut out);
            out.finish().map_err(|why| refused(path, millpond_session::reason(&why)))?;
        }
        (_, None) => lines(format, &wanted, &mut walk, &mut ctx.out.lend()),
    }
    walk.damaged().iter().for_each(|why| ctx.warn(why));
    Ok(Exit::DONE)
}

fn lines(format: &str, wanted: &Wanted<'_>, walk: &mut Walk<'_>, out: &mut Output<'_>) {
    match format {
        "perfetto" => perfetto::write(walk, out),
        _ => csv(wanted.entity, walk, out),
    }
}

fn wanted<'r>(parsed: &Parsed, recording: &'r Recording, zone: &TimeZone) -> Result<Wanted<'r>, Failure> {
    let table = parsed.long_value("table").unwrap_or_else(|| "sets".into());
    let named = Entity::ALL.into_iter().find(|entity| Frame::plural(*entity) == table);
    let entity = named.ok_or_else(|| {
        Failure::Operand(format!("there is no table `{table}`; there are {}", TABLES.join(", ")))
    })?;
    let span = recording.span();
    let moment = |name: &str| match (parsed.long_value(name), &span) {
        (Some(text), Some(span)) => recordings::moment(&text, span, zone).map(Some),
        _ => Ok(None),
    };
    Ok(Wanted {
        recording,
        entity,
        from: moment("from")?.unwrap_or(WallTime(i64::MIN)),
        until: moment("until")?.unwrap_or(WallTime(i64::MAX)),
    })
}

impl<'r> Wanted<'r> {
    fn walk(&self) -> Walk<'r> {
        Walk::begin(self.recording, self.from, self.until)
    }
}

fn csv(entity: Entity, walk: &mut Walk<'_>, out: &mut Output<'_>) {
    let names = fields(entity).iter().map(|field| field.name);
    out.line(HEADS.into_iter().chain(names).collect::<Vec<_>>().join(","));
    let stop = stop_on_signal();
    let mut clock = WallClock::default();
    while let Some(interval) = walk.next_of(entity) {
        if out.is_closed() || stop.load(Ordering::Relaxed) {
            return;
        }
        let elapsed = interval.elapsed.map_or_else(String::new, |time| number(time.as_secs_f64()));
        let time = clock.time(interval.at, interval.wall, interval.elapsed);
        let head = format!("{time},{},{elapsed}", number(interval.at.as_secs_f64()));
        for row in interval.frame.rows(entity) {
            let mut line = head.clone();
            for value in row.values() {
                line.push(',');
                match value {
                    Value::Unknown => {}
                    Value::Number(value) => line += &number(*value),
                    Value::Text(text) => line += &Cell::from(&**text).csv(),
                    Value::Histogram(histogram) => line += &buckets(histogram),
                }
            }
            out.line(line);
        }
    }
}

/// The wall clock of a recording. Recorded times have whole seconds. Their fractions come from the machine's own
/// clock, counted from the latest possible second.
#[derive(Debug, Default)]
struct WallClock {
    /// The wall-clock time at machine time 0, in ns.
    began: Option<i128>,
}

impl WallClock {
    /// The end of an interval: with a fraction if the interval is shorter than a second.
    fn time(&mut self, at: Nanos, wall: WallTime, elapsed: Option<Nanos>) -> String {
        const SECOND: i128 = 1_000_000_000;
        let least = i128::from(wall.0) * SECOND - i128::from(at.0);
        // The wall clock may have been set.
        let is_possible = |began: &i128| (least..least + SECOND).contains(began);
        let began = *self.began.insert(self.began.filter(is_possible).unwrap_or(least));
        if elapsed.is_none_or(|elapsed| elapsed.0 >= Nanos::from_secs(1).0) {
            return wall.0.to_string();
        }
        let millis = (i128::from(at.0) + began) / (SECOND / 1000);
        format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
    }
}

/// The events of the interval, by the upper bound of each bucket in seconds: `1.064e-3:5 1.160e-3:2`.
fn buckets(histogram: &Histogram) -> String {
    let pair = |(bucket, count): &(u16, u64)| format!("{:.3e}:{count}", Histogram::bound_s(*bucket));
    histogram.buckets().iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// A number with at most six digits after the point. Recorded values are not more exact.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".into(),
        short => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_more_digits_than_are_known() {
        let shown = [0.0, -0.000_000_1, 1.0, 100.0, 0.999_000_000_000_023_6, 1e-6, 12.5].map(number);
        assert_eq!(shown, ["0", "0", "1", "100", "0.999", "0.000001", "12.5"]);
    }

    #[test]
    fn the_end_of_an_interval_shorter_than_a_second_has_fractions() {
        let mut clock = WallClock::default();
        let mut time = |at_ms: u64, wall: i64, elapsed_ms: u64| {
            clock.time(Nanos::from_millis(at_ms), WallTime(wall), Some(Nanos::from_millis(elapsed_ms)))
        };
        assert_eq!(time(10_000, 1_700, 1_000), "1700");
        assert_eq!(time(10_250, 1_700, 250), "1700.250");
        // The first frame was in the middle of a second.
        assert_eq!(time(10_500, 1_701, 250), "1701.000");
        assert_eq!(time(11_400, 1_701, 250), "1701.900");
        // The clock was set back by a minute.
        assert_eq!(time(11_500, 1_640, 250), "1640.000");
        assert_eq!(time(11_600, 1_640, 250), "1640.100");
    }

    #[test]
    fn no_field_is_called_as_a_column_before_it_and_each_entity_is_a_table() {
        for entity in Entity::ALL {
            assert!(fields(entity).iter().all(|field| !HEADS.contains(&field.name)), "{entity:?}");
            assert!(TABLES.contains(&Frame::plural(entity)));
        }
    }
}
