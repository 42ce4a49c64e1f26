//! Options and operands, as `getopt` and people who like long options understand them.
//!
//! Letters come first, alone or in clusters, and end at the first operand, at `--`, or at a lone `-`: what
//! follows `psrset -e 1 ls` is not ours. Long options stand among the letters.

use crate::failure::Failure;
use lexopt::{Arg, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// The options that every command takes.
pub const COMMON: [&str; 7] = ["machine:", "state:", "root:", "json", "dry-run", "help", "version"];

/// What was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Option letters in order, with their values.
    letters: Vec<(char, Option<OsString>)>,
    /// Long options of the command's own, with their values.
    longs: Vec<(String, Option<OsString>)>,
    /// Everything from the first operand on.
    pub operands: Vec<OsString>,
    /// The options that every command takes.
    pub common: Common,
}

/// The options that every command takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Common {
    /// Which machine, by name.
    pub machine: Option<String>,
    /// The file that keeps a simulated machine.
    pub state: Option<PathBuf>,
    /// The directory of a captured machine.
    pub root: Option<PathBuf>,
    /// Answer in JSON.
    pub json: bool,
    /// Show what would be done, and do nothing.
    pub dry_run: bool,
    /// Show the manual.
    pub help: bool,
    /// Show the version.
    pub version: bool,
}

impl Parsed {
    /// Whether the letter was given.
    #[must_use]
    pub fn has(&self, letter: char) -> bool {
        self.letters.iter().any(|(l, _)| *l == letter)
    }

    /// The value of a letter that takes one; the last one counts.
    #[must_use]
    pub fn value(&self, letter: char) -> Option<String> {
        let last = self.letters.iter().rfind(|(l, _)| *l == letter)?;
        last.1.as_ref().map(|v| v.to_string_lossy().into_owned())
    }

    /// The letters in order.
    pub fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.letters.iter().map(|(l, _)| *l)
    }

    /// Whether the long option was given.
    #[must_use]
    pub fn long(&self, name: &str) -> bool {
        self.longs.iter().any(|(l, _)| l == name)
    }

    /// The value of a long option that takes one; the last one counts.
    #[must_use]
    pub fn long_value(&self, name: &str) -> Option<String> {
        let last = self.longs.iter().rfind(|(l, _)| l == name)?;
        last.1.as_ref().map(|v| v.to_string_lossy().into_owned())
    }

    /// All values of a letter that takes one, in order.
    #[must_use]
    pub fn values(&self, letter: char) -> Vec<String> {
        let all = self.letters.iter().filter(|(l, _)| *l == letter).filter_map(|(_, value)| value.as_ref());
        all.map(|v| v.to_string_lossy().into_owned()).collect()
    }

    /// All values of a long option that takes one, in order.
    #[must_use]
    pub fn long_values(&self, name: &str) -> Vec<String> {
        let all = self.longs.iter().filter(|(l, _)| l == name).filter_map(|(_, value)| value.as_ref());
        all.map(|v| v.to_string_lossy().into_owned()).collect()
    }

    /// The operands as text.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.operands.iter().map(|o| o.to_string_lossy().into_owned()).collect()
    }
}

/// Takes the words behind the command's name apart. `letters` is a `getopt` string (`b:e:qQ`); `longs` are
/// names, with a colon behind those that take a value. Where `letters` begins with `-`, options may stand behind operands, too (as with GNU's
/// `getopt`): for commands whose operands are no command of somebody else.
///
/// # Errors
/// [`Failure::Usage`] for an option that the command does not take, or whose value is missing.
pub fn parse(letters: &str, longs: &[&str], words: &[OsString]) -> Result<Parsed, Failure> {
    let mut parsed = Parsed::default();
    let mut parser = Parser::from_args(words.iter().cloned());
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Arg::Short(letter) => {
                let at = letters.find(letter).filter(|_| letter != ':');
                let Some(at) = at else {
                    return Err(Failure::Usage(format!("there is no option -{letter}")));
                };
                let takes_value = letters[at + letter.len_utf8()..].starts_with(':');
                let value = if takes_value { Some(parser.value().map_err(usage)?) } else { None };
                parsed.letters.push((letter, value));
            }
            Arg::Long(name) => {
                let name = name.to_owned();
                let takes = |known: &[&str]| {
                    let bare = |k: &&&str| k.trim_end_matches(':') == name;
                    known.iter().find(bare).map(|k| k.ends_with(':'))
                };
                let own = takes(longs);
                let Some(takes_value) = own.or_else(|| takes(&COMMON)) else {
                    return Err(Failure::Usage(format!("there is no option --{name}")));
                };
                let value = if takes_value { Some(parser.value().map_err(usage)?) } else { None };
                if own.is_some() {
                    parsed.longs.push((name, value));
                } else {
                    parsed.common.set(&name, value);
                }
            }
            Arg::Value(operand) if letters.starts_with('-') => parsed.operands.push(operand),
            Arg::Value(first) => {
                parsed.operands.push(first);
                parsed.operands.extend(parser.raw_args().map_err(usage)?);
            }
        }
    }
    Ok(parsed)
}

impl Common {
    fn set(&mut self, name: &str, value: Option<OsString>) {
        match name {
            "machine" => self.machine = value.map(|v| v.to_string_lossy().into_owned()),
            "state" => self.state = value.map(PathBuf::from),
            "root" => self.root = value.map(PathBuf::from),
            "json" => self.json = true,
            "dry-run" => self.dry_run = true,
            "help" => self.help = true,
            _ => self.version = true,
        }
    }
}

fn usage(error: lexopt::Error) -> Failure {
    use lexopt::Error::{MissingValue, UnexpectedOption, UnexpectedValue};
    Failure::Usage(match error {
        MissingValue { option: Some(option) } => format!("option {option} needs a value"),
        UnexpectedValue { option, value } => {
            format!("option {option} takes no value, and was given `{}`", value.to_string_lossy())
        }
        UnexpectedOption(option) => format!("there is no option {option}"),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PSRSET: &str = "cdFarpibqQuUnfez:v";

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn parsed(text: &str) -> Parsed {
        parse(PSRSET, &["keep-others", "interval:"], &words(text)).unwrap()
    }

    fn refused(text: &str) -> String {
        match parse(PSRSET, &["keep-others", "interval:"], &words(text)) {
            Err(Failure::Usage(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters_may_be_clustered() {
        let p = parsed("-cF 1 2");
        assert_eq!(p.letters().collect::<String>(), "cF");
        assert_eq!(p.words(), ["1", "2"]);
    }

    #[test]
    fn values_stand_behind_their_letter_or_in_the_next_word() {
        assert_eq!(parsed("-b -z web 1").value('z'), Some("web".into()));
        assert_eq!(parsed("-bzweb 1").value('z'), Some("web".into()));
    }

    #[test]
    fn long_options_stand_among_the_letters() {
        let p = parsed("--json -c --keep-others --machine=t2000 --interval 5 --root /x 1");
        assert!(p.common.json && p.long("keep-others") && !p.common.dry_run);
        assert_eq!(p.common.machine.as_deref(), Some("t2000"));
        assert_eq!(p.common.root, Some(PathBuf::from("/x")));
        assert_eq!(p.long_value("interval").as_deref(), Some("5"));
    }

    #[test]
    fn options_end_at_the_first_operand() {
        let p = parsed("-e 1 ls -l --json");
        assert_eq!(p.words(), ["1", "ls", "-l", "--json"]);
        assert!(!p.common.json);
        assert_eq!(parsed("-e -- 1 ls").words(), ["1", "ls"]);
    }

    #[test]
    fn options_may_stand_behind_operands_where_a_command_says_so() {
        let p = parse("-v", &["policy:"], &words("log --policy solaris -v --json -- -x")).unwrap();
        assert_eq!(p.words(), ["log", "-x"]);
        assert!(p.common.json && p.has('v'));
        assert_eq!(p.long_value("policy").as_deref(), Some("solaris"));
    }

    #[test]
    fn what_is_no_option_is_named() {
        assert_eq!(refused("-x"), "there is no option -x");
        assert_eq!(refused("-:"), "there is no option -:");
        assert_eq!(refused("--quick"), "there is no option --quick");
        assert_eq!(refused("-b -z"), "option -z needs a value");
        assert_eq!(refused("--machine"), "option --machine needs a value");
        assert_eq!(refused("--json=1"), "option --json takes no value, and was given `1`");
    }

    #[test]
    fn fuzz_command_lines() {
        use std::os::unix::ffi::OsStringExt;
        let seeds: [&[u8]; 3] = [
            b"-cF\0--keep-others\x001\x002",
            b"--json\0--interval=5\0-bzweb\0--\0-e",
            b"-z\0--machine\0t2000\0-Q\0\xff",
        ];
        millpond_fuzz::check("cmd-args", &seeds, |bytes| {
            let words = bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
            let words: Vec<OsString> = words.collect();
            match parse(PSRSET, &["keep-others", "interval:"], &words) {
                Ok(parsed) => {
                    // Operands are the last words, as they were typed.
                    assert!(words.ends_with(&parsed.operands));
                    assert!(parsed.letters().all(|letter| letter != ':' && PSRSET.contains(letter)));
                }
                Err(Failure::Usage(why)) => assert!(!why.is_empty()),
                Err(other) => panic!("{other:?}"),
            }
        });
    }

    proptest! {
        #[test]
        fn parsing_any_words_never_panics(text in proptest::collection::vec(".{0,8}", 0..6)) {
            let words: Vec<OsString> = text.into_iter().map(OsString::from).collect();
            let _ = parse(PSRSET, &["keep-others"], &words);
        }
    }
}
