//! What it is started with.

use crate::log::Level;
use millpond_planner::POLICIES;
use millpond_session::{MachineName, OpenOptions};
use std::ffi::OsString;
use std::path::PathBuf;

/// Its form, without the name in front.
pub const USAGE: &[&str] = &[
    "[-l level] [--policy millpond|solaris] [--interval MS] [--record] [--for MS] [--dry-run] \
     [--machine NAME] [--state FILE] [--root DIR] [--state-dir DIR]",
    "--help | --version",
];

/// Understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Stay at the standard error, from this level on.
    pub level: Option<Level>,
    /// By its name, instead of what the configuration says.
    pub policy: Option<String>,
    /// Instead of what the configuration says, in milliseconds.
    pub interval_ms: Option<u64>,
    /// Write every decision.
    pub records_all: bool,
    /// End after so many milliseconds.
    pub for_ms: Option<u64>,
    /// Decide, and move nothing.
    pub is_dry: bool,
    /// The machine.
    pub open: OpenOptions,
}

/// What the words ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Its manual.
    Help,
    /// Its version.
    Version,
    /// To run.
    Run(Box<Options>),
}

fn text(value: OsString, of: &str) -> Result<String, String> {
    value.into_string().map_err(|_| format!("{of} is no text"))
}

fn millis(value: OsString, of: &str) -> Result<u64, String> {
    let text = text(value, of)?;
    let ms: u64 = text.parse().map_err(|_| format!("{of} takes milliseconds, not `{text}`"))?;
    if ms == 0 { Err(format!("{of} is at least a millisecond")) } else { Ok(ms) }
}

/// Understands the words after the name.
///
/// # Errors
/// A sentence about the first word that is wrong.
pub fn parse(words: &[OsString]) -> Result<Asked, String> {
    use lexopt::Arg::{Long, Short, Value};
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(words.iter().cloned());
    let said = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(said)? {
        match arg {
            Short('h') | Long("help") => return Ok(Asked::Help),
            Long("version") => return Ok(Asked::Version),
            Short('l') => {
                let word = text(parser.value().map_err(said)?, "-l")?;
                let known = Level::ALL.map(Level::word).join(" ");
                options.level =
                    Some(word.parse().map_err(|()| format!("`{word}` is no level; there are {known}"))?);
            }
            Long("policy") => {
                let name = text(parser.value().map_err(said)?, "--policy")?;
                if !POLICIES.contains(&name.as_str()) {
                    return Err(format!("there is no policy `{name}`; there are {}", POLICIES.join(" and ")));
                }
                options.policy = Some(name);
            }
            Long("interval") => {
                options.interval_ms = Some(millis(parser.value().map_err(said)?, "--interval")?);
            }
            Long("for") => options.for_ms = Some(millis(parser.value().map_err(said)?, "--for")?),
            Long("record") => options.records_all = true,
            Long("dry-run") => options.is_dry = true,
            Long("machine") => {
                let name = text(parser.value().map_err(said)?, "--machine")?;
                options.open.machine = match name.parse::<MachineName>() {
                    Ok(machine) => machine,
                    Err(never) => match never {},
                };
            }
            Long("state") => options.open.kept_in = Some(PathBuf::from(parser.value().map_err(said)?)),
            Long("state-dir") => options.open.state = Some(PathBuf::from(parser.value().map_err(said)?)),
            Long("root") => options.open.root = Some(PathBuf::from(parser.value().map_err(said)?)),
            Short(letter) => return Err(format!("illegal option -- {letter}")),
            Long(name) => return Err(format!("there is no option --{name}")),
            Value(word) => return Err(format!("it takes no operand, and got `{}`", word.to_string_lossy())),
        }
    }
    Ok(Asked::Run(Box::new(options)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(&line.split_ascii_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Asked::Run(options) = asked("-l INFO --policy solaris --interval 100 --record").unwrap() else {
            panic!("it runs")
        };
        assert_eq!((options.level, options.policy.as_deref()), (Some(Level::Info), Some("solaris")));
        assert_eq!((options.interval_ms, options.records_all), (Some(100), true));
        assert_eq!(asked("--help").unwrap(), Asked::Help);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("-l LOUD", "`LOUD` is no level; there are ALERT CRIT ERR WARNING NOTICE INFO DEBUG"),
            ("--policy chance", "there is no policy `chance`; there are millpond and solaris"),
            ("--interval soon", "--interval takes milliseconds, not `soon`"),
            ("--for 0", "--for is at least a millisecond"),
            ("-x", "illegal option -- x"),
            ("--loud", "there is no option --loud"),
            ("web", "it takes no operand, and got `web`"),
        ] {
            assert_eq!(asked(line).unwrap_err(), said, "{line}");
        }
    }
}
