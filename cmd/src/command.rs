//! A command: how it is found and run, and how its failure is reported.

use crate::ctx::Ctx;
use crate::elsewhere::instead_of;
use crate::failure::{Exit, Failure};
use millpond_cli::{COMMON, Flag, Misused, Parsed, Spec, help, nearest};
use millpond_session::reason;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

/// One command.
#[derive(Clone, Copy)]
pub struct Command {
    /// The description.
    pub spec: Spec,
    /// The function that runs the command.
    pub run: fn(&Parsed, &mut Ctx<'_>) -> Result<Exit, Failure>,
}

impl Command {
    /// The command with this name.
    #[must_use]
    pub fn named(name: &str, commands: &'static [Command]) -> Option<&'static Command> {
        commands.iter().find(|command| command.spec.name == name)
    }
}

/// Runs the command that the words name. The first word is the path of the program: its file name selects an applet.
/// With any other file name, the next word selects the command.
pub fn run(words: &[OsString], ctx: &mut Ctx<'_>) -> Exit {
    let exit = match find(words, ctx) {
        Ok((command, rest)) => {
            ctx.prog = command.spec.prog();
            dispatch(command, &rest, ctx)
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

/// A command, and the words behind its name.
type Found<'w> = (&'static Command, Cow<'w, [OsString]>);

fn find<'w>(words: &'w [OsString], ctx: &Ctx<'_>) -> Result<Found<'w>, Otherwise> {
    let commands = ctx.commands();
    let called = words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let applet = Command::named(&called.to_string_lossy(), commands).filter(|command| command.spec.applet);
    if let Some(applet) = applet {
        return Ok((applet, words[1..].into()));
    }
    let Some(word) = words.get(1) else { return Err(Box::new(|ctx| unknown(None, ctx))) };
    let word = match word.to_string_lossy().into_owned().as_str() {
        "--version" => return Err(Box::new(|ctx| version("millpond", ctx))),
        "--help" | "-h" => "help".to_owned(),
        word => word.to_owned(),
    };
    match Command::named(&word, commands) {
        Some(command) => Ok((command, words[2..].into())),
        None if word.starts_with('-') => behind_options(&words[1..], commands),
        None => Err(Box::new(move |ctx| unknown(Some(&word), ctx))),
    }
}

/// The command behind options that every command takes: these are moved behind its name. Any other option there is answered with the right
/// order.
fn behind_options<'w>(words: &'w [OsString], commands: &'static [Command]) -> Result<Found<'w>, Otherwise> {
    let named = |word: &OsString| Command::named(&word.to_string_lossy(), commands);
    let mut at = 0;
    while let Some(option) = words.get(at).filter(|word| word.to_string_lossy().starts_with('-')) {
        let option = option.to_string_lossy().into_owned();
        let (name, value) =
            option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
        let known = |flag: &&Flag| name.strip_prefix("--").is_some_and(|name| flag.is(name));
        let Some(flag) = COMMON.iter().find(known) else {
            let command = words.iter().find_map(named).map_or("COMMAND", |command| command.spec.name);
            return Err(Box::new(move |ctx| {
                ctx.prog = "millpond".into();
                ctx.warn(format_args!("there is no command before the option {option}"));
                ctx.hint(&format!("the command comes first: millpond {command} {option}"));
                Exit::USAGE
            }));
        };
        at += if flag.value.is_some() && value.is_none() { 2 } else { 1 };
    }
    let Some(word) = words.get(at) else { return Err(Box::new(|ctx| unknown(None, ctx))) };
    match named(word) {
        Some(command) => Ok((command, [&words[..at], &words[at + 1..]].concat().into())),
        None => {
            let word = word.to_string_lossy().into_owned();
            Err(Box::new(move |ctx| unknown(Some(&word), ctx)))
        }
    }
}

/// Reports an unknown command, or a missing one.
fn unknown(word: Option<&str>, ctx: &mut Ctx<'_>) -> Exit {
    ctx.prog = "millpond".into();
    let Some(word) = word else {
        ctx.warn("which command?");
        ctx.hint("millpond help lists them");
        return Exit::USAGE;
    };
    ctx.warn(format_args!("there is no command `{word}`"));
    if let Some(instead) = instead_of(word) {
        ctx.hint(instead);
        return Exit::USAGE;
    }
    match nearest(word, ctx.specs().map(|spec| spec.name)) {
        Some(name) => ctx.hint(&format!("did you mean {name}? millpond help lists all commands")),
        None => ctx.hint("millpond help lists them"),
    }
    Exit::USAGE
}

/// Runs a command with the words after its name.
pub(crate) fn dispatch(command: &'static Command, words: &[OsString], ctx: &mut Ctx<'_>) -> Exit {
    let spec = &command.spec;
    let result = millpond_cli::parse(spec, words).map_err(Failure::from).and_then(|parsed| {
        if parsed.common.help {
            ctx.out.text(&help::short(spec));
            Ok(Exit::DONE)
        } else if parsed.common.version {
            Ok(version(&spec.prog(), ctx))
        } else {
            (command.run)(&parsed, ctx)
        }
    });
    let exit = result.unwrap_or_else(|failure| {
        tell(&failure, spec, words, ctx);
        match spec.misused {
            Misused::SolarisRefusal => failure.exit().min(Exit::REFUSED),
            Misused::Ours | Misused::Solaris => failure.exit(),
        }
    });
    if ctx.keep() { exit } else { exit.and(Exit::REFUSED) }
}

/// Reports the failure of a command. For an invalid command line it shows the usage of the matching form.
pub(crate) fn tell(failure: &Failure, spec: &Spec, words: &[OsString], ctx: &mut Ctx<'_>) {
    match failure {
        Failure::Usage(why) | Failure::Mistyped(why, _) if spec.misused != Misused::Ours => {
            ctx.out.flush();
            missing_argument(spec, why).into_iter().for_each(|line| ctx.err.line(line));
            ctx.err.text(&help::usage_of_solaris(spec));
            ctx.hint(why);
        }
        Failure::Misuse(text, hint) => {
            ctx.out.flush();
            ctx.err.line(text);
            ctx.err.text(&help::usage_of_solaris(spec));
            ctx.hint(hint);
        }
        Failure::Said(text, hint) => {
            ctx.warn(text);
            hint.iter().for_each(|hint| ctx.hint(hint));
        }
        Failure::Mistyped(why, meant) => {
            ctx.warn(why);
            ctx.hint(&format!("did you mean {meant}?"));
        }
        Failure::Usage(why) => {
            ctx.warn(why);
            match help::for_words(spec, words) {
                Some(usage) => ctx.err.text(&usage),
                None => ctx.hint(&format!("{} --help", spec.prog())),
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

/// The message of `poolstat` about an option without its value.
fn missing_argument(spec: &Spec, why: &str) -> Option<String> {
    let letter = why.strip_prefix("option -")?.strip_suffix(" needs a value")?;
    let says = spec.name == "poolstat" && letter.chars().count() == 1;
    says.then(|| format!("Option -{letter} requires an argument"))
}

fn version(prog: &str, ctx: &mut Ctx<'_>) -> Exit {
    ctx.out.line(format_args!("{prog} {}", env!("CARGO_PKG_VERSION")));
    Exit::DONE
}
