//! Command-line options of poold.

use crate::log::Level;
use millpond_cli::{Answer, Example, Flag, Group, Parsed, Spec, ValueKind, units};
use millpond_planner::POLICIES;
use millpond_session::{MachineName, OpenOptions};
use std::ffi::OsString;
use std::path::PathBuf;

/// The description of the command.
pub const SPEC: Spec = Spec {
    name: "poold",
    applet: true,
    summary: "resize pools by load: move CPUs between processor sets",
    section: 8,
    group: Group::Divide,
    forms: &[
        "[-l level] [--policy millpond|solaris] [--interval time] [--record] [--for time] [--dry-run] \
         [--machine name] [--state file] [--root dir] [--state-dir dir]",
        "--help | --version",
    ],
    flags: &[
        Flag::letter(
            'l',
            "log to standard error from this level on, instead of as system.poold.log-location and system.poold.log-level say",
        )
        .value("level", ValueKind::Word(&["ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG"])),
        Flag::long(
            "policy",
            "the policy (millpond), instead of the property system.poold.policy",
        )
        .value("name", ValueKind::Word(&POLICIES)),
        Flag::long(
            "interval",
            "time between samples (milliseconds without a unit), instead of system.poold.monitor-interval",
        )
        .value("time", ValueKind::Time),
        Flag::long("record", "record every decision, for millpond replay"),
        Flag::long("for", "end after this time (milliseconds without a unit)").value("time", ValueKind::Time),
        Flag::long("dry-run", "decide, and move nothing"),
        Flag::long("machine", "a simulated machine, which --state keeps")
            .value("name", ValueKind::Machine),
        Flag::long("state", "the simulated machine that this file keeps").value("file", ValueKind::File),
        Flag::long("root", "a captured machine: the directory that millpond capture made")
            .value("dir", ValueKind::Directory),
        Flag::long("state-dir", "the directory of its files, in place of MILLPOND_STATE")
            .value("dir", ValueKind::Directory),
        Flag::both('h', "help", "print this help"),
        Flag::long("version", "print the version"),
    ],
    common: &[],
    permutes: true,
    examples: &[
        Example { words: "-l INFO", what: "run in the foreground, and log what moves and why" },
        Example { words: "--dry-run --record -l INFO", what: "decide, and move nothing" },
    ],
    files: &[
        (
            "poold.decisions",
            "in the state directory: a line of JSON for each decision that moves CPUs or has a new reason; \
             beyond 16 MiB it becomes poold.decisions.1",
        ),
        ("poold.memory", "estimates of the policy, for the next start"),
        ("poold.lock", "locked by the running instance"),
    ],
    status: &[
        ("0", "stopped by a signal, or at the end of --for"),
        ("1", "it cannot start"),
        ("2", "the command line is wrong"),
    ],
    see_also: &["poolcfg(8)", "pooladm(8)", "poolstat(1)", "millpond-replay(1)"],
    prose: millpond_cli::head!(include_str!("lib.rs")),
    ..Spec::NEW
};

/// The parsed options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Logs to standard error, from this level on.
    pub level: Option<Level>,
    /// The name of a policy, instead of the configured one.
    pub policy: Option<String>,
    /// The sampling interval in milliseconds, instead of the configured one.
    pub interval_ms: Option<u64>,
    /// Records every decision.
    pub records_all: bool,
    /// Ends after this many milliseconds.
    pub for_ms: Option<u64>,
    /// Decides, and moves nothing.
    pub is_dry: bool,
    /// The machine.
    pub open: OpenOptions,
}

/// Parses milliseconds: a number alone, or a time with a unit.
fn millis(text: &str, of: &str) -> Result<u64, String> {
    let time = units::time(text, MILLI).ok_or_else(|| {
        format!("{of} takes milliseconds or a time with a unit ({}), not `{text}`", units::NAMES)
    })?;
    if time.0 < MILLI { Err(format!("{of} is at least a millisecond")) } else { Ok(time.0 / MILLI) }
}

/// Nanoseconds of a millisecond.
const MILLI: u64 = 1_000_000;

/// Parses the command line after the program name.
///
/// # Errors
/// The text to print instead of running: help, version, or a message about the first invalid argument.
pub fn parse(words: &[OsString]) -> Result<Options, Answer> {
    millpond_cli::service(&SPEC, env!("CARGO_PKG_VERSION"), words, options)
}

fn options(parsed: &Parsed) -> Result<Options, String> {
    if let Some(word) = parsed.words().first() {
        return Err(format!("it takes no operand, and got `{word}`"));
    }
    let level = |word: String| {
        let known = Level::ALL.map(Level::word).join(" ");
        word.parse().map_err(|()| format!("`{word}` is no level; there are {known}"))
    };
    let policy = |name: String| match POLICIES.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("there is no policy `{name}`; there are {}", POLICIES.join(" and "))),
    };
    let time =
        |name: &str| parsed.long_value(name).map(|text| millis(&text, &format!("--{name}"))).transpose();
    let path = |name: &str| parsed.long_value(name).map(PathBuf::from);
    let machine = parsed.long_value("machine").map(|name| match name.parse::<MachineName>() {
        Ok(machine) => machine,
        Err(never) => match never {},
    });
    Ok(Options {
        level: parsed.value('l').map(level).transpose()?,
        policy: parsed.long_value("policy").map(policy).transpose()?,
        interval_ms: time("interval")?,
        for_ms: time("for")?,
        records_all: parsed.long("record"),
        is_dry: parsed.long("dry-run"),
        open: OpenOptions {
            machine: machine.unwrap_or_default(),
            kept_in: path("state"),
            state: path("state-dir"),
            root: path("root"),
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
        let options = asked("-l INFO --policy solaris --interval 100 --record").unwrap();
        assert_eq!((options.level, options.policy.as_deref()), (Some(Level::Info), Some("solaris")));
        assert_eq!((options.interval_ms, options.records_all), (Some(100), true));
        assert_eq!(asked("--version").unwrap_err().status, 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("-l LOUD", "`LOUD` is no level; there are ALERT CRIT ERR WARNING NOTICE INFO DEBUG"),
            ("--policy chance", "there is no policy `chance`; there are millpond and solaris"),
            (
                "--interval soon",
                "--interval takes milliseconds or a time with a unit (ns, us, ms, s, m, h or d), not `soon`",
            ),
            ("--for 0", "--for is at least a millisecond"),
            ("-x", "there is no option -x"),
            ("--loud", "there is no option --loud"),
            ("web", "it takes no operand, and got `web`"),
        ] {
            let answer = asked(line).unwrap_err();
            assert_eq!(answer.err.lines().next(), Some(format!("poold: {said}").as_str()), "{line}");
        }
    }
}
