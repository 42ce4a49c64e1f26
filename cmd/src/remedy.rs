//! Remedies that are Millpond commands: each is checked with `--dry-run` on the machine before it is shown.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::Exit;
use millpond_cli::{Misused, Spec};
use millpond_machine::Reason;
use millpond_session::{Kind, Output, Session};
use std::ffi::OsString;

/// Commands that change the machine, and that have `--dry-run`.
const CHANGING: [&str; 10] =
    ["psradm", "psrset", "pbind", "plgrp", "fence", "pooladm", "poolcfg", "poolbind", "prctl", "priocntl"];

/// Characters that end a command in a sentence.
const ENDS: [char; 5] = ['(', ')', ';', ',', '…'];

/// The commands of Millpond in a text that change the machine, each from its name on. A command may be incomplete
/// (`psrset -d`, without the sets).
#[must_use]
pub fn commands(text: &str, table: &'static [Command]) -> Vec<Vec<String>> {
    let clauses = text.split(ENDS);
    clauses.filter_map(|clause| command_in(&clause.split_whitespace().collect::<Vec<_>>(), table)).collect()
}

fn command_in(words: &[&str], table: &'static [Command]) -> Option<Vec<String>> {
    let at = words.iter().position(|word| CHANGING.contains(word))?;
    let spec = &Command::named(words[at], table)?.spec;
    if !spec.applet && (at == 0 || words[at - 1] != "millpond") {
        return None;
    }
    let mut command = vec![words[at].to_owned()];
    let mut takes_value = false;
    for word in &words[at + 1..] {
        // Words with shell quotes.
        if word.contains(['\'', '"']) {
            return None;
        }
        // A word of the sentence after the command is not an operand.
        let is_operand = word.starts_with(|c: char| c.is_ascii_digit()) || word.contains('/');
        let is_named = word.chars().any(|c| c.is_ascii_uppercase()) && !word.starts_with('-');
        if is_named || !(takes_value || word.starts_with('-') || is_operand) {
            break;
        }
        takes_value = !takes_value && takes_a_value(spec, word);
        command.push((*word).to_owned());
    }
    if takes_value {
        // The option has a placeholder as value.
        command.pop();
    }
    (command.len() > 1).then_some(command)
}

fn takes_a_value(spec: &Spec, word: &str) -> bool {
    let last = || word.strip_prefix('-').and_then(|letters| letters.chars().next_back()).map(String::from);
    let name = word.strip_prefix("--").map(str::to_owned).or_else(last);
    name.is_some_and(|name| {
        spec.flags.iter().any(|flag| flag.is(&name) && (flag.value.is_some() || flag.is("off")))
    })
}

/// The result of a trial of a command on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The machine accepts the command, or the command is incomplete and cannot be tried.
    Accepted,
    /// The machine refuses it. Contains the reason and the remedy.
    Refused(String, Option<String>),
}

/// Tries a command of [`commands`] on a machine, without changing it.
#[must_use]
pub fn tried(session: &Session, words: &[String], table: &'static [Command]) -> Tried {
    // A recorded or captured machine cannot be changed at all.
    let is_there = matches!(session.kind(), Kind::Real | Kind::Simulated);
    let Some(command) = words.first().and_then(|name| Command::named(name, table)) else {
        return Tried::Accepted;
    };
    let starts = |letter: &str| words.iter().skip(1).any(|word| word == letter);
    if !is_there || starts("-e") && ["psrset", "priocntl"].contains(&command.spec.name) {
        return Tried::Accepted;
    }
    let rest: Vec<OsString> =
        std::iter::once("--dry-run".into()).chain(words[1..].iter().map(Into::into)).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut ctx = Ctx::new(Output::to(&mut out), Output::to(&mut err)).with_session(session).trying();
    ctx.use_commands(table);
    ctx.prog = command.spec.prog();
    let exit = crate::command::dispatch(command, &rest, &mut ctx);
    drop(ctx);
    let err = String::from_utf8_lossy(&err).into_owned();
    let lines = || err.lines().filter(|line| !line.is_empty());
    let why = lines().find(|line| !line.starts_with("hint: ")).unwrap_or_default();
    let is_usage = exit == Exit::USAGE
        || command.spec.misused != Misused::Ours && lines().any(|line| line.starts_with("usage:"));
    if exit == Exit::DONE || is_usage || why.contains(&Reason::NotPermitted.to_string()) {
        return Tried::Accepted;
    }
    // The position in the tried command does not exist in the user's command line.
    let place = |hint: &str| hint.strip_prefix("-c:1:1: ").unwrap_or(hint).to_owned();
    let hint = lines().find_map(|line| line.strip_prefix("hint: ")).map(place);
    Tried::Refused(why.strip_prefix(&format!("{}: ", command.spec.prog())).unwrap_or(why).to_owned(), hint)
}

/// A remedy that this machine accepts: the text itself, or, if a command in it is refused, the remedy for that
/// refusal, if any.
#[must_use]
pub fn accepted(session: &Session, text: &str, table: &'static [Command]) -> Option<String> {
    for command in commands(text, table) {
        if let Tried::Refused(_, instead) = tried(session, &command, table) {
            let instead = instead?;
            let works = |command: &Vec<String>| tried(session, command, table) == Tried::Accepted;
            return commands(&instead, table).iter().all(works).then_some(instead);
        }
    }
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::{MachineName, OpenOptions};

    fn found(text: &str) -> Vec<String> {
        commands(text, crate::COMMANDS).iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn commands_are_found_in_sentences() {
        for (text, expected) in [
            ("remove them first: psrset -d 1 2", vec!["psrset -d 1 2"]),
            ("unbind them first: pbind -u 204 31; or add -F", vec!["pbind -u 204 31"]),
            ("take it down first: millpond fence --off trading", vec!["fence --off trading"]),
            ("psrset -d 1 (and make it again without --keep-others)", vec!["psrset -d 1"]),
            ("poolbind makes a pool, and poolbind -i zoneid 0 puts it there", vec!["poolbind -i zoneid 0"]),
            ("poolbind -p web PID brings one there", vec!["poolbind -p web"]),
            ("put up a fence by --name", vec![]),
            ("prstat lists the busiest", vec![]),
            ("one word for the shell: poolcfg -dc 'info pool x'", vec![]),
            ("poolcfg -c discover a/b writes what the machine has", vec!["poolcfg -c discover a/b"]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn a_command_that_the_machine_refuses_is_not_advised() {
        let machine = MachineName::Simulated("x4200".into());
        let session = Session::open(&OpenOptions { machine, ..OpenOptions::default() }).unwrap();
        let run = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let mut ctx =
                Ctx::new(Output::to(std::io::sink()), Output::to(std::io::sink())).with_session(&session);
            assert_eq!(crate::run(&words, &mut ctx), Exit::DONE, "{line}");
        };
        run("millpond fence --name trading 2-3");
        let hint = |text: &str| accepted(&session, text, crate::COMMANDS);
        assert_eq!(
            hint("remove them first: psrset -d 1").as_deref(),
            Some("take it down first: millpond fence --off trading")
        );
        let same = "psradm -i 1 (moves cards)";
        assert_eq!(hint(same).as_deref(), Some(same));
        assert_eq!(hint("bring it on-line first: psradm -n 99"), None, "there is no such CPU");
        assert_eq!(hint("remove it: psrset -d").as_deref(), Some("remove it: psrset -d"), "it is not whole");
        run("millpond fence --off trading");
        assert_eq!(
            hint("remove them first: psrset -d 1"),
            Some("psrset -i lists the sets that exist".into())
        );
    }
}
