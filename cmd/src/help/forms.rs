//! Which forms of a command's usage are about what was typed: after a mistake these are shown, and not all of them.

use crate::command::Command;
use std::ffi::OsString;

/// A command with no more forms than these shows all of them where no form stands out.
const FORMS_MAX: usize = 5;

/// What an option that a form demands counts, beside one that it allows.
const DEMANDED: usize = 2;

/// The forms of usage that have most of the options that were typed, in their order. All of them where none has any and they are few, else none.
#[must_use]
pub fn fitting(command: &Command, words: &[OsString]) -> Vec<&'static str> {
    let typed = typed(command, words);
    let score = |form: &str| {
        let known = options(form);
        let of =
            |option: &String| known.iter().filter(|(name, _)| name == option).map(|(_, worth)| *worth).max();
        typed.iter().filter_map(of).sum::<usize>()
    };
    let best = command.usage.iter().map(|form| score(form)).max().unwrap_or(0);
    if best == 0 && command.usage.len() > FORMS_MAX {
        return Vec::new();
    }
    command.usage.iter().copied().filter(|form| score(form) == best).collect()
}

/// The options among the words, each once for each time, and the first operand: `-c`, `--json`, `stat`.
fn typed(command: &Command, words: &[OsString]) -> Vec<String> {
    let takes_value = |letter: char| {
        let at = command.letters.find(letter).filter(|_| letter != ':');
        at.is_some_and(|at| command.letters[at + letter.len_utf8()..].starts_with(':'))
    };
    let mut typed: Vec<String> = Vec::new();
    let mut words = words.iter().map(|word| word.to_string_lossy());
    let mut has_operand = false;
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            let name = long.split_once('=').map_or(long, |(name, _)| name);
            typed.push(format!("--{name}"));
            let value = command.longs.iter().any(|known| known.strip_suffix(':') == Some(name));
            if value && name == long {
                words.next();
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                typed.push(format!("-{letter}"));
                if takes_value(letter) {
                    if letters.as_str().is_empty() {
                        words.next();
                    }
                    break;
                }
            }
        } else {
            if !has_operand {
                typed.push(word.into_owned());
            }
            has_operand = true;
            if !command.letters.starts_with('-') {
                break;
            }
        }
    }
    typed
}

/// The options of a form and the words that it begins with, each with what it counts.
fn options(form: &str) -> Vec<(String, usize)> {
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
                        found.extend(rest[..end(rest)].chars().map(|letter| (format!("-{letter}"), worth)))
                    }
                }
            }
            _ => {}
        }
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, text: &str) -> Vec<&'static str> {
        let words: Vec<OsString> = text.split_whitespace().map(Into::into).collect();
        fitting(Command::named(name).unwrap(), &words)
    }

    #[test]
    fn a_mistake_shows_the_form_that_it_is_about() {
        assert_eq!(shown("psrset", "-a"), ["-a [-F] [--whole-cores] processor_set processor ..."]);
        assert_eq!(shown("psrset", "-b -z web 1 204"), ["-b -z zone processor_set"]);
        assert_eq!(shown("psrset", "-dF 1"), ["-d [-F] processor_set ..."]);
        assert_eq!(shown("psrset", "--mems"), ["--mems local|all|lgroups processor_set ..."]);
        assert_eq!(shown("pbind", "-b 1 -u 204"), ["-b processor pid[/lwps] ...", "-u pid[/lwps] ..."]);
        assert_eq!(shown("umem", "whatis 7"), ["whatis pid | core address ..."]);
    }

    #[test]
    fn what_no_form_has_shows_all_where_they_are_few() {
        assert_eq!(shown("psrset", "--quick"), [""; 0]);
        assert_eq!(shown("quiet", "--quick").len(), 2);
        assert_eq!(shown("quiet", "").len(), 2);
    }

    #[test]
    fn no_words_show_more_than_a_few_forms() {
        for command in crate::command::COMMANDS {
            for text in ["", "-x", "--nonsense", "-h", "word -q"] {
                assert!(shown(command.name, text).len() <= FORMS_MAX, "{} {text}", command.name);
            }
        }
    }
}
