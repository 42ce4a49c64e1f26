//! The command line of schedd.

use millpond_cli::{Answer, Example, Flag, Group, Parsed, Spec, ValueKind, units};
use millpond_machine::facets::SchedulerOptions;
use millpond_model::Nanos;
use millpond_session::OpenOptions;
use std::ffi::OsString;
use std::path::PathBuf;

/// The options, for parsing and help.
pub const SPEC: Spec = Spec {
    name: "schedd",
    applet: true,
    summary: "run TS, IA and FX by dispatch tables, as a scheduler under sched_ext",
    section: 8,
    group: Group::Classes,
    forms: &[
        "[--whole] [--rescue time|never] [--parity time] [--no-parent-pays] [--timeout time] [--audit] [--once] [--state-dir dir]",
        "--help | --version",
    ],
    flags: &[
        Flag::long("whole", "schedule all threads but those in RT, not only those that are put into a class"),
        Flag::long(
            "rescue",
            "a wait after which a thread runs for a clock tick whatever its level (5s; milliseconds without a unit)",
        )
        .value("time", ValueKind::Time),
        Flag::long(
            "parity",
            "a program's wake-up preempts no thread that began to run within this time (300us; 0 is Solaris' rule)",
        )
        .value("time", ValueKind::Time),
        Flag::long("no-parent-pays", "a process that forks keeps its level and its CPU, unlike on Solaris"),
        Flag::long(
            "timeout",
            "the kernel ends the scheduler when a thread waits for longer (30s; at most that)",
        )
        .value("time", ValueKind::Time),
        Flag::long("audit", "count each thread that begins to run while a better one waits for its CPU"),
        Flag::long("once", "end with status 1 when the kernel ends the scheduler, instead of loading it again"),
        Flag::long("state-dir", "the directory of its lock file, in place of MILLPOND_STATE")
            .value("dir", ValueKind::Directory),
        Flag::both('h', "help", "print this help"),
        Flag::long("version", "print the version"),
    ],
    common: &[],
    permutes: true,
    examples: &[
        Example { words: "", what: "schedule the threads that priocntl puts into a class" },
        Example { words: "--whole", what: "schedule the whole machine" },
    ],
    files: &[
        ("schedd.lock", "in the state directory: locked by the running instance"),
        (
            "millpond in the BPF file system",
            "what commands read and change while it runs, and what the next instance starts with",
        ),
    ],
    status: &[
        ("0", "stopped by a signal"),
        ("1", "it cannot start, or the kernel ended the scheduler"),
        ("2", "the command line is wrong"),
    ],
    see_also: &["dispadmin(8)", "priocntl(8)", "millpond-doctor(8)"],
    prose: millpond_cli::head!(include_str!("lib.rs")),
    ..Spec::NEW
};

/// The parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Options of the scheduler.
    pub scheduler: SchedulerOptions,
    /// Do not load the scheduler again after its end.
    pub once: bool,
    /// The machine.
    pub open: OpenOptions,
}

/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;
/// The default of `--rescue`.
const RESCUE: Nanos = Nanos::from_secs(5);
/// The default of `--parity`.
const PARITY: Nanos = Nanos(300_000);
/// The kernel's limit of `--timeout`.
const TIMEOUT: Nanos = Nanos::from_secs(30);

/// Parses the words after the name.
///
/// # Errors
/// The output in place of running: the help, the version, or a sentence about the first invalid word.
pub fn parse(words: &[OsString]) -> Result<Options, Answer> {
    millpond_cli::service(&SPEC, env!("CARGO_PKG_VERSION"), words, options)
}

fn options(parsed: &Parsed) -> Result<Options, String> {
    if let Some(word) = parsed.words().first() {
        return Err(format!("it takes no operand, and got `{word}`"));
    }
    let time_from = |name: &str, text: &str, least: u64| {
        units::time(text, MILLI).filter(|time| time.0 >= least).ok_or_else(|| {
            format!("--{name} takes milliseconds or a time with a unit ({}), not `{text}`", units::NAMES)
        })
    };
    let time = |name: &str, text: &str| time_from(name, text, MILLI);
    let rescue = match parsed.long_value("rescue").as_deref() {
        None => Some(RESCUE),
        Some("never") => None,
        Some(text) => Some(time("rescue", text)?),
    };
    let parity = parsed.long_value("parity").map_or(Ok(PARITY), |text| time_from("parity", &text, 0))?;
    let timeout = parsed.long_value("timeout").map_or(Ok(TIMEOUT), |text| time("timeout", &text))?;
    if timeout > TIMEOUT {
        return Err("--timeout is at most 30s: the kernel takes no more".to_owned());
    }
    if rescue.is_some_and(|rescue| rescue.0 > timeout.0 / 2) {
        return Err("--rescue is at most half of --timeout: the kernel would end the scheduler".to_owned());
    }
    Ok(Options {
        scheduler: SchedulerOptions {
            whole: parsed.long("whole"),
            rescue,
            parent_pays: !parsed.long("no-parent-pays"),
            parity,
            timeout,
            audit: parsed.long("audit"),
        },
        once: parsed.long("once"),
        open: OpenOptions {
            state: parsed.long_value("state-dir").map(PathBuf::from),
            ..OpenOptions::default()
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(line: &str) -> Result<Options, Answer> {
        parse(&line.split_ascii_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let run = |line: &str| asked(line).unwrap();
        let plain = run("");
        assert!(!plain.scheduler.whole && plain.scheduler.parent_pays && !plain.once);
        assert_eq!((plain.scheduler.rescue, plain.scheduler.timeout), (Some(RESCUE), TIMEOUT));
        let all = run("--whole --rescue never --no-parent-pays --timeout 4s --audit --once");
        assert!(all.scheduler.whole && !all.scheduler.parent_pays && all.scheduler.audit && all.once);
        assert_eq!((all.scheduler.rescue, all.scheduler.timeout), (None, Nanos::from_secs(4)));
        assert_eq!(plain.scheduler.parity, Nanos(300_000));
        assert_eq!(run("--parity 0").scheduler.parity, Nanos(0));
        assert_eq!(run("--parity 50us").scheduler.parity, Nanos(50_000));
        assert_eq!(run("--rescue 500").scheduler.rescue, Some(Nanos::from_millis(500)));
        assert_eq!(asked("--version").unwrap_err().status, 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("web", "it takes no operand, and got `web`"),
            (
                "--rescue soon",
                "--rescue takes milliseconds or a time with a unit (ns, us, ms, s, m, h or d), not `soon`",
            ),
            (
                "--parity no",
                "--parity takes milliseconds or a time with a unit (ns, us, ms, s, m, h or d), not `no`",
            ),
            ("--timeout 31s", "--timeout is at most 30s: the kernel takes no more"),
            (
                "--timeout 8s --rescue 5s",
                "--rescue is at most half of --timeout: the kernel would end the scheduler",
            ),
        ] {
            let answer = asked(line).unwrap_err();
            assert_eq!(answer.err.lines().next(), Some(format!("schedd: {said}").as_str()), "{line}");
        }
        assert!(asked("--hole").unwrap_err().err.contains("did you mean --whole?"));
    }
}
