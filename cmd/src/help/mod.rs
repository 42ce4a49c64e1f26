//! Lists the commands, shows the manual of one of them, or explains a term.
//!
//! # Environment
//!
//! ```text
//! MILLPOND_STATE       the directory of the journal and other records. The default for root is one of the system, for
//!                      other users one of their own
//! MILLPOND_RECORDINGS  the directory of recordings. The default for root is /var/lib/millpond/recordings, for other
//!                      users millpond/recordings in XDG_STATE_HOME
//! TZ                   the time zone in which times are shown
//! ```

mod terms;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::elsewhere::instead_of;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::Describe;
use millpond_cli::complete::Shell;
use millpond_cli::{Example, Flag, Group, Operands, Parsed, Spec, ValueKind, help, man, markdown, nearest};

/// It prints no JSON.
pub(crate) const DOCUMENTS: &[Describe] = &[];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "help",
        summary: "list the commands, show the manual of one, or explain a term",
        group: Group::Other,
        forms: &[
            "",
            "[--man | --markdown] command",
            "term",
            "--completions bash|zsh|fish [name ...]",
            "--names",
        ],
        flags: &[
            Flag::long("man", "print the manual page, for man").conflicts(&["markdown"]),
            Flag::long("markdown", "print the manual as Markdown"),
            Flag::long("completions", "print the completion script for a shell")
                .value("shell", ValueKind::Word(&["bash", "zsh", "fish"]))
                .operands("[name ...]", &[ValueKind::Name]),
            Flag::long(
                "names",
                "list each command and service with its manual page, section, and whether it has a program of its own",
            ),
        ],
        operands: Operands { shown: "command", kinds: &[ValueKind::Name] },
        permutes: true,
        examples: &[
            Example { words: "psrset", what: "show the manual of psrset" },
            Example { words: "strand", what: "explain a term" },
            Example { words: "", what: "list the commands" },
        ],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// Shown first, in this order. Each is listed with its question again.
const FIRST: [&str; 8] = ["fence", "top", "gauge", "record", "quiet", "diagnose", "doctor", "sim"];

/// The name of the program.
const PROGRAM: &str = "millpond";

/// The date in the manual pages.
const PAGES_DATE: &str = "2026-11-26";

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = parsed.words();
    if let Some(shell) = parsed.long_value("completions") {
        let known = Shell::ALL.iter().find(|(name, _)| *name == shell);
        let unknown = || {
            Failure::Operand(format!("there are no completions for `{shell}`: known are bash, zsh and fish"))
        };
        let (_, shell) = known.ok_or_else(unknown)?;
        let all =
            || std::iter::once(PROGRAM).chain(ctx.specs().filter(|spec| spec.applet).map(|spec| spec.name));
        let names: Vec<&str> =
            if words.is_empty() { all().collect() } else { words.iter().map(String::as_str).collect() };
        if let Some(unknown) = names.iter().find(|name| !all().any(|known| known == **name)) {
            return Err(Failure::Operand(format!("nothing is called by the name `{unknown}` alone")));
        }
        ctx.out.text(&shell.script(&names));
        return Ok(Exit::DONE);
    }
    if parsed.long("names") {
        let lines = ctx.specs().map(|s| {
            format!("{} {} {} {}\n", s.name, s.page(), s.section, if s.applet { "applet" } else { "command" })
        });
        ctx.out.text(&lines.collect::<String>());
        return Ok(Exit::DONE);
    }
    match words.as_slice() {
        [] if parsed.long("man") => {
            ctx.out.text(&man::page(&millpond(), env!("CARGO_PKG_VERSION"), PAGES_DATE))
        }
        [] => ctx.out.text(&overview(ctx)),
        words => {
            let name = words.join(" ");
            let text = match (ctx.specs().find(|spec| spec.name == name), terms::named(&name)) {
                (Some(spec), _) => match (parsed.long("man"), parsed.long("markdown")) {
                    (true, _) => man::page(spec, env!("CARGO_PKG_VERSION"), PAGES_DATE),
                    (_, true) => markdown::page(spec),
                    _ => help::manual(spec),
                },
                (None, Some(term)) => term.text(),
                (None, None) if words.len() == 1 => return Err(unknown(&name, ctx)),
                (None, None) => return Err(Failure::Usage("one command at a time".into())),
            };
            ctx.out.text(&text);
        }
    }
    Ok(Exit::DONE)
}

fn unknown(name: &str, ctx: &Ctx<'_>) -> Failure {
    let complaint = Complaint::new(format!("explain {name}"), "it is no command and no known term");
    if let Some(instead) = instead_of(name) {
        return complaint.hint(instead).into();
    }
    let terms = terms::TERMS.iter().flat_map(|term| term.names.iter().copied());
    match nearest(name, ctx.specs().map(|spec| spec.name).chain(terms)) {
        Some(meant) => complaint.hint(format!("did you mean {meant}?")),
        None => complaint.hint("millpond help lists them"),
    }
    .into()
}

/// What `millpond help` shows: commands to begin with, then all by the question that they answer.
fn overview(ctx: &Ctx<'_>) -> String {
    let first = FIRST.iter().filter_map(|name| ctx.specs().find(|spec| spec.name == *name));
    let mut text = String::from("usage: millpond command [options] [operands]\n\nBegin with these\n");
    text += &help::list(first.map(|spec| (spec.name, spec.summary)));
    for group in Group::ALL {
        let all = ctx.specs().filter(|spec| spec.group == group);
        text += &format!("\n{}\n{}", group.title(), help::list(all.map(|spec| (spec.name, spec.summary))));
    }
    let applets: Vec<&str> = ctx.specs().filter(|spec| spec.applet).map(|spec| spec.name).collect();
    text += &format!("\nCan also be called by their own names\n{}", help::paragraph(&applets.join(", ")));
    text + "\nmillpond help COMMAND shows a manual, COMMAND --help its options, millpond help WORD a term: strand, pool, PRESS.\n"
}

/// The description of the program itself.
fn millpond() -> Spec {
    Spec {
        name: "millpond",
        applet: true,
        summary: "processor sets, resource pools, CPU observability and real-time tools",
        forms: &["command [options] [operands]", "help [command]"],
        examples: &[
            Example { words: "help", what: "list the commands" },
            Example { words: "help psrset", what: "show the manual of psrset" },
        ],
        see_also: &["psrset(8)", "poolcfg(8)", "mpstat(1)", "millpond-quiet(1)", "millpond-help(1)"],
        prose: PROSE,
        ..Spec::NEW
    }
}

/// The text of the program's manual page.
const PROSE: &str = "\
//! Millpond gives a job CPUs of its own, keeps interrupts away from them, and measures that they are quiet. Each command
//! has a manual page: `psrset(8)` for those that can be called by their own names, `millpond-quiet(1)` for the others.
//! Commands change this machine or a simulated machine (`--machine`), or show a captured one (`--root`).
//! Every change is written to a journal first: a command that is refused or killed half-way leaves nothing behind.
";
