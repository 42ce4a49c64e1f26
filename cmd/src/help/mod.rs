//! Lists the commands, or shows the manual of one of them.
//!
//! ```text
//! $ millpond help
//! $ millpond help psrset        the same as: psrset --help
//! ```
//!
//! # Environment
//!
//! ```text
//! MILLPOND_STATE   the directory of our records of the machine, with the journal of changes. Without it, the
//!                  system's for the superuser, and a directory of their own for everybody else
//! TZ               the time zone in which times are shown
//! ```
//!
//! # Status
//!
//! Of every command: 0 when it was done, 1 when something was refused (what could be done was done), 2 when
//! what was typed makes no sense (nothing was done). The manual of a command says where it differs.

mod forms;

use crate::args::{COMMON, Parsed};
use crate::command::{COMMANDS, Command};
use crate::ctx::{Ctx, Service};
use crate::failure::{Complaint, Exit, Failure};
use std::ffi::OsString;

pub(crate) const COMMAND: Command = Command {
    name: "help",
    applet: false,
    summary: "list the commands, or show the manual of one",
    usage: &["[command]"],
    letters: "",
    longs: &[],
    source: include_str!("mod.rs"),
    run,
};

/// What the common options do, in the order of [`COMMON`].
const COMMON_SUMMARIES: [(&str, &str); COMMON.len()] = [
    ("--machine NAME", "the machine: real (as without), a simulated one, like-host, or a machine file"),
    ("--state FILE", "the simulated machine that the file keeps; made by the first change"),
    ("--root DIR", "a captured machine: the directory that millpond capture made"),
    ("--json", "answer in JSON"),
    ("--dry-run", "show the steps that would be taken, one a line, and take none"),
    ("--help", "this manual"),
    ("--version", "the version"),
];

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = parsed.words();
    match words.as_slice() {
        [] => ctx.out.text(&overview(ctx.services())),
        [name] => match (Command::named(name), ctx.services().iter().find(|s| s.name == name)) {
            (Some(command), _) => ctx.out.text(&manual(command)),
            (None, Some(service)) => ctx.out.text(&manual_of_service(service)),
            (None, None) => {
                let complaint =
                    Complaint::new(format!("show the manual of {name}"), "there is no such command");
                return Err(complaint.hint("millpond help lists them").into());
            }
        },
        _ => return Err(Failure::Usage("one command at a time".into())),
    }
    Ok(Exit::DONE)
}

fn overview(services: &[Service]) -> String {
    let commands = COMMANDS.iter().map(|c| (c.name, c.summary));
    let all: Vec<(&str, &str)> = commands.chain(services.iter().map(|s| (s.name, s.summary))).collect();
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::from("usage: millpond command [options] [operands]\n\n");
    for (name, summary) in all {
        text += &format!("  {name:width$}  {summary}\n");
    }
    let applets = COMMANDS.iter().filter(|c| c.applet).map(|c| c.name);
    let applets: Vec<&str> = applets.chain(services.iter().map(|s| s.name)).collect();
    let applets = applets.join(", ");
    text + &format!(
        "\nCan also be called by their own names: {applets}.\nmillpond help COMMAND shows a manual.\n"
    )
}

/// The forms of a command, as they are shown when what was typed makes no sense.
#[must_use]
pub fn usage(command: &Command) -> String {
    forms(&command.prog(), command.usage)
}

/// How a command is called, in the forms that are about these words; `None` where no form is, and there are many.
#[must_use]
pub fn usage_for(command: &Command, words: &[OsString]) -> Option<String> {
    let fitting = forms::fitting(command, words);
    (!fitting.is_empty()).then(|| forms(&command.prog(), &fitting))
}

fn forms(prog: &str, forms: &[&str]) -> String {
    let mut text = String::new();
    for (i, form) in forms.iter().enumerate() {
        let head = if i == 0 { "usage:" } else { "      " };
        text += format!("{head} {prog} {form}").trim_end();
        text.push('\n');
    }
    text
}

/// The same as Solaris prints it.
#[must_use]
pub fn usage_of_solaris(command: &Command) -> String {
    let prog = command.prog();
    let forms: Vec<String> =
        command.usage.iter().map(|form| format!("\t{prog} {form}").trim_end().to_owned() + "\n").collect();
    format!("usage:{}", forms.concat())
}

/// The manual of a command: the head of its module, with its usage in front and the common options behind.
#[must_use]
pub fn manual(command: &Command) -> String {
    let head = format!("{}: {}\n\n{}\n", command.prog(), command.summary, usage(command));
    head + &prose(command.source) + &common_options()
}

/// The manual of a service, which takes no options but its own.
#[must_use]
pub fn manual_of_service(service: &Service) -> String {
    let Service { name, summary, usage, source } = service;
    format!("{name}: {summary}\n\n{}\n", forms(name, usage)) + &prose(source)
}

/// The head of a module, as a manual shows it.
#[must_use]
pub fn prose(source: &str) -> String {
    let mut text = String::new();
    let mut verbatim = false;
    for line in source.lines().map_while(|l| l.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if line.starts_with("```") {
            verbatim = !verbatim;
        } else if verbatim {
            text += format!("    {line}").trim_end();
            text.push('\n');
        } else {
            match line.strip_prefix("# ") {
                Some(heading) => text += &heading.to_uppercase(),
                None => text += &line.replace('`', ""),
            }
            text.push('\n');
        }
    }
    text
}

/// The options of every command, as manuals end.
#[must_use]
pub fn common_options() -> String {
    let mut text = String::from("\nOPTIONS OF EVERY COMMAND\n\n");
    for (option, what) in COMMON_SUMMARIES {
        text += &format!("    {option:<14}  {what}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_manual_that_begins_with_what_it_does() {
        for command in COMMANDS {
            let manual = manual(command);
            let head = format!("{}: {}\n\nusage: {}", command.prog(), command.summary, command.prog());
            assert!(manual.starts_with(&head), "{manual}");
            assert!(manual.lines().count() > 12 + command.usage.len(), "{} says too little", command.name);
            assert!(!manual.contains("```") && !manual.contains("//!"));
        }
    }

    #[test]
    fn every_option_letter_and_long_option_is_in_the_manual() {
        for command in COMMANDS {
            let manual = manual(command);
            for letter in command.letters.chars().filter(|l| !matches!(l, ':' | '-')) {
                // Alone, or in a cluster behind another letter: `-pv` documents `v`.
                let shown = manual
                    .split(|c: char| c.is_whitespace() || "[],.".contains(c))
                    .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter));
                assert!(shown, "{} -{letter} is not in the manual", command.name);
            }
            for long in command.longs {
                let long = format!("--{}", long.trim_end_matches(':'));
                assert!(manual.contains(&long), "{} {long} is not in the manual", command.name);
            }
        }
    }

    #[test]
    fn a_service_is_listed_and_has_a_manual_of_its_own() {
        let service = Service {
            name: "milld",
            summary: "turns the wheel",
            usage: &["[--slowly]", "--help"],
            source: "//! Turns `it`.\n//!\n//! # Status\n//!\n//! 0.\n\nfn turn() {}\n",
        };
        let listed = overview(&[service]);
        assert!(listed.contains("\n  milld       turns the wheel\n"), "{listed}");
        assert!(listed.contains(", milld.\nmillpond help COMMAND shows a manual.\n"), "{listed}");
        assert_eq!(
            manual_of_service(&service),
            "milld: turns the wheel\n\nusage: milld [--slowly]\n       milld --help\n\nTurns it.\n\nSTATUS\n\n0.\n"
        );
    }

    #[test]
    fn the_common_options_are_all_explained() {
        for (option, (shown, _)) in COMMON.iter().zip(COMMON_SUMMARIES) {
            assert!(shown.starts_with(&format!("--{}", option.trim_end_matches(':'))), "{option}");
        }
    }
}
