//! The table of commands, and how one of them is found and run.

use crate::args::{self, Parsed};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::{
    capture, compare, cpustat, cputrack, demo, diagnose, dispadmin, doctor, experiment, help, intrstat,
    latstat, lgrpinfo, load, mpstat, occupancy, pbind, pginfo, pgstat, plgrp, pooladm, poolbind, poolcfg,
    poolstat, posix, prctl, priocntl, prstat, psradm, psrinfo, psrset, quiet, replay, sim, umem, zonecfg,
    zones,
};
use millpond_session::reason;
use std::ffi::OsString;
use std::path::Path;

/// One command.
pub struct Command {
    /// What it is called.
    pub name: &'static str,
    /// Whether it can be called by that name alone.
    pub applet: bool,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its forms, without the name in front.
    pub usage: &'static [&'static str],
    /// Its option letters, as a `getopt` string.
    pub letters: &'static str,
    /// Its long options beside the common ones, with a colon behind those that take a value.
    pub longs: &'static [&'static str],
    /// The source of its module, whose head is its manual.
    pub source: &'static str,
    /// Does it.
    pub run: fn(&Parsed, &mut Ctx<'_>) -> Result<Exit, Failure>,
}

/// Every command, in the order in which help shows them.
pub const COMMANDS: &[Command] = &[
    psrinfo::COMMAND,
    psradm::COMMAND,
    psrset::COMMAND,
    pbind::COMMAND,
    dispadmin::COMMAND,
    priocntl::COMMAND,
    prctl::COMMAND,
    pooladm::COMMAND,
    poolcfg::COMMAND,
    poolbind::COMMAND,
    poolstat::COMMAND,
    replay::COMMAND,
    zonecfg::COMMAND,
    zones::COMMAND,
    lgrpinfo::COMMAND,
    plgrp::COMMAND,
    pginfo::COMMAND,
    pgstat::COMMAND,
    mpstat::COMMAND,
    cpustat::COMMAND,
    cputrack::COMMAND,
    compare::COMMAND,
    prstat::COMMAND,
    diagnose::COMMAND,
    umem::COMMAND,
    occupancy::COMMAND,
    latstat::COMMAND,
    intrstat::COMMAND,
    quiet::COMMAND,
    doctor::COMMAND,
    posix::COMMAND,
    sim::COMMAND,
    capture::COMMAND,
    load::COMMAND,
    demo::COMMAND,
    experiment::COMMAND,
    help::COMMAND,
];

impl Command {
    /// The command of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Command> {
        COMMANDS.iter().find(|c| c.name == name)
    }

    /// Whether misuse has the text of Solaris: those of its commands whose messages are kept.
    fn keeps_its_messages(&self) -> bool {
        let pools = matches!(self.name, "pooladm" | "poolcfg" | "poolbind" | "poolstat");
        pools || self.misuse_is_refusal()
    }

    /// Whether misuse has the status of a refusal, as on Solaris.
    fn misuse_is_refusal(&self) -> bool {
        matches!(self.name, "dispadmin" | "priocntl")
    }

    /// What stands before its messages.
    #[must_use]
    pub fn prog(&self) -> String {
        if self.applet { self.name.to_owned() } else { format!("millpond {}", self.name) }
    }
}

/// Runs the command that the words ask for. The first word is the path by which the program was called: its
/// name picks an applet; under any other name the next word picks the command.
pub fn run(words: &[OsString], ctx: &mut Ctx<'_>) -> Exit {
    let exit = match find(words) {
        Ok((command, rest)) => {
            ctx.prog = command.prog();
            dispatch(command, rest, ctx)
        }
        Err(exit) => exit(ctx),
    };
    let exit = match ctx.out.finish() {
        Ok(()) => exit,
        Err(error) => {
            ctx.warn(format_args!("cannot write output: {}", reason(&error)));
            exit.and(Exit::REFUSED)
        }
    };
    ctx.err.flush();
    exit
}

type Otherwise = Box<dyn FnOnce(&mut Ctx<'_>) -> Exit>;

fn find(words: &[OsString]) -> Result<(&'static Command, &[OsString]), Otherwise> {
    let called = words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    if let Some(applet) = Command::named(&called.to_string_lossy()).filter(|c| c.applet) {
        return Ok((applet, &words[1..]));
    }
    let Some(word) = words.get(1) else {
        return Err(Box::new(|ctx| {
            ctx.prog = "millpond".into();
            ctx.warn("which command?");
            ctx.hint("millpond help lists them");
            Exit::USAGE
        }));
    };
    let word = match word.to_string_lossy().into_owned().as_str() {
        "--version" => return Err(Box::new(|ctx| version("millpond", ctx))),
        "--help" => "help".to_owned(),
        word => word.to_owned(),
    };
    match Command::named(&word) {
        Some(command) => Ok((command, &words[2..])),
        None => Err(Box::new(move |ctx| {
            ctx.prog = "millpond".into();
            ctx.warn(format_args!("there is no command `{word}`"));
            ctx.hint("millpond help lists them");
            Exit::USAGE
        })),
    }
}

/// Runs a command with the words behind its name.
pub(crate) fn dispatch(command: &'static Command, words: &[OsString], ctx: &mut Ctx<'_>) -> Exit {
    let result = args::parse(command.letters, command.longs, words).and_then(|parsed| {
        if parsed.common.help {
            ctx.out.text(&help::manual(command));
            Ok(Exit::DONE)
        } else if parsed.common.version {
            Ok(version(&command.prog(), ctx))
        } else {
            (command.run)(&parsed, ctx)
        }
    });
    let exit = result.unwrap_or_else(|failure| {
        tell(&failure, command, words, ctx);
        if command.misuse_is_refusal() { failure.exit().min(Exit::REFUSED) } else { failure.exit() }
    });
    if ctx.keep() { exit } else { exit.and(Exit::REFUSED) }
}

/// Tells what ended a command before its time. A mistake in the words behind its name shows the usage of the form that they are about.
pub(crate) fn tell(failure: &Failure, command: &Command, words: &[OsString], ctx: &mut Ctx<'_>) {
    match failure {
        Failure::Usage(why) if command.keeps_its_messages() => {
            ctx.out.flush();
            missing_argument(command, why).into_iter().for_each(|line| ctx.err.line(line));
            ctx.err.text(&help::usage_of_solaris(command));
            ctx.hint(why);
        }
        Failure::Misuse(text, hint) => {
            ctx.out.flush();
            ctx.err.line(text);
            ctx.err.text(&help::usage_of_solaris(command));
            ctx.hint(hint);
        }
        Failure::Said(text, hint) => {
            ctx.warn(text);
            hint.iter().for_each(|hint| ctx.hint(hint));
        }
        Failure::Usage(why) => {
            ctx.warn(why);
            match help::usage_for(command, words) {
                Some(usage) => ctx.err.text(&usage),
                None => ctx.hint(&format!("{} --help", command.prog())),
            }
        }
        Failure::Operand(why) => ctx.warn(why),
        Failure::Mistake(text, hint) => {
            ctx.warn(text);
            ctx.hint(hint);
        }
        Failure::Refused(complaint) => ctx.complain(complaint),
    }
}

/// What `poolstat` says of an option that lacks its value.
fn missing_argument(command: &Command, why: &str) -> Option<String> {
    let letter = why.strip_prefix("option -")?.strip_suffix(" needs a value")?;
    let says = command.name == "poolstat" && letter.chars().count() == 1;
    says.then(|| format!("Option -{letter} requires an argument"))
}

fn version(prog: &str, ctx: &mut Ctx<'_>) -> Exit {
    ctx.out.line(format_args!("{prog} {}", env!("CARGO_PKG_VERSION")));
    Exit::DONE
}
