//! The options of `quiet`, and their rules.

use super::figures::parse_limit;
use crate::failure::Failure;
use crate::operands;
use crate::values::{Bare, time_of};
use millpond_cli::Parsed;
use millpond_formats::CpuOperand;
use millpond_model::{Nanos, Pid, PsetId};
use millpond_observe::Limit;
use std::ffi::OsString;
use std::path::Path;

/// The default length of a measurement.
const USUAL: Nanos = Nanos::from_secs(10);

/// A limit: its text and value.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The text on the command line.
    pub text: String,
    /// The value.
    pub value: Limit,
}

/// The parsed options.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The set.
    pub set: Option<PsetId>,
    /// CPUs instead of those of a set.
    pub cpus: Option<Vec<CpuOperand>>,
    /// Processes instead of the members of a set.
    pub pids: Vec<Pid>,
    /// Length of the measurement; `None`: until the command ends.
    pub time: Option<Nanos>,
    /// The limit.
    pub limit: Option<Bound>,
    /// Noise by the job itself counts, too.
    pub strict: bool,
    /// Load no BPF programs.
    pub by_counts: bool,
    /// The file for a report.
    pub report: Option<String>,
    /// The command to start in the set.
    pub command: Vec<OsString>,
}

/// Whether a report is a picture, by its file name extension; else it is a page.
pub fn is_picture(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"))
}

fn is_page(file: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"))
}

/// The options of each measurement.
struct Asked {
    time: Option<Nanos>,
    limit: Option<Bound>,
    report: Option<String>,
}

impl Asked {
    fn of(parsed: &Parsed) -> Result<Asked, Failure> {
        let time = time_of(parsed, "for", Bare::Seconds)?;
        let limit = parsed.long_value("max").map(|text| bound(&text)).transpose()?;
        let report = parsed.long_value("report");
        if let Some(file) = report.as_deref().filter(|file| !is_picture(file) && !is_page(file)) {
            return Err(Failure::Operand(format!("`{file}` is neither a picture (.svg) nor a page (.html)")));
        }
        Ok(Asked { time, limit, report })
    }
}

impl Options {
    /// Checks the command line.
    ///
    /// # Errors
    /// [`Failure`] with the violated rule.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let cpus = parsed.long_value("cpu").map(|list| operands::cpus(&[list])).transpose()?;
        let pids = parsed.long_value("pid").map(|list| processes(&list)).transpose()?.unwrap_or_default();
        let words = parsed.words();
        let set = match (words.first(), cpus.is_some() || !pids.is_empty()) {
            (None, true) => None,
            (None, false) => return Err(Failure::Usage("which processor set?".to_owned())),
            (Some(_), _) if cpus.is_some() => {
                return Err(Failure::Usage("a set and --cpu are mutually exclusive".to_owned()));
            }
            (Some(word), _) => Some(operands::set(word)?),
        };
        let command: Vec<OsString> = parsed.operands.iter().skip(1).cloned().collect();
        let Asked { time, limit, report } = Asked::of(parsed)?;
        if parsed.long("strict") && limit.is_none() {
            return Err(Failure::Usage("--strict is about the limit of --max".to_owned()));
        }
        Ok(Options {
            set,
            cpus,
            pids,
            time: time.or_else(|| command.is_empty().then_some(USUAL)),
            limit,
            strict: parsed.long("strict"),
            by_counts: parsed.long("by-counts"),
            report,
            command,
        })
    }

    /// The options to measure a set against a limit, from `--for`, `--max` and `--report`.
    ///
    /// # Errors
    /// [`Failure`] with the violated rule.
    pub fn of_set(set: PsetId, usual_limit: &str, parsed: &Parsed) -> Result<Options, Failure> {
        let Asked { time, limit, report } = Asked::of(parsed)?;
        let limit = Some(limit.map_or_else(|| bound(usual_limit), Ok)?);
        Ok(Options {
            set: Some(set),
            cpus: None,
            pids: Vec::new(),
            time: time.or(Some(USUAL)),
            limit,
            strict: false,
            by_counts: false,
            report,
            command: Vec::new(),
        })
    }

    /// The minimum length of reported stretches: 10 us, which is long for a timer tick, or the limit if that is shorter.
    pub fn worth_telling(&self) -> Nanos {
        const LONG: Nanos = Nanos(10_000);
        match self.limit {
            Some(Bound { value: Limit::Time(most), .. }) => most.min(LONG),
            _ => LONG,
        }
    }
}

fn processes(list: &str) -> Result<Vec<Pid>, Failure> {
    let pid = |word: &str| {
        let pid = word.trim().parse().ok().filter(|pid| *pid != Pid(0));
        pid.ok_or_else(|| {
            Failure::Operand(format!("cannot read `{list}` as processes: `{word}` is no number"))
        })
    };
    list.split(',').map(pid).collect()
}

fn bound(text: &str) -> Result<Bound, Failure> {
    let value = parse_limit(text).ok_or_else(|| {
        Failure::Operand(format!(
            "`{text}` is not a limit (a time with its unit: 50us, 1ms; or how often: 10/s)"
        ))
    })?;
    Ok(Bound { text: text.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn everything_has_its_place() {
        let o = options("1 --for 2m --max 50us --strict --report a.svg -- cyclictest -p 90").unwrap();
        assert_eq!((o.set, o.time, o.strict), (Some(PsetId(1)), Some(Nanos::from_secs(120)), true));
        assert_eq!(o.limit, Some(Bound { text: "50us".into(), value: Limit::Time(Nanos(50_000)) }));
        assert_eq!(o.command, ["cyclictest", "-p", "90"]);
        assert_eq!(options("--cpu 0-3 --pid 7,8").unwrap().pids, [Pid(7), Pid(8)]);
    }

    #[test]
    fn a_command_takes_its_time_and_others_ten_seconds() {
        assert_eq!(options("1").unwrap().time, Some(Nanos::from_secs(10)));
        assert_eq!(options("1 -- make").unwrap().time, None);
    }

    #[test]
    fn what_may_be_short_is_told() {
        assert_eq!(options("1").unwrap().worth_telling(), Nanos(10_000));
        assert_eq!(options("1 --max 2us").unwrap().worth_telling(), Nanos(2_000));
        assert_eq!(options("1 --max 1ms").unwrap().worth_telling(), Nanos(10_000));
    }

    #[test]
    fn broken_rules_are_usage_errors() {
        let broken = [
            "",
            "x",
            "-1",
            "1 --cpu 2",
            "--cpu 0-",
            "--pid x",
            "--pid 0",
            "1 --for 0",
            "1 --for soon",
            "1 --max 50",
            "1 --max x",
            "1 --max -1/s",
            "1 --strict",
            "1 --report a.pdf",
            "-Z",
        ];
        for text in broken {
            assert!(matches!(options(text), Err(Failure::Usage(_) | Failure::Operand(_))), "{text}");
        }
    }
}
