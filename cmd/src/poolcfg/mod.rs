//! Edits pool configurations: a file, or with `-d` the running machine.
//!
//! ```text
//! $ poolcfg -c 'create pset web ( uint pset.min = 1 ; uint pset.max = 4 )' my.conf
//! $ poolcfg -dc 'transfer 2 from pset pset_default to web'
//! $ poolcfg -dc 'info pset web'
//! ```
//!
//! All commands take effect, or none: an error in any of them leaves the file or machine unchanged. A file is locked
//! from its reading until its replacement. Only `create system`, `discover` and `destroy system` change a file at once.
//!
//! # Commands
//!
//! ```text
//! info                                  show everything
//! info system|pool|pset|cpu NAME        show one element
//! create pool|pset NAME [PROPERTIES]    create a pool with the default set, or an empty set
//! destroy pool|pset NAME                remove it; processes and CPUs return to the default pool and set
//! modify system|pool|pset|cpu NAME PROPERTIES
//! rename system|pool|pset NAME to NAME
//! associate pool NAME ( pset NAME )     give a pool its set
//! transfer to pset NAME ( cpu N ; cpu N … )
//! transfer COUNT from pset NAME to NAME
//! transfer COUNT to pset NAME from NAME
//! create system NAME [PROPERTIES]       write the machine's configuration to the file, under that name
//! discover                              write it under its own name
//! destroy system NAME                   remove the file; with -d, all pools and sets but the default ones
//!
//! PROPERTIES: ( TYPE NAME = VALUE ; ~ TYPE NAME ; … )    ~ removes; TYPE is boolean, int, uint, string or float
//! ```
//!
//! Commands need no separator. `#` begins a comment. Strings are in double quotes. A new set has pset.min and pset.max
//! 0, so raise pset.max before CPUs are transferred.
//!
//! # Properties
//!
//! ```text
//! system.bind-default            boolean  binding to a pool that does not exist uses the default pool
//! system.allocate-method         string   "importance based" (the default) or "surplus to default": see pooladm -c
//! system.poold.objectives        string   "wt-load": CPUs go where they are used
//! system.poold.monitor-interval  uint     milliseconds
//! system.poold.log-level         string   ALERT CRIT ERR WARNING NOTICE INFO DEBUG
//! system.poold.log-location      string   an absolute path, or syslog
//! system.poold.history-file      string   an absolute path
//! pool.importance                int      weight compared with other pools; 1 if not given
//! pool.scheduler                 string   class that processes get when they are bound: TS IA FX RT FSS
//! pset.min, pset.max             uint     least and greatest number of CPUs
//! pset.poold.objectives          string   "locality tight; 3: utilization < 80"
//! cpu.pinned                     boolean  the CPU is never moved automatically
//! cpu.status                     string   wanted state: on-line off-line no-intr spare faulted
//! *.comment                      string   system, pool, pset and cpu; not interpreted
//! ```
//!
//! Names that do not begin with system. pool. pset. or cpu. are free for your own use.
//!
//! # JSON
//!
//! One document for each info, as `pooladm` prints it, with the named elements. Then one with the changes, if any. The
//! schema is docs/reference/json/poolcfg.json.

mod place;

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use crate::pools::{self, Done, Shown};
use millpond_cli::{Example, Flag, Group, MISUSED, Misused, Operands, Parsed, Spec, ValueKind, help};
use millpond_formats::pools::info;
use millpond_formats::pools::script::{self, Located};
use millpond_model::pools::PoolsConf;
use millpond_pools::script::{Script, Surroundings, Told};
use millpond_pools::{Element, Place};
use millpond_session::{input_lines, read_text};
use place::{OfFile, OfMachine};
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Shown<'_>>(), json::of::<Changes<'_, Done<'_>>>(), json::of::<DryRun<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "poolcfg",
        applet: true,
        summary: "edit pools and processor sets, in a file or on the machine",
        section: 8,
        group: Group::Divide,
        forms: &["-c command [-d | filename]", "-f command_file [-d | filename]", "-h"],
        flags: &[
            Flag::letter('c', "execute these commands").value("commands", ValueKind::Text),
            Flag::letter('f', "execute the commands in a file; - is standard input")
                .value("file", ValueKind::File),
            Flag::letter(
                'd',
                "edit the running machine; without it, the file of the operand or /etc/pooladm.conf",
            ),
            Flag::letter('h', "print this manual, with exit status 2"),
        ],
        misused: Misused::Solaris,
        in_shell: true,
        operands: Operands { shown: "[file]", kinds: &[ValueKind::File] },
        examples: &[
            Example {
                words: "-d -c 'create pset web (uint pset.min = 1; uint pset.max = 4)'",
                what: "create a set on the running machine",
            },
            Example { words: "-d -c info", what: "print the running configuration" },
        ],
        status: &[("0", "done"), ("1", "a command was refused; nothing was changed"), MISUSED],
        see_also: &["pooladm(8)", "poolbind(8)", "poolstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The name of the machine's configuration in messages, in place of a file name.
const MACHINE: &str = "the machine";

/// The commands, and the name of their source.
struct Asked {
    source: String,
    commands: Vec<Located<script::Command>>,
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.has('h') {
        ctx.out.flush();
        ctx.err.text(&help::manual(&COMMAND.spec));
        return Ok(Exit::USAGE);
    }
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    let words = parsed.words();
    if let Some(whole) = torn(parsed, &words) {
        let d = if parsed.has('d') { "d" } else { "" };
        return misuse(&format!("the command is one word for the shell: poolcfg -{d}c '{whole}'"));
    }
    let file = match words.as_slice() {
        [] => None,
        [_] if parsed.has('d') => return misuse("-d edits the machine's configuration, and no file"),
        [file] => Some(file.as_str()),
        _ => return misuse("one file at a time"),
    };
    let (source, text) = match (parsed.value('c'), parsed.value('f')) {
        (Some(_), Some(_)) => return misuse("-c and -f exclude each other"),
        (None, None) => return misuse("one of -c and -f is needed"),
        (Some(text), None) => ("-c".to_owned(), text),
        (None, Some(name)) => commands_of(name)?,
    };
    let commands = match script::parse(&text) {
        Ok(commands) => commands,
        Err(error) => {
            match parsed.has('f') {
                true => ctx.warn(error.with_line()),
                false => ctx.warn(&error),
            }
            ctx.warn("command parsing failed, terminating...");
            ctx.hint(&format!("{source}:{}:{}: {}", error.line, error.column, error.hint()));
            return Ok(Exit::REFUSED);
        }
    };
    let asked = Asked { source, commands };
    if parsed.has('d') { on_machine(&asked, parsed, ctx) } else { on_file(&asked, file, parsed, ctx) }
}

/// The whole command, if missing quotation marks let the shell split it. This is so if the value of `-c` is not a
/// valid command, or the words after it cannot be a file, and together they are a valid command.
fn torn(parsed: &Parsed, words: &[String]) -> Option<String> {
    let begin = parsed.value('c').filter(|_| !words.is_empty())?;
    let takes_no_file = parsed.has('d') || words.len() > 1 || script::parse(&begin).is_err();
    let whole = [&[begin], words].concat().join(" ");
    let fits = script::parse(&whole).is_ok() && !whole.contains('\'');
    (takes_no_file && fits).then_some(whole)
}

/// The commands of a file, and the name of the file.
fn commands_of(name: String) -> Result<(String, String), Failure> {
    let text = if name == "-" {
        input_lines().collect::<Result<Vec<String>, String>>().map(|lines| lines.join("\n"))
    } else {
        read_text(Path::new(&name))
    };
    let name = if name == "-" { "stdin".to_owned() } else { name };
    match text {
        Ok(text) => Ok((name, text)),
        Err(why) => Err(Failure::Said(format!("cannot open command file {name}: {why}"), None)),
    }
}

impl Asked {
    /// Whether all commands only show something.
    fn only_shows(&self) -> bool {
        self.commands.iter().all(|command| matches!(command.value, script::Command::Info(_)))
    }

    /// Executes all commands, and prints their output. A failure is reported.
    ///
    /// # Errors
    /// [`Failure::Said`] about the first command that failed.
    fn execute(
        &self,
        script: &mut Script,
        around: &mut dyn Surroundings,
        json: bool,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failure> {
        for command in &self.commands {
            let shown = script.execute(command, around).map_err(|told| self.failure(told))?;
            if let (Some(element), Some(editor)) = (shown, script.editor()) {
                show(&editor.conf, &element, json, ctx);
            }
        }
        for note in script.take_notes() {
            ctx.warn(&note.what);
            ctx.hint(&self.hint(&note));
        }
        Ok(())
    }

    fn failure(&self, told: Told) -> Failure {
        let hint = self.hint(&told);
        Failure::Said(told.what, Some(hint))
    }

    fn hint(&self, told: &Told) -> String {
        let place = format!("{}:{}:{}", self.source, told.line, told.column);
        told.hint.as_ref().map_or_else(|| place.clone(), |hint| format!("{place}: {hint}"))
    }
}

fn show(conf: &PoolsConf, element: &Element, json: bool, ctx: &mut Ctx<'_>) {
    let (text, shown) = match element {
        Element::System(_) => (info::system(conf), Shown::all(conf)),
        Element::Pool(name) => match conf.pool(name) {
            Some(pool) => (info::pool(conf, pool), Shown::pool(conf, pool)),
            None => return,
        },
        Element::Pset(name) => match conf.pset(name) {
            Some(set) => (info::pset(set), Shown::pset(set)),
            None => return,
        },
        Element::Cpu(id) => match conf.cpus().find(|cpu| cpu.id == *id) {
            Some(cpu) => (info::cpu(cpu), Shown::cpu(cpu)),
            None => return,
        },
    };
    if json {
        ctx.json(&shown);
    } else {
        ctx.out.text(&text);
        ctx.out.line("");
    }
}

const SAVING: &str = "cannot save the configuration";
const VALIDATION: &str = "configuration failed strict validation";

fn on_file(asked: &Asked, file: Option<&str>, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let common = &parsed.common;
    let inside = ctx.held(common)?.pools_file(file).is_inside();
    let session = match inside && !asked.only_shows() {
        true => ctx.changing(common),
        false => ctx.held(common),
    }?;
    let file = session.pools_file(file);
    let name = file.name();
    let opening = format!("cannot load configuration from {name}");
    let broken = |error| pools::said(&opening, pools::bad_file(error));
    let understood = |text: Option<&str>| {
        let conf = text.map(|text| pools::parsed(name, text)).transpose();
        conf.map_err(|why| pools::said(&opening, why))
    };
    if asked.only_shows() {
        let text = file.read().map_err(broken)?;
        let conf = understood(text.as_deref())?;
        let mut script = Script::new(conf, Place::File, name);
        asked.execute(&mut script, &mut OfMachine(session.machine()), common.json, ctx)?;
        return Ok(Exit::DONE);
    }
    let locked = file.lock(&mut pools::waiting(name, ctx)).map_err(broken)?;
    let before = locked.text().map(str::to_owned);
    // A file that is replaced or removed as a whole may be invalid.
    let conf = match asked.commands[0].value {
        script::Command::Discover => None,
        _ => understood(before.as_deref())?,
    };
    let mut script = Script::new(conf, Place::File, name);
    let mut around = OfFile::new(session.machine(), locked, common.dry_run);
    asked.execute(&mut script, &mut around, common.json, ctx)?;
    let mut changer = Changer::of_files(common);
    let edited = script.editor().filter(|_| script.is_edited()).map(|editor| &editor.conf);
    if let Some(conf) = edited {
        let text = pools::printed(conf).map_err(|why| pools::said(VALIDATION, why))?;
        if !common.dry_run {
            around.locked.write(&text).map_err(|error| pools::said(SAVING, pools::bad_file(error)))?;
        }
    }
    if edited.is_some() || around.acted {
        let after = script.editor().map(|editor| &editor.conf);
        let step = || pools::file_step(name, before.as_deref(), after);
        let (what, done) = match after {
            Some(_) => (format!("write {name}"), Done::Saved(name)),
            None => (format!("remove {name}"), Done::Removed(name)),
        };
        if !changer.shows(ctx, what, step) {
            changer.report(ctx, None, done);
        }
    }
    Ok(changer.finish(ctx))
}

fn on_machine(asked: &Asked, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let common = &parsed.common;
    let opening = format!("cannot load configuration from {MACHINE}");
    if asked.only_shows() {
        let session = ctx.reading(common)?;
        let machine = session.machine();
        let state =
            millpond_pools::dynamic::read_loaded(machine).map_err(|error| pools::said(&opening, error))?;
        let mut script = Script::new(Some(state.conf), Place::Machine, MACHINE);
        asked.execute(&mut script, &mut OfMachine(machine), common.json, ctx)?;
        return Ok(Exit::DONE);
    }
    let session = ctx.changing(common)?;
    let machine = session.machine();
    let mut changer = Changer::open(machine, common, ctx)?;
    let mut state = millpond_pools::dynamic::read(machine).map_err(|error| pools::said(&opening, error))?;
    let mut script = Script::new(Some(state.conf.clone()), Place::Machine, MACHINE);
    asked.execute(&mut script, &mut OfMachine(machine), common.json, ctx)?;
    if let Some(editor) = script.editor().filter(|_| script.is_edited()) {
        state.conf = editor.conf.clone();
        let ids: Vec<_> = state.conf.pools.iter().filter_map(|pool| pool.id).collect();
        state.zones.retain(|_, pool| ids.contains(pool));
        pools::check(&state.conf).map_err(|why| pools::said(VALIDATION, why))?;
        let change = millpond_pools::dynamic::prepare(machine, Some(state));
        let change = change.map_err(|error| pools::said(SAVING, error))?;
        let made = changer.make(ctx, change);
        let made = made.map_err(|refusal| pools::said(SAVING, millpond_pools::dynamic::refused(refusal)))?;
        if made.is_some() {
            changer.report(ctx, None, Done::Committed(MACHINE));
        }
    }
    Ok(changer.finish(ctx))
}
