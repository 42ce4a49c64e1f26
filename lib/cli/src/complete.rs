//! Completions: the candidates at the cursor of a command line, and the scripts for shells.
//!
//! A shell runs `millpond complete -- WORD ...`; the last word is the one at the cursor. The answer has a line for each candidate, with a
//! description after a tab. Candidates that depend on the machine (sets, pools, CPUs) are given by their [`ValueKind`]; the caller reads
//! them.

use crate::scan::{Scanner, Token};
use crate::spec::{Flag, Spec, ValueKind};
use std::ffi::OsString;

/// The kind of word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Options, each with its help.
    Options(Vec<(String, &'static str)>),
    /// A value of this kind, after this prefix (`--machine=`, `1,`).
    Value {
        /// The prefix of all candidates.
        prefix: String,
        /// The kind of the value.
        kind: ValueKind,
    },
    /// An argument of the program that earlier words name.
    Argument(String),
    /// Unknown.
    Nothing,
}

/// A word that no user types, in place of the one at the cursor: the token that the scanner makes of it determines the kind of word.
const CURSOR: &str = "--\u{1}";

/// The kind of word at the end of `words`, which are the words after the name of the command; the last one is at the cursor.
#[must_use]
pub fn place(spec: &Spec, words: &[&str]) -> Place {
    let Some((last, before)) = words.split_last() else { return Place::Nothing };
    let value = |kind: ValueKind, text: &str, before: &str| Place::Value {
        prefix: before.to_owned() + list_prefix(kind, text),
        kind,
    };
    let (mut given, mut operands, mut may_be_option) = (Vec::new(), Vec::new(), false);
    for token in Scanner::new(spec, before.iter().copied().chain([CURSOR]).map(OsString::from)) {
        match token {
            Token::Option(_, flag, Some(word)) if word == CURSOR => {
                return flag.value.map_or(Place::Nothing, |of| value(of.kind, last, ""));
            }
            Token::Option(_, flag, _) => given.push(flag),
            Token::Unknown(name) => may_be_option = name == CURSOR,
            Token::Operand(word) if word != CURSOR => operands.push(word),
            Token::Operand(_) | Token::Open(_) | Token::Wrong(_) => {}
        }
    }
    if may_be_option && last.starts_with('-') {
        if let Some((name, text)) = last.strip_prefix("--").and_then(|long| long.split_once('=')) {
            let of = spec.all_flags().find(|flag| flag.long == Some(name)).and_then(|flag| flag.value);
            return of.map_or(Place::Nothing, |of| value(of.kind, text, &format!("--{name}=")));
        }
        return Place::Options(options(spec, &given));
    }
    let expected = given.iter().rev().find_map(|flag| flag.operands).unwrap_or(spec.operands);
    let is_program = |at: &usize| expected.kind(*at) == Some(ValueKind::Program);
    if let Some(program) = (0..operands.len()).find(is_program) {
        return Place::Argument(operands[program].to_string_lossy().into_owned());
    }
    expected.kind(operands.len()).map_or(Place::Nothing, |kind| value(kind, last, ""))
}

/// The text up to the last comma of a list.
fn list_prefix(kind: ValueKind, text: &str) -> &str {
    let is_list = matches!(kind, ValueKind::Words(_) | ValueKind::Counts(..) | ValueKind::Cpus);
    if is_list { text.rfind(',').map_or("", |comma| &text[..=comma]) } else { "" }
}

/// The options that are still allowed.
fn options(spec: &Spec, given: &[&'static Flag]) -> Vec<(String, &'static str)> {
    let is_free = |flag: &&'static Flag| {
        let taken = given.contains(flag) && !flag.repeats;
        let excluded = given.iter().any(|other| {
            let names = |flag: &Flag, other: &Flag| flag.conflicts.iter().any(|name| other.is(name));
            names(other, flag) || names(flag, other)
        });
        !taken && !excluded
    };
    let names = |flag: &'static Flag| flag.spellings().into_iter().map(|name| (name, flag.help));
    spec.all_flags().filter(is_free).flat_map(names).collect()
}

/// A shell with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

impl Shell {
    /// All shells, with the names of their files.
    pub const ALL: [(&'static str, Shell); 3] =
        [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

    /// The completion script for these commands.
    #[must_use]
    pub fn script(self, names: &[&str]) -> String {
        let names = names.join(" ");
        match self {
            Shell::Bash => BASH.replace("@NAMES@", &names),
            Shell::Zsh => ZSH.replace("@NAMES@", &names),
            Shell::Fish => FISH.replace("@NAMES@", &names),
        }
    }
}

/// The answer that makes the shell complete file names.
pub const FILES: &str = ":files";

/// The answer that makes the shell complete directory names.
pub const DIRECTORIES: &str = ":directories";

const BASH: &str = r#"# bash completion for millpond and its commands
_millpond() {
    local line
    local -a words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
    words[0]=${words[0]##*/}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o default ;;
            :directories) compopt -o dirnames ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(millpond complete --bash -- "${words[@]}" 2>/dev/null)
    [ "${#COMPREPLY[@]}" != 1 ] || [[ ${COMPREPLY[0]} != *[=,] ]] || compopt -o nospace
}
complete -F _millpond @NAMES@
"#;

const ZSH: &str = r#"#compdef @NAMES@
# zsh completion for millpond and its commands
_millpond() {
    local line files=''
    local -a found
    local -a typed=("${(@Q)words[1,CURRENT]}")
    typed[1]=${typed[1]:t}
    for line in "${(@f)$(millpond complete -- "${(@)typed}" 2>/dev/null)}"; do
        case $line in
            '') ;;
            :files) files=any ;;
            :directories) files=directories ;;
            *$'\t'*) found+=("${${${line%%$'\t'*}//\\/\\\\}//:/\\:}:${line#*$'\t'}") ;;
            *) found+=("${${line//\\/\\\\}//:/\\:}") ;;
        esac
    done
    (( ${#found} )) && _describe millpond found
    [ -n "$files" ] || return $(( ! ${#found} ))
    [[ $PREFIX != --*=* ]] || compset -P '*='
    if [ $files = any ]; then _files; else _files -/; fi
}
if [ "$funcstack[1]" = "_millpond" ]; then _millpond "$@"; else compdef _millpond @NAMES@; fi
"#;

const FISH: &str = r#"# fish completion for millpond and its commands
function __millpond_complete
    set -l words (commandline -opc)
    set words[1] (string replace -r '.*/' '' -- $words[1])
    set -l last (commandline -ct)
    set -l plain (string unescape -- $last)
    and set last $plain
    for line in (millpond complete -- $words $last 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :directories
                __fish_complete_directories (commandline -ct)
            case '*'
                printf '%s\n' $line
        end
    end
end
for name in @NAMES@
    complete -c $name -f -k -a '(__millpond_complete)'
end
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Operands;

    const BIND: Spec = Spec {
        name: "bind",
        flags: &[
            Flag::letter('b', "bind").operands("set pid ...", &[ValueKind::Pset, ValueKind::Process]),
            Flag::letter('c', "create").operands("[cpu ...]", &[ValueKind::Cpus]).conflicts(&["b"]),
            Flag::letter('p', "pool").value("pool", ValueKind::Pool),
            Flag::long("class", "class").value("list", ValueKind::Words(&["TS", "FX"])).repeats(),
        ],
        common: &[Flag::long("root", "root").value("dir", ValueKind::Directory)],
        operands: Operands { shown: "set ...", kinds: &[ValueKind::Pset] },
        ..Spec::NEW
    };

    fn kind(words: &[&str]) -> Option<(String, ValueKind)> {
        match place(&BIND, words) {
            Place::Value { prefix, kind } => Some((prefix, kind)),
            _ => None,
        }
    }

    fn names(words: &[&str]) -> Vec<String> {
        match place(&BIND, words) {
            Place::Options(options) => options.into_iter().map(|(name, _)| name).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn operands_have_the_kind_of_the_form() {
        let of = |kind| Some((String::new(), kind));
        assert_eq!(kind(&[""]), of(ValueKind::Pset));
        assert_eq!(kind(&["1", ""]), of(ValueKind::Pset));
        assert_eq!(kind(&["-b", ""]), of(ValueKind::Pset));
        assert_eq!(kind(&["-b", "1", ""]), of(ValueKind::Process));
        assert_eq!(kind(&["-b", "1", "7", ""]), of(ValueKind::Process));
        assert_eq!(kind(&["-c", "1-3,"]), Some(("1-3,".into(), ValueKind::Cpus)));
    }

    #[test]
    fn values_have_the_kind_of_the_option() {
        assert_eq!(kind(&["-p", "w"]), Some((String::new(), ValueKind::Pool)));
        assert_eq!(kind(&["-bp", ""]), Some((String::new(), ValueKind::Pool)));
        assert_eq!(kind(&["--root=/x"]), Some(("--root=".into(), ValueKind::Directory)));
        assert_eq!(kind(&["--class", "TS,"]), Some(("TS,".into(), ValueKind::Words(&["TS", "FX"]))));
        assert_eq!(kind(&["-p", "web", ""]), Some((String::new(), ValueKind::Pset)));
    }

    #[test]
    fn options_that_were_given_or_are_excluded_are_not_offered_again() {
        assert_eq!(names(&["-"]), ["-b", "-c", "-p", "--class", "--root"]);
        assert_eq!(names(&["-b", "-"]), ["-p", "--class", "--root"]);
        assert_eq!(names(&["--class", "TS", "-"]), ["-b", "-c", "-p", "--class", "--root"]);
    }

    #[test]
    fn words_behind_a_program_are_its_own() {
        const RUN: Spec = Spec {
            flags: &[Flag::letter('e', "run").operands("", &[ValueKind::Pset, ValueKind::Program])],
            ..Spec::NEW
        };
        assert_eq!(
            place(&RUN, &["-e", "1", "-"]),
            Place::Value { prefix: String::new(), kind: ValueKind::Program }
        );
        assert_eq!(place(&RUN, &["-e", "1", "make", "-"]), Place::Argument("make".into()));
        assert_eq!(place(&RUN, &["-e", "1", "make", "-j", ""]), Place::Argument("make".into()));
    }

    #[test]
    fn no_option_follows_an_operand() {
        assert_eq!(kind(&["1", "-"]), Some((String::new(), ValueKind::Pset)));
        assert_eq!(kind(&["--", "-"]), Some((String::new(), ValueKind::Pset)));
        assert_eq!(place(&BIND, &[]), Place::Nothing);
    }

    #[test]
    fn scripts_name_the_commands() {
        for (_, shell) in Shell::ALL {
            let script = shell.script(&["millpond", "psrset"]);
            assert!(script.contains("millpond psrset"));
            assert!(!script.contains("@NAMES@"));
        }
    }

    #[test]
    fn fuzz_words() {
        millpond_fuzz::check_text(
            "cli-complete",
            &["-b 1 ", "--root=/x -", "-p w -bp", "-- -c 1,"],
            |text| {
                let words: Vec<&str> = text.split(' ').collect();
                if let Place::Value { prefix, .. } = place(&BIND, &words) {
                    assert!(words.last().is_some_and(|word| word.starts_with(&prefix)));
                }
            },
        );
    }
}
