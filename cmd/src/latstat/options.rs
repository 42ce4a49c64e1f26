//! The rules of the options of `latstat`.

use crate::failure::Failure;
use crate::values::{Bare, time, time_of};
use millpond_cli::Parsed;
use millpond_machine::facets::Stamps;
use millpond_model::{CpuId, Nanos, RT_LEVELS};
use millpond_observe::latency::{Source, primes_near};
use std::path::PathBuf;

/// Options that apply only to measurements.
pub(super) const MEASURES: &[&str] = &[
    "samples",
    "duration",
    "cpu",
    "keep-others",
    "level",
    "interval",
    "plain",
    "timerlat",
    "resume",
    "compare",
    "load",
];

/// The program for the comparison.
pub(super) const PEER: &str = "cyclictest";

/// The shortest and the longest interval.
const INTERVAL: (Nanos, Nanos) = (Nanos(50_000), Nanos::from_secs(10));
/// The same for the timerlat tracer.
const PERIOD: (Nanos, Nanos) = (Nanos(100_000), Nanos::from_secs(1));

/// The parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The number of samples. Without it and without a duration, the measurement has no end.
    pub samples: Option<u64>,
    /// The duration.
    pub duration: Option<Nanos>,
    /// The CPU to measure.
    pub cpu: Option<CpuId>,
    /// Leaves other threads on the CPU.
    pub keep_others: bool,
    /// The priority in the real-time class.
    pub level: u8,
    /// The intervals between timers. The timerlat tracer supports only one.
    pub intervals: Vec<Nanos>,
    /// The source of the stages.
    pub stamps: Stamps,
    /// Limits; samples above each are counted.
    pub above: Vec<Nanos>,
    /// The limit that sets the exit status.
    pub max: Option<Nanos>,
    /// The file to save the run in.
    pub save: Option<PathBuf>,
    /// The file of the run to continue.
    pub resume: Option<PathBuf>,
    /// Files of runs to show together.
    pub merge: Vec<PathBuf>,
    /// The directory for pictures.
    pub plot: Option<PathBuf>,
    /// Compares with `cyclictest`, interleaved.
    pub compare: bool,
    /// Loads on the other CPUs, without duplicates.
    pub loads: Vec<LoadKind>,
    /// Prints JSON.
    pub json: bool,
}

/// A load for the other CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// Groups of processes that pass messages.
    Hackbench,
    /// Compilers: short-lived processes, and files.
    Build,
    /// mpstat: reads all CPUs every second.
    Mpstat,
}

impl LoadKind {
    const ALL: [LoadKind; 3] = [LoadKind::Hackbench, LoadKind::Build, LoadKind::Mpstat];

    /// The name of the load.
    pub fn name(self) -> &'static str {
        match self {
            LoadKind::Hackbench => "hackbench",
            LoadKind::Build => "build",
            LoadKind::Mpstat => "mpstat",
        }
    }

    /// Parses a list separated by commas.
    fn parse_list(text: &str) -> Result<Vec<LoadKind>, Failure> {
        let mut kinds = Vec::new();
        for word in text.split(',') {
            let kind = Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
                Failure::Operand(format!("there is no load `{word}`: known are hackbench, build and mpstat"))
            })?;
            if kinds.contains(&kind) {
                return Err(Failure::Operand(format!("load {word} is named twice")));
            }
            kinds.push(kind);
        }
        Ok(kinds)
    }
}

impl Options {
    /// Parses the options.
    ///
    /// # Errors
    /// [`Failure`] with the violated rule.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let merges = parsed.long("merge");
        let words = parsed.words();
        if let Some(word) = words.first().filter(|_| !merges) {
            return Err(Failure::Usage(format!("latstat takes no operand, and was given `{word}`")));
        }
        if merges && words.is_empty() {
            return Err(Failure::Usage("--merge needs the files of saved runs".into()));
        }
        let compare = parsed.long_value("compare");
        if let Some(other) = compare.as_deref().filter(|name| *name != PEER) {
            return Err(Failure::Operand(format!("cannot compare with {other}: known is {PEER}")));
        }
        if compare.is_some() && parsed.long("samples") {
            let why =
                "options --compare and --samples are mutually exclusive: turns have a length (--duration)";
            return Err(Failure::Usage(why.into()));
        }
        let loads = parsed.long_value("load").map(|list| LoadKind::parse_list(&list)).transpose()?;
        let path = |name: &str| parsed.long_value(name).map(PathBuf::from);
        let stamps = stamps_of(parsed);
        let intervals = intervals_of(parsed, stamps)?;
        let above = parsed.long_value("above");
        let above = above.iter().flat_map(|list| list.split(','));
        Ok(Options {
            samples: count_of(parsed, "samples", 1, u64::MAX)?,
            duration: time_of(parsed, "duration", Bare::Seconds)?,
            cpu: count_of(parsed, "cpu", 0, u64::from(u32::MAX))?
                .and_then(|n| u32::try_from(n).ok())
                .map(CpuId),
            keep_others: parsed.long("keep-others"),
            level: count_of(parsed, "level", 0, RT_LEVELS as u64 - 1)?
                .and_then(|n| u8::try_from(n).ok())
                .unwrap_or(30),
            intervals,
            stamps,
            above: above.map(|text| time("above", text, Bare::Microseconds)).collect::<Result<_, _>>()?,
            max: time_of(parsed, "max", Bare::Microseconds)?,
            save: path("save").or_else(|| path("resume")),
            resume: path("resume"),
            merge: if merges { words.into_iter().map(PathBuf::from).collect() } else { Vec::new() },
            plot: path("plot"),
            compare: compare.is_some(),
            loads: loads.unwrap_or_default(),
            json: parsed.common.json,
        })
    }

    /// Whether the command only shows saved runs, and measures nothing.
    pub fn merges(&self) -> bool {
        !self.merge.is_empty()
    }

    /// The program whose timers are measured.
    pub fn source(&self) -> Source {
        if self.stamps == Stamps::Timerlat { Source::Timerlat } else { Source::Latstat }
    }

    /// The interval of the timerlat tracer, if it is used.
    pub fn timerlat(&self) -> Option<Nanos> {
        self.intervals.first().copied().filter(|_| self.stamps == Stamps::Timerlat)
    }
}

fn stamps_of(parsed: &Parsed) -> Stamps {
    match (parsed.long("plain"), parsed.long("timerlat")) {
        (false, false) => Stamps::Programs,
        (true, _) => Stamps::None,
        (false, true) => Stamps::Timerlat,
    }
}

/// Parses intervals, rounded to whole microseconds.
fn intervals_of(parsed: &Parsed, stamps: Stamps) -> Result<Vec<Nanos>, Failure> {
    let interval = time_of(parsed, "interval", Bare::Microseconds)?.unwrap_or(Nanos(1_000_000));
    let is_within = |(least, most): (Nanos, Nanos)| (least..=most).contains(&interval);
    let us = interval.0 / 1_000;
    match stamps {
        Stamps::Timerlat if is_within(PERIOD) => Ok(vec![Nanos(us * 1_000)]),
        Stamps::Timerlat => Err(Failure::Operand("an interval of timerlat is from 100us to 1s".into())),
        _ if is_within(INTERVAL) => {
            Ok(primes_near(us).into_iter().map(|us| Nanos(us.saturating_mul(1_000))).collect())
        }
        _ => Err(Failure::Operand("an interval is from 50us to 10s".into())),
    }
}

fn count_of(parsed: &Parsed, name: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
    let Some(text) = parsed.long_value(name) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.map(Some).ok_or_else(|| {
        let range = if most >= u64::from(u32::MAX) {
            format!("from {least} on")
        } else {
            format!("from {least} to {most}")
        };
        Failure::Operand(format!("cannot use --{name} {text}: it is no number {range}"))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn options(text: &str) -> Result<Options, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn everything_has_its_place() {
        let all = "--samples 5 --duration 2m --cpu 3 --keep-others --level 5 --interval 500us --plain --above 13us,1ms --max 50 \
                   --save f --plot d --json";
        let options = options(all).unwrap();
        assert_eq!((options.samples, options.duration), (Some(5), Some(Nanos::from_secs(120))));
        assert_eq!((options.cpu, options.level), (Some(CpuId(3)), 5));
        assert!(options.keep_others && options.json && !options.merges());
        assert_eq!((options.stamps, options.source()), (Stamps::None, Source::Latstat));
        assert_eq!(options.above, [Nanos(13_000), Nanos(1_000_000)]);
        assert_eq!(options.max, Some(Nanos(50_000)));
        assert_eq!(options.intervals.len(), 24);
        assert!(options.intervals.iter().all(|ns| ns.0.abs_diff(500_000) < 100_000));
        assert_eq!((options.save, options.plot), (Some("f".into()), Some("d".into())));
        assert_eq!((options.compare, options.loads), (false, vec![]));
    }

    #[test]
    fn what_stands_beside_it_is_named() {
        let options = options("--compare cyclictest --load mpstat,hackbench --duration 9").unwrap();
        assert_eq!((options.compare, options.loads), (true, vec![LoadKind::Mpstat, LoadKind::Hackbench]));
    }

    #[test]
    fn timerlat_has_one_interval() {
        let traced = options("--timerlat --interval 500us").unwrap();
        assert_eq!((traced.source(), traced.intervals.as_slice()), (Source::Timerlat, &[Nanos(500_000)][..]));
        assert_eq!(traced.timerlat(), Some(Nanos(500_000)));
        assert_eq!(options("--timerlat").unwrap().timerlat(), Some(Nanos(1_000_000)));
        assert_eq!(options("").unwrap().timerlat(), None);
    }

    #[test]
    fn without_options_it_goes_on_near_a_thousand_microseconds() {
        let options = options("").unwrap();
        assert_eq!((options.samples, options.duration, options.level), (None, None, 30));
        assert_eq!(options.intervals[0], Nanos(919_000));
    }

    #[test]
    fn what_is_resumed_is_saved_there() {
        let options = options("--resume f").unwrap();
        assert_eq!((options.resume, options.save), (Some("f".into()), Some("f".into())));
    }

    #[test]
    fn broken_rules_are_told() {
        let times =
            |unit| format!("it is no time above 0 ({unit}, or a number with ns, us, ms, s, m, h or d)");
        let (seconds, micros) = (times("seconds"), times("microseconds"));
        for (text, says) in [
            ("now", "latstat takes no operand, and was given `now`".to_owned()),
            ("--merge", "--merge needs the files of saved runs".into()),
            ("--merge a --cpu 1", "options --merge and --cpu are mutually exclusive".into()),
            ("--save a --resume b", "options --save and --resume are mutually exclusive".into()),
            (
                "--compare cyclictest --samples 9",
                "options --compare and --samples are mutually exclusive: turns have a length (--duration)"
                    .into(),
            ),
            ("--compare rtla", "cannot compare with rtla: known is cyclictest".into()),
            ("--merge a --load build", "options --merge and --load are mutually exclusive".into()),
            ("--load build,", "there is no load ``: known are hackbench, build and mpstat".into()),
            ("--load build,build", "load build is named twice".into()),
            ("--samples 0", "cannot use --samples 0: it is no number from 1 on".into()),
            ("--level 60", "cannot use --level 60: it is no number from 0 to 59".into()),
            ("--interval 0", format!("cannot use --interval 0: {micros}")),
            ("--interval 20us", "an interval is from 50us to 10s".into()),
            ("--interval 1d", "an interval is from 50us to 10s".into()),
            ("--timerlat --interval 50us", "an interval of timerlat is from 100us to 1s".into()),
            ("--timerlat --interval 2s", "an interval of timerlat is from 100us to 1s".into()),
            ("--plain --timerlat", "options --plain and --timerlat are mutually exclusive".into()),
            ("--merge a --timerlat", "options --merge and --timerlat are mutually exclusive".into()),
            ("--max 5x", format!("cannot use --max 5x: {micros}")),
            ("--above 13us,", format!("cannot use --above : {micros}")),
            ("--duration 99999999999d", format!("cannot use --duration 99999999999d: {seconds}")),
        ] {
            match options(text) {
                Err(Failure::Usage(why) | Failure::Operand(why)) => assert_eq!(why, says, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
