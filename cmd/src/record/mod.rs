//! Records everything that `millpond top` shows, into files of bounded size.
//!
//! ```text
//! # millpond record --max-size 1G
//! $ millpond record --show
//! /var/lib/millpond/recordings: machine real
//! 2026-11-20 09:00:00 to 2026-11-27 09:00:00, 604800 frames in 28 files
//! 412.6M, 715 bytes a frame
//! $ millpond top --at 09:41
//! ```
//!
//! A frame is written every second, or at the interval; threads and processes, with their times by microstate, every five
//! seconds. The files form a ring: when they exceed the limits of size or age, the oldest are deleted. One program records
//! into a directory. Only its owner can read a directory that `record` creates. A directory that another user may have
//! written, or whose path leads through a directory or link of another user, is refused.
//!
//! A frame is written to the file when its interval ends. A killed program loses no frame, and a power failure some
//! seconds. Frames are compressed in blocks of up to ten minutes. A truncated copy loses its last block, which is reported;
//! so copy whole files, and the `.tail` next to the one being written.
//!
//! Recorded times are exact to a thousandth of the interval; all other values are exact.
//!
//! Without `--to`, root records in `/var/lib/millpond/recordings`, other users in `~/.local/state/millpond/recordings`.
//!
//! # JSON
//!
//! The schema is docs/reference/json/record.json.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::interval::{Repetition, Rounds, show_progress, wait_ends};
use crate::json::{self, Describe};
use crate::recordings;
use crate::start::start_loads;
use crate::values::{self, Bare};
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind, units};
use millpond_collect::{Options, RecordError, Recorder, THREADS_EVERY};
use millpond_model::Nanos;
use millpond_session::{DaemonError, stop_on_signal};
use millpond_store::{Limits, Span, Written};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Document>()];

/// The result of a recording, or the description of one.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Document {
    /// At the end of a recording.
    Recorded {
        /// The recording's directory.
        directory: PathBuf,
        /// Written frames.
        frames: u64,
        /// Bytes of these frames.
        bytes: u64,
        /// Files that were deleted because of the limits.
        dropped_files: u64,
    },
    /// With `--show`.
    Shown {
        /// The recording's path.
        path: PathBuf,
        /// The machine of its last file.
        machine: String,
        /// The time of the first frame: seconds since 1970.
        first: i64,
        /// The time of the last frame: seconds since 1970.
        last: i64,
        /// The number of frames.
        frames: u64,
        /// The number of files.
        files: usize,
        /// Bytes of these files.
        bytes: u64,
        /// Sentences about incomplete parts.
        notes: Vec<String>,
    },
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "record",
        summary: "record what top shows into files of bounded size",
        group: Group::Past,
        forms: &[
            "[--to directory] [--max-size size] [--max-age time] [--threads time] [--events] [--noise] [--load workload] [--for time] [interval]",
            "--show [recording]",
        ],
        flags: &[
            Flag::long("to", "record into this directory").value("directory", ValueKind::Directory),
            Flag::long("max-size", "keep at most this many bytes (1G)").value("size", ValueKind::Text),
            Flag::long("max-age", "keep nothing that is older (7d)").value("time", ValueKind::Time),
            Flag::long("threads", "read threads and processes so often (5s)").value("time", ValueKind::Time),
            Flag::long("events", "count every event of mpstat on each CPU"),
            Flag::long("noise", "tell OS noise on the CPUs of sets, by cause"),
            Flag::long("load", "start this workload on a simulated machine first; may be repeated")
                .value("workload", ValueKind::Text)
                .repeats(),
            Flag::long("for", "end after this time").value("time", ValueKind::Time),
            Flag::long("show", "say what a recording is about")
                .conflicts(&["to", "max-size", "max-age", "threads", "events", "noise", "load", "for"]),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval] [recording]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "", what: "record this machine until you press Ctrl-C" },
            Example { words: "--to here --for 10m 0.1", what: "record ten minutes, ten frames a second" },
            Example { words: "--show", what: "say what was recorded" },
        ],
        status: &[
            INTERRUPTED,
            ("1", "the machine cannot be watched, or the files cannot be written"),
            MISUSED,
        ],
        see_also: &["millpond-top(1)", "millpond-export(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The default interval.
const INTERVAL: Nanos = Nanos::from_secs(1);
/// The smallest limit that a ring of files can keep.
const BYTES_LEAST: u64 = 1 << 20;

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.long("show") {
        return show(parsed, ctx);
    }
    let dir = parsed.long_value("to").map_or_else(millpond_session::recordings_dir, PathBuf::from);
    let limits = limits(parsed)?;
    let repetition = repetition(parsed)?;
    let threads_every = values::time_of(parsed, "threads", Bare::Seconds)?.unwrap_or(THREADS_EVERY);
    let session = ctx.reading(&parsed.common)?;
    if parsed.common.dry_run {
        ctx.warn(format_args!("{} would be written into; nothing is recorded", dir.display()));
        return Ok(Exit::DONE);
    }
    start_loads(&parsed.long_values("load"), &session)?;
    let (events, noise) = (parsed.long("events"), parsed.long("noise"));
    let options = Options { threads_every, events, noise, ..Options::default() };
    let (mut recorder, notes) =
        Recorder::open(&session, options, &dir, limits).map_err(|error| not_recorded(error, &dir))?;
    notes.iter().for_each(|note| ctx.warn(note));
    if !parsed.common.json {
        let (size, days) = (recordings::bytes(limits.bytes), limits.age.as_secs_f64() / 86_400.0);
        ctx.out.line(format_args!("recording into {}: at most {size} and {days} days", dir.display()));
        ctx.out.flush();
    }
    if let Some(refusal) = recorder.frame().map_err(|error| not_recorded(error, &dir))? {
        return Err(Complaint::refused("read the machine", |_| None, &refusal).into());
    }
    let mut rounds = Rounds::begin(repetition, session.machine().clock(), stop_on_signal());
    let mut left = repetition.count;
    while rounds.wait(ctx) {
        if let Some(refusal) = recorder.frame().map_err(|error| not_recorded(error, &dir))? {
            ctx.warn(format_args!("frames are missing: {}", refusal.reason));
        }
        left = left.map(|left| left - 1);
        if ctx.shows_progress {
            progress(
                recorder.written(),
                left.map(|left| Nanos(repetition.interval.0.saturating_mul(left))),
                ctx,
            );
        }
    }
    wait_ends(ctx);
    let written = recorder.finish().map_err(recordings::failed)?;
    told(parsed, &dir, written, ctx);
    Ok(Exit::DONE)
}

fn not_recorded(error: RecordError, dir: &Path) -> Failure {
    let cannot = |why: String, hint: &str| {
        Failure::from(Complaint::new(format!("record into {}", dir.display()), why).hint(hint))
    };
    match error {
        RecordError::Folder(DaemonError::Running(pid)) => {
            let holder = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
            let hint = "choose another directory with --to, or stop that program";
            cannot(format!("another program records there{holder}"), hint)
        }
        RecordError::Folder(DaemonError::Place { why, .. }) => cannot(
            why,
            "choose another directory with --to: other users must not be able to write on the way to it",
        ),
        RecordError::Store(error) => recordings::failed(error),
    }
}

/// Shows the progress of a recording.
fn progress(written: Written, left: Option<Nanos>, ctx: &mut Ctx<'_>) {
    let left = left.map_or_else(String::new, |left| format!(", {} s left", left.0.div_ceil(1_000_000_000)));
    show_progress(&format!("{} frames{left}; Ctrl-C ends it and keeps them", written.frames), ctx);
}

fn told(parsed: &Parsed, dir: &Path, written: Written, ctx: &mut Ctx<'_>) {
    if parsed.common.json {
        ctx.json(&Document::Recorded {
            directory: dir.to_owned(),
            frames: written.frames,
            bytes: written.bytes,
            dropped_files: written.dropped,
        });
        return;
    }
    let each = written.bytes / written.frames.max(1);
    let size = recordings::bytes(written.bytes);
    ctx.out.line(format_args!(
        "{} frames, {size}: {each} bytes a frame, in {}",
        written.frames,
        dir.display()
    ));
    if written.dropped > 0 {
        ctx.out.line(format_args!("{} older files were taken away because of the limits", written.dropped));
    }
}

fn limits(parsed: &Parsed) -> Result<Limits, Failure> {
    let bytes = match parsed.long_value("max-size") {
        None => Limits::default().bytes,
        Some(text) => units::bytes(&text).filter(|bytes| *bytes >= BYTES_LEAST).ok_or_else(|| {
            Failure::Operand(format!(
                "cannot use --max-size {text}: it is no number of bytes from 1M on (512M, 2G)"
            ))
        })?,
    };
    let age = values::time_of(parsed, "max-age", Bare::Seconds)?.unwrap_or(Limits::default().age);
    Ok(Limits { bytes, age })
}

fn repetition(parsed: &Parsed) -> Result<Repetition, Failure> {
    let words = parsed.words();
    if words.len() > 1 {
        return Err(Failure::Usage("one interval is taken; --for says how long".into()));
    }
    let interval = Repetition::parse(&words)?.map_or(INTERVAL, |given| given.interval);
    let length = values::time_of(parsed, "for", Bare::Seconds)?;
    Ok(Repetition { interval, count: length.map(|length| length.0.div_ceil(interval.0).max(1)) })
}

fn show(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let path = recordings::named(&parsed.words())?;
    let recording = recordings::open(&path)?;
    let Some(span) = recording.span() else {
        return Err(Complaint::new(format!("read {}", path.display()), "no frame is in it").into());
    };
    if parsed.common.json {
        let Span { machine, first, last, frames, files, bytes } = span;
        let notes = [recording.notes.clone(), recording.damage()].concat();
        ctx.json(&Document::Shown {
            path,
            machine,
            first: first.0,
            last: last.0,
            frames,
            files,
            bytes,
            notes,
        });
        return Ok(Exit::DONE);
    }
    let zone = ctx.zone();
    let [first, last] = [span.first, span.last].map(|wall| recordings::time_of_day(wall, &zone));
    ctx.out.line(format_args!("{}: machine {}", path.display(), millpond_model::printable(&span.machine)));
    let files = if span.files == 1 { "1 file".to_owned() } else { format!("{} files", span.files) };
    ctx.out.line(format_args!("{first} to {last}, {} frames in {files}", span.frames));
    ctx.out.line(format_args!(
        "{}, {} bytes a frame",
        recordings::bytes(span.bytes),
        span.bytes / span.frames.max(1)
    ));
    recording.notes.iter().chain(&recording.damage()).for_each(|note| ctx.warn(note));
    Ok(Exit::DONE)
}
