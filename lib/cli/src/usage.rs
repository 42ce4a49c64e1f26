//! The forms of a command, and the selection of those that match a command line.

use crate::scan::{Scanner, Token};
use crate::spec::{Flag, Spec};
use std::ffi::OsString;

/// A command with at most this number of forms shows all of them if no form matches.
const FORMS_MAX: usize = 5;

/// The weight of an option that a form requires; an optional one has weight 1.
const DEMANDED: usize = 2;

/// All forms of a command.
#[must_use]
pub fn usage(spec: &Spec) -> String {
    lines(&spec.prog(), spec.forms)
}

/// The forms that match these words; `None` if none matches and there are many.
#[must_use]
pub fn for_words(spec: &Spec, words: &[OsString]) -> Option<String> {
    let fitting = fitting(spec, words);
    (!fitting.is_empty()).then(|| lines(&spec.prog(), &fitting))
}

/// All forms, in the format of Solaris.
#[must_use]
pub fn usage_of_solaris(spec: &Spec) -> String {
    let prog = spec.prog();
    let forms: Vec<String> =
        spec.forms.iter().map(|form| format!("\t{prog} {form}").trim_end().to_owned() + "\n").collect();
    format!("usage:{}", forms.concat())
}

fn lines(prog: &str, forms: &[&str]) -> String {
    let mut text = String::new();
    for (i, form) in forms.iter().enumerate() {
        let head = if i == 0 { "usage:" } else { "      " };
        text += format!("{head} {prog} {form}").trim_end();
        text.push('\n');
    }
    text
}

/// The forms with most of the given options, in order. If no form has any: all forms if they are few, else none.
fn fitting(spec: &Spec, words: &[OsString]) -> Vec<&'static str> {
    let typed = typed(spec, words);
    let score = |form: &str| {
        let known = options(form);
        let of =
            |option: &String| known.iter().filter(|(name, _)| name == option).map(|(_, worth)| *worth).max();
        typed.iter().filter_map(of).sum::<usize>()
    };
    let best = spec.forms.iter().map(|form| score(form)).max().unwrap_or(0);
    if best == 0 && spec.forms.len() > FORMS_MAX {
        return Vec::new();
    }
    spec.forms.iter().copied().filter(|form| score(form) == best).collect()
}

/// The options among the words, once for each occurrence, and the first operand: `-c`, `--json`, `stat`.
fn typed(spec: &Spec, words: &[OsString]) -> Vec<String> {
    let mut has_operand = false;
    let typed = Scanner::new(spec, words.iter().cloned()).filter_map(|token| match token {
        Token::Option(name, ..) | Token::Unknown(name) | Token::Open(name) => Some(name),
        Token::Operand(word) if !std::mem::replace(&mut has_operand, true) => {
            Some(word.to_string_lossy().into_owned())
        }
        Token::Operand(_) | Token::Wrong(_) => None,
    });
    typed.collect()
}

/// The options of a form and its leading words, each with its weight.
pub(crate) fn options(form: &str) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let first = form.split(' ').next().unwrap_or_default();
    if !first.starts_with(['-', '[']) {
        found.extend(first.split('|').map(|word| (word.to_owned(), DEMANDED)));
    }
    let (mut depth, mut before) = (0usize, ' ');
    for (at, c) in form.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '-' if !before.is_alphanumeric() && before != '-' => {
                let worth = if depth == 0 { DEMANDED } else { 1 };
                let rest = &form[at + 1..];
                let end = |text: &str| {
                    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len())
                };
                match rest.strip_prefix('-') {
                    Some(long) => found.push((format!("--{}", &long[..end(long)]), worth)),
                    None => {
                        found.extend(rest[..end(rest)].chars().map(|letter| (format!("-{letter}"), worth)));
                    }
                }
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// Whether a form of the command shows the option.
#[must_use]
pub fn shows(spec: &Spec, flag: &Flag) -> bool {
    let shown =
        |name: &String| spec.forms.iter().any(|form| options(form).iter().any(|(option, _)| option == name));
    flag.spellings().iter().any(shown)
}

/// Options of forms that the command does not have: errors in its description.
#[must_use]
pub fn unknown(spec: &Spec) -> Vec<String> {
    let all = spec.forms.iter().flat_map(|form| options(form)).map(|(option, _)| option);
    all.filter(|option| {
        option.starts_with('-') && option != "--" && spec.flag(option.trim_start_matches('-')).is_none()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ValueKind;

    const PSRSET: Spec = Spec {
        name: "psrset",
        applet: true,
        forms: &[
            "-c [-F] [--keep-others] [cpu ...]",
            "-d [-F] set ...",
            "-a [-F] [--keep-others] set cpu ...",
            "-b -z zone set",
            "-b set pid ...",
            "--mems local|all set ...",
        ],
        flags: &[
            Flag::letter('a', ""),
            Flag::letter('b', ""),
            Flag::letter('c', ""),
            Flag::letter('d', ""),
            Flag::letter('F', ""),
            Flag::letter('z', "").value("zone", ValueKind::Zone),
            Flag::long("keep-others", ""),
            Flag::long("mems", "").value("memory", ValueKind::Text),
        ],
        ..Spec::NEW
    };

    fn shown(text: &str) -> Vec<&'static str> {
        fitting(&PSRSET, &text.split_whitespace().map(Into::into).collect::<Vec<_>>())
    }

    #[test]
    fn a_mistake_shows_the_form_that_it_is_about() {
        assert_eq!(shown("-a"), ["-a [-F] [--keep-others] set cpu ..."]);
        assert_eq!(shown("-b -z web 1 204"), ["-b -z zone set"]);
        assert_eq!(shown("-bzweb 1 -c"), ["-b -z zone set"]);
        assert_eq!(shown("-dF 1"), ["-d [-F] set ..."]);
        assert_eq!(shown("--mems"), ["--mems local|all set ..."]);
        assert_eq!(shown("--quick"), [""; 0]);
    }

    #[test]
    fn forms_and_options_of_a_description_agree() {
        assert!(PSRSET.flags.iter().all(|flag| shows(&PSRSET, flag)));
        assert_eq!(unknown(&PSRSET), [""; 0]);
        let wrong = Spec { forms: &["-x [--quick] [--json]"], ..PSRSET };
        assert_eq!(unknown(&wrong), ["-x", "--quick"]);
    }

    #[test]
    fn solaris_has_a_tab_in_front() {
        const STAT: Spec = Spec { name: "poolstat", applet: true, forms: &["[-p list]", ""], ..Spec::NEW };
        assert_eq!(usage_of_solaris(&STAT), "usage:\tpoolstat [-p list]\n\tpoolstat\n");
        assert_eq!(usage(&STAT), "usage: poolstat [-p list]\n       poolstat\n");
    }
}
