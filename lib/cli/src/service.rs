//! The command line of a service: `--help`, `--version` and errors.

use crate::help;
use crate::parse::{Misuse, Parsed, parse};
use crate::spec::Spec;
use std::ffi::OsString;

/// The output of a service that does not run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Text for standard output.
    pub out: String,
    /// Text for standard error.
    pub err: String,
    /// Its exit status.
    pub status: u8,
}

/// Parses the command line of a service. `options` converts a parsed command line to the options of a run, or returns an error.
///
/// # Errors
/// The [`Answer`] to `--help`, `--version` and errors.
pub fn service<T>(
    spec: &Spec,
    version: &str,
    words: &[OsString],
    options: impl FnOnce(&Parsed) -> Result<T, String>,
) -> Result<T, Answer> {
    let parsed = parse(spec, words).map_err(|misuse| misused(spec, &misuse))?;
    if parsed.long("help") {
        return Err(Answer { out: help::short(spec), ..Answer::default() });
    }
    if parsed.long("version") {
        return Err(Answer { out: format!("{} {version}\n", spec.name), ..Answer::default() });
    }
    options(&parsed).map_err(|what| misused(spec, &Misuse::new(what)))
}

fn misused(spec: &Spec, misuse: &Misuse) -> Answer {
    let more = match &misuse.meant {
        Some(meant) => format!("hint: did you mean {meant}?\n"),
        None => help::usage(spec),
    };
    Answer { err: format!("{}: {}\n{more}", spec.name, misuse.what), status: 2, ..Answer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Flag;

    const SPEC: Spec = Spec {
        name: "turnd",
        applet: true,
        summary: "turn",
        forms: &["[--left]"],
        flags: &[
            Flag::long("left", "turn left"),
            Flag::both('h', "help", "print this help"),
            Flag::long("version", "print the version"),
        ],
        common: &[],
        ..Spec::NEW
    };

    fn started(line: &str) -> Result<bool, Answer> {
        let words: Vec<OsString> = line.split_ascii_whitespace().map(OsString::from).collect();
        service(&SPEC, "1.2", &words, |parsed| match parsed.words().first() {
            None => Ok(parsed.long("left")),
            Some(word) => Err(format!("it turns no {word}")),
        })
    }

    #[test]
    fn a_service_runs_answers_or_says_what_is_wrong() {
        assert_eq!((started("--left"), started("")), (Ok(true), Ok(false)));
        let help = started("-h").unwrap_err();
        assert!(help.out.starts_with("turnd: turn\n") && help.err.is_empty() && help.status == 0, "{help:?}");
        let version = started("--version").unwrap_err();
        assert_eq!(version, Answer { out: "turnd 1.2\n".into(), err: String::new(), status: 0 });
        let near = started("--lef").unwrap_err();
        assert_eq!(near.err, "turnd: there is no option --lef\nhint: did you mean --left?\n");
        let wrong = started("wheel").unwrap_err();
        assert_eq!((wrong.err.lines().next(), wrong.status), (Some("turnd: it turns no wheel"), 2));
        assert!(wrong.err.contains("[--left]") && wrong.out.is_empty(), "{wrong:?}");
    }
}
