//! Recordings: how commands open them, and the wording of errors.

use crate::ctx::{Ctx, Held};
use crate::failure::{Complaint, Failure};
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use millpond_cli::{Common, Flag, Parsed, ValueKind, units};
use millpond_collect::RecordedMachine;
use millpond_model::WallTime;
use millpond_observe::Frame;
use millpond_session::stop_on_signal;
use millpond_store::{Frames, Moment, Recording, Span, StoreError};
use std::path::{Path, PathBuf};

/// The options of commands that observe: a recording in place of the machine, and the start in it.
pub(crate) const FROM: Flag = Flag::long(
    "from",
    "watch a recording in place of the machine: a directory or file of millpond record; intervals pass at once",
)
.value("recording", ValueKind::File);
pub(crate) const AT: Flag =
    Flag::long("at", "with --from: begin at this moment: 09:41, 2026-11-27 09:41 or, before the end, -10m")
        .value("moment", ValueKind::Text);

/// Opens the machine for a command that only reads, or the recording of [`FROM`].
///
/// # Errors
/// [`Failure`] if the machine or recording does not exist or cannot be read.
pub(crate) fn reading<'a>(parsed: &Parsed, ctx: &mut Ctx<'a>) -> Result<Held<'a>, Failure> {
    let Some(path) = parsed.long_value("from") else {
        if parsed.long("at") {
            return Err(Failure::Usage("--at goes with --from".into()));
        }
        return ctx.reading(&parsed.common);
    };
    alone(&parsed.common, "--from")?;
    hold(Path::new(&path), parsed.long_value("at").as_deref(), ctx)
}

/// A command has one machine, so a recording excludes the options that name a machine.
///
/// # Errors
/// [`Failure::Usage`] for such an option.
pub(crate) fn alone(common: &Common, named_by: &str) -> Result<(), Failure> {
    if common.machine.is_some() || common.root.is_some() || common.state.is_some() {
        let why = format!("{named_by} names a machine: it goes without --machine, --root and --state");
        return Err(Failure::Usage(why));
    }
    Ok(())
}

/// Makes a recording the machine of this command, from the moment `at` on, or from its beginning.
///
/// # Errors
/// As for [`reading`].
pub(crate) fn hold<'a>(path: &Path, at: Option<&str>, ctx: &mut Ctx<'a>) -> Result<Held<'a>, Failure> {
    let recording = open(path)?;
    let cannot = |why: &str| Complaint::new(format!("read the recording {}", path.display()), why);
    let span = recording.span().ok_or_else(|| cannot("no frame is in it"))?;
    let from = at.map_or(Ok(span.first), |text| moment(text, &span, &ctx.zone()))?;
    let (machine, notes) =
        RecordedMachine::open(recording, from, stop_on_signal()).map_err(|absent| cannot(&absent.why))?;
    Ok(ctx.hold(machine, notes))
}

/// Refuses a recording without a readable frame from a moment on.
///
/// # Errors
/// The error in the recording.
pub(crate) fn readable(path: &Path, recording: &Recording, from: WallTime) -> Result<(), Failure> {
    let mut damaged = Vec::new();
    if recording.frames_from(from).readable(&mut damaged).is_some() {
        return Ok(());
    }
    let why = damaged.into_iter().next().unwrap_or_else(|| "no frame is there".to_owned());
    let what = format!("read the recording {}", path.display());
    Err(Complaint::new(what, format!("none of its frames can be read: {why}")).into())
}

/// Refuses an output file that belongs to the recording that is read.
///
/// # Errors
/// [`Failure`] for such a file.
pub(crate) fn not_within(output: &Path, recording: &Path) -> Result<(), Failure> {
    let real = |path: &Path| path.canonicalize().ok();
    let Some((output_is, recording_is)) = real(output).zip(real(recording)) else { return Ok(()) };
    match output_is.starts_with(&recording_is) {
        true => {
            let complaint =
                Complaint::new(format!("write {}", output.display()), "it is a part of the recording");
            Err(complaint.hint("name another file").into())
        }
        false => Ok(()),
    }
}

/// Whether a path names a recording: a directory, or a file of a recording.
pub(crate) fn is_one(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|ending| ending == millpond_store::ENDING)
}

/// Opens a recording.
///
/// # Errors
/// The error of the recording, with the remedy.
pub(crate) fn open(path: &Path) -> Result<Recording, Failure> {
    Recording::open(path).map_err(|error| match &error {
        StoreError::System { path, why, .. } if !path.exists() => {
            Complaint::new(format!("read the recording {}", path.display()), why)
                .hint("millpond record makes one")
                .into()
        }
        _ => failed(error),
    })
}

/// The recording that an operand names. By default, that of this user.
///
/// # Errors
/// [`Failure::Usage`] for more than one operand.
pub(crate) fn named(operands: &[String]) -> Result<PathBuf, Failure> {
    match operands {
        [] => Ok(millpond_session::recordings_dir()),
        [path] => Ok(PathBuf::from(path)),
        _ => Err(Failure::Usage("one recording is taken".into())),
    }
}

/// Frames in order, without unreadable ones.
pub(crate) struct Reel<'r> {
    frames: Frames<&'r Recording>,
    run: Option<usize>,
    /// Unreadable parts, a sentence each.
    pub damaged: Vec<String>,
}

/// A frame of a recording.
pub(crate) struct Shot {
    pub frame: Frame,
    /// The frame does not continue the one before: counters restart.
    pub begins: bool,
}

impl<'r> Reel<'r> {
    /// The frames from a moment on, with the frame before it.
    pub fn from(recording: &'r Recording, wall: WallTime) -> Reel<'r> {
        Reel { frames: recording.frames_from(wall), run: None, damaged: Vec::new() }
    }

    /// Continues at another moment.
    pub fn go_to(&mut self, recording: &'r Recording, wall: WallTime) {
        (self.frames, self.run) = (recording.frames_from(wall), None);
    }

    /// The next frame.
    pub fn next(&mut self) -> Option<Shot> {
        let Moment { frame, run } = self.frames.readable(&mut self.damaged)?;
        let begins = self.run.replace(run) != Some(run);
        Some(Shot { frame, begins })
    }

    /// Reports unreadable parts.
    pub fn warn(&mut self, ctx: &mut Ctx<'_>) {
        self.damaged.drain(..).for_each(|why| ctx.warn(why));
    }
}

/// The failure of reading or writing a recording.
pub(crate) fn failed(error: StoreError) -> Failure {
    Failure::from(match error {
        StoreError::System { path, doing, why } => Complaint::new(format!("{doing} {}", path.display()), why),
        StoreError::Strange { path, why } => Complaint::new(format!("read {}", path.display()), why),
        StoreError::Unbegun(path) => {
            let why = "its writer was stopped before the first frame";
            Complaint::new(format!("read {}", path.display()), why)
        }
        StoreError::Damaged { path, offset, why } => {
            Complaint::new(format!("read {}", path.display()), format!("block at byte {offset}: {why}"))
        }
    })
}

/// Bytes, with the largest unit that leaves a whole number before the point: `412.6M`.
pub(crate) fn bytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let mut number = bytes as f64;
    let mut unit = "B";
    for next in ["K", "M", "G", "T"] {
        if number < 1024.0 {
            break;
        }
        number /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} bytes") } else { format!("{number:.1}{unit}") }
}

/// Date and time: `2026-11-27 09:41:00`.
pub(crate) fn time_of_day(wall: WallTime, zone: &TimeZone) -> String {
    let moment = Timestamp::from_second(wall.0).unwrap_or_default();
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The moment of `--at`: a time of day (the latest one in the recording), a date and a time, or a time before the end
/// of the recording (`-10m`).
///
/// # Errors
/// [`Failure::Operand`] for any other text, or a moment that was not recorded.
pub(crate) fn moment(text: &str, span: &Span, zone: &TimeZone) -> Result<WallTime, Failure> {
    let refused = |why: String| Failure::Operand(format!("cannot go to {text}: {why}"));
    let unreadable =
        || refused("a moment is 09:41, 09:41:30, 2026-11-27 09:41 or, before the end, -10m".into());
    let wall = if let Some(back) = text.strip_prefix('-') {
        let back = units::seconds(back).ok_or_else(unreadable)?;
        WallTime(span.last.0.saturating_sub_unsigned(back.0 / 1_000_000_000)).max(span.first)
    } else if let Ok(date) = text.parse::<DateTime>() {
        // This comes first: of a date with a time, the time-of-day parser would accept the time alone.
        let moment = date.to_zoned(zone.clone()).map_err(|_| unreadable())?;
        WallTime(moment.timestamp().as_second())
    } else {
        let time: Time = text.parse().map_err(|_| unreadable())?;
        latest(time, span.last, zone).ok_or_else(unreadable)?
    };
    if wall < span.first || wall > span.last {
        let [first, last] = [span.first, span.last].map(|wall| time_of_day(wall, zone));
        return Err(refused(format!("the recording is from {first} to {last}")));
    }
    Ok(wall)
}

/// The latest moment with this time of day that is not after `last`.
fn latest(time: Time, last: WallTime, zone: &TimeZone) -> Option<WallTime> {
    let last = Timestamp::from_second(last.0).ok()?.to_zoned(zone.clone());
    let on = |days: i64| {
        let date = last.datetime().checked_sub(SignedDuration::from_hours(24 * days)).ok()?.date();
        date.to_datetime(time).to_zoned(zone.clone()).ok()
    };
    let moment = on(0).filter(|moment| *moment <= last).or_else(|| on(1))?;
    Some(WallTime(moment.timestamp().as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::{OpenOptions, Output, Session};
    use std::ffi::OsString;

    fn span(first: i64, last: i64) -> Span {
        Span {
            machine: "real".into(),
            first: WallTime(first),
            last: WallTime(last),
            frames: 1,
            files: 1,
            bytes: 1,
        }
    }

    /// 2026-11-27 00:00:00 UTC.
    const DAY: i64 = 1_795_737_600;

    #[test]
    fn a_moment_is_a_time_of_day_a_date_or_a_time_before_the_end() {
        let zone = TimeZone::UTC;
        let span = span(DAY - 86_400, DAY + 36_000);
        let at = |text: &str| moment(text, &span, &zone).map(|wall| wall.0 - DAY);
        assert_eq!(at("09:41").ok(), Some(9 * 3600 + 41 * 60));
        assert_eq!(at("09:41:30").ok(), Some(9 * 3600 + 41 * 60 + 30));
        assert_eq!(at("11:00").ok(), Some(11 * 3600 - 86_400), "that of the day before");
        assert_eq!(at("2026-11-27 01:00").ok(), Some(3600));
        assert_eq!(at("-10m").ok(), Some(36_000 - 600));
        assert_eq!(at("-9d").ok(), Some(-86_400), "no further than its beginning");
        let refused = |text: &str| match moment(text, &span, &zone) {
            Err(Failure::Operand(why)) => why,
            _ => panic!("{text} was taken"),
        };
        assert_eq!(
            refused("2026-11-28 01:00"),
            "cannot go to 2026-11-28 01:00: the recording is from 2026-11-26 00:00:00 to 2026-11-27 10:00:00"
        );
        for text in ["", "noon", "25:00", "-", "-5x"] {
            assert!(
                refused(text)
                    .ends_with("a moment is 09:41, 09:41:30, 2026-11-27 09:41 or, before the end, -10m")
            );
        }
    }

    #[test]
    fn a_recording_is_shown_in_the_zone_of_the_session() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().to_str().unwrap();
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        let zone = TimeZone::fixed(jiff::tz::offset(3));
        let session = Session::open(&options).unwrap().in_zone(zone);
        let said = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            let mut out = Vec::new();
            let mut ctx = Ctx::new(Output::to(&mut out), Output::to(std::io::sink())).with_session(&session);
            crate::run(&words, &mut ctx);
            drop(ctx);
            String::from_utf8(out).unwrap()
        };
        said(&["millpond", "record", "--to", dir, "--for", "2s"]);
        let shown = said(&["millpond", "record", "--show", dir]);
        // The machine boots at 08:14:02 UTC.
        assert_eq!(
            shown.lines().nth(1),
            Some("2024-11-20 11:14:02 to 2024-11-20 11:14:04, 3 frames in 1 file")
        );
        let at = said(&["mpstat", "--from", dir, "--at", "11:14:03", "-T", "d"]);
        assert!(at.contains(" 11:14:03 "), "{at}");
    }

    #[test]
    fn bytes_are_told_with_a_unit() {
        let told = [0, 1023, 1024, 1_500_000, 1 << 30].map(bytes);
        assert_eq!(told, ["0 bytes", "1023 bytes", "1.0K", "1.4M", "1.0G"]);
    }
}
