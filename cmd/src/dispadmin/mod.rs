//! Lists the scheduling classes, shows and replaces their dispatch tables, and sets the default class.
//!
//! ```text
//! $ dispadmin -c RT -g >rt.txt
//! $ dispadmin -c RT -s rt.txt
//! $ head -6 rt.txt
//! # Real Time Dispatcher Configuration
//! RES=1000
//!
//! # TIME QUANTUM                    PRIORITY
//! # (rt_quantum)                      LEVEL
//!       1000                    #        0
//! ```
//!
//! A dispatch table has the time slice of each priority level of a class. In TS and IA it also has the next level:
//! after the end of a slice, after sleep, and after a long wait. TS and IA share a table. SYS has none.
//!
//! Slices are kept in clock ticks, and shown and read in units of 1/RES second. Both conversions round up: at 100 ticks
//! a second, 7 ms become one tick, which is shown as 10 ms. A table that `-s` sets lasts until the next boot.
//!
//! # Linux
//!
//! The kernel has no such tables. While `millpond schedd` runs, TS, IA and FX use them, and `-s` changes the running
//! machine at once. Slices are at least one kernel tick long. For each level `--stats` shows CPU time, the number of runs,
//! the wait before them, and the number of slices used up.
//!
//! Without schedd the tables of a Solaris machine are shown, and standard error says `# not live`. They cannot be
//! replaced.
//!
//! # JSON
//!
//! Slices are in ticks, independent of -r. The schema is docs/reference/json/dispadmin.json.

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet, read};
use crate::json::{self, Describe};
use millpond_cli::{Common, Example, Flag, Group, Misused, Parsed, Spec, ValueKind};
use millpond_formats::dispadmin::{RES_DEFAULT, described, listing, parse_table, print_table};
use millpond_machine::Dispatcher;
use millpond_machine::facets::LevelCounts;
use millpond_model::{
    CLASSES, Class, ClassTable, DispatchTables, FssQuantum, QuantumTable, TsTable, printable,
};
use millpond_session::read_text;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[
    json::of::<Classes>(),
    json::of::<Table>(),
    json::of::<DefaultClass>(),
    json::of::<Stats>(),
    json::of::<Changes<'_, Done>>(),
    json::of::<DryRun<'_>>(),
];

/// `-l`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Classes {
    pub(crate) classes: Vec<Class>,
    /// How this machine implements them; absent from `priocntl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) made_by: Option<String>,
}

/// `-g`.
#[derive(Serialize, JsonSchema)]
struct Table {
    class: Class,
    /// Whether the machine has the table; otherwise it is a Solaris machine's.
    live: bool,
    rows: Option<Rows>,
    ticks_per_second: u32,
}

/// By level, from 0; FSS has a single slice, in ticks.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Rows {
    Ts(TsTable),
    Slices(QuantumTable),
    Fss([FssQuantum; 1]),
}

/// `-d`.
#[derive(Serialize, JsonSchema)]
struct DefaultClass {
    /// Null if none was set.
    default: Option<Class>,
}

/// `--stats`: since the scheduler was started.
#[derive(Serialize, JsonSchema)]
struct Stats {
    /// Levels with activity, the highest first.
    levels: Vec<Level>,
    /// Sums over CPUs, by name.
    sums: std::collections::BTreeMap<&'static str, u64>,
}

#[derive(Serialize, JsonSchema)]
struct Level {
    /// 0 to 99; -1 for threads that run only on otherwise idle CPUs (SCHED_IDLE).
    level: i8,
    /// CPU time. The last run before a sleep is counted at the next wake-up.
    ran_ns: u64,
    /// How often a thread began to run.
    begun: u64,
    /// Total wait time before these runs; then the longest wait.
    waited_ns: u64,
    waited_max_ns: u64,
    /// Slices used up.
    expired: u64,
    /// Threads that left the level because they had waited too long.
    boosted: u64,
    /// Threads preempted by one of a higher level at a tick.
    surrendered: u64,
    /// Threads that ran for a tick after the wait of `--rescue`.
    rescued: u64,
}

/// A change.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Done {
    Table {
        class: Class,
        /// The file with the new table.
        table: String,
    },
    /// `from` is null if none was set before.
    Default { default: Class, from: Option<Class> },
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "dispadmin",
        applet: true,
        summary: "list scheduling classes, show and replace dispatch tables",
        section: 8,
        group: Group::Classes,
        forms: &["-l", "-c class [class-specific options]", "-d [class]"],
        flags: &[
            Flag::letter('l', "list the classes; standard error says how this machine implements them"),
            Flag::letter('d', "show the default class, or set it from the next boot on"),
            Flag::letter('u', "has no effect: the default class needs no update at boot"),
            Flag::letter('c', "the class of -g and -s").value("class", ValueKind::Class),
            Flag::letter('g', "show the dispatch table of the class"),
            Flag::letter(
                'r',
                "with -g: show times in units of 1/RES second; 1000 (milliseconds) if not given",
            )
            .value("resolution", ValueKind::Text),
            Flag::letter('s', "replace the dispatch table of the class by the one in a file")
                .value("file", ValueKind::File),
            Flag::long("stats", "show what each level has had since millpond schedd was started"),
        ],
        misused: Misused::SolarisRefusal,
        in_shell: true,
        examples: &[
            Example { words: "-l", what: "list the scheduling classes" },
            Example { words: "-c TS -g", what: "print the dispatch table of TS" },
            Example { words: "--stats", what: "show which levels run, and how long they wait" },
            Example { words: "--machine t2000 -c TS -s table", what: "replace it on a simulated machine" },
        ],
        status: &[("0", "done"), ("1", "everything else, as on Solaris")],
        see_also: &["priocntl(8)", "schedd(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = parsed.words();
    let asked: Vec<char> = "ldugs".chars().filter(|letter| parsed.has(*letter)).collect();
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    if parsed.long("stats") {
        let is_alone = asked.is_empty() && !parsed.has('c') && !parsed.has('r') && words.is_empty();
        return if is_alone { stats(parsed, ctx) } else { misuse("--stats stands alone") };
    }
    let [asked] = asked[..] else {
        return misuse(match asked[..] {
            [] if parsed.has('c') => "with -c, add -g to show the table or -s FILE to replace it",
            [] => "one of -l, -d and -c is needed",
            _ => "-l, -d, -g, -s and -u exclude each other",
        });
    };
    match (asked, parsed.value('c')) {
        ('g' | 's', None) => misuse("-g and -s need the class: -c CLASS"),
        ('l' | 'd' | 'u', Some(_)) => misuse("-c goes with -g or -s"),
        _ if parsed.has('r') && asked != 'g' => misuse("-r goes with -g"),
        _ if words.len() > usize::from(asked == 'd') => misuse("there are too many words"),
        ('g', Some(class)) => show(read_class(&class)?, parsed, ctx),
        ('s', Some(class)) => replace(read_class(&class)?, parsed, ctx),
        ('d', _) => match words.first() {
            None => show_default(parsed, ctx),
            Some(class) => set_default(read_class(class)?, parsed, ctx),
        },
        ('u', _) => {
            let json = parsed.common.json;
            Ok(Changer::of_files(&Common { json, ..Common::default() }).finish(ctx))
        }
        _ => list(parsed, ctx),
    }
}

/// A class by its name.
///
/// # Errors
/// [`Failure::Said`] with the message of Solaris.
pub(crate) fn read_class(word: &str) -> Result<Class, Failure> {
    word.parse().map_err(|_| {
        let text = format!("Invalid or unconfigured class {word}");
        let words: Vec<&str> = CLASSES.iter().map(|class| class.word()).collect();
        let upper = word.to_uppercase();
        let hint = if words.contains(&upper.as_str()) {
            format!("classes are written in capitals: {upper}")
        } else {
            format!("the classes are {}", words.join(", "))
        };
        Failure::Said(text, Some(hint))
    })
}

fn list(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let (classes, made_by) = (dispatcher.classes(), dispatcher.made_by());
    if parsed.common.json {
        ctx.json(&Classes { classes, made_by: Some(made_by) });
    } else {
        ctx.out.text(&listing(&classes));
        note(&made_by, ctx);
    }
    Ok(Exit::DONE)
}

/// Prints a comment for people about the output. It begins as comments in a table do.
pub(crate) fn note(text: &str, ctx: &mut Ctx<'_>) {
    ctx.out.flush();
    ctx.err.line(format_args!("# {text}"));
}

fn show(class: Class, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let tables = read("dispatch tables", dispatcher.tables())?;
    let hz = dispatcher.ticks_per_second();
    // A word that is not a number is refused like 0.
    let res = parsed.value('r').map_or(RES_DEFAULT, |word| word.parse().unwrap_or(0));
    let text = print_table(class, &tables, res, hz)
        .map_err(|error| Failure::Said(error.to_string(), Some(error.hint())))?;
    if parsed.common.json {
        let live = dispatcher.live().is_ok();
        let rows = rows(class, &tables);
        ctx.json(&Table { class, live, rows, ticks_per_second: hz });
        return Ok(Exit::DONE);
    }
    ctx.out.text(&text);
    if let Err(absent) = dispatcher.live() {
        note(&format!("not live: {}", absent.why), ctx);
        absent.what_would_help.iter().for_each(|help| ctx.hint(help));
    }
    Ok(Exit::DONE)
}

impl From<LevelCounts> for Level {
    fn from(counts: LevelCounts) -> Level {
        let LevelCounts { level, ran, begun, waited, waited_max, expired, boosted, surrendered, rescued } =
            counts;
        let (ran_ns, waited_ns, waited_max_ns) = (ran.0, waited.0, waited_max.0);
        Level { level, ran_ns, begun, waited_ns, waited_max_ns, expired, boosted, surrendered, rescued }
    }
}

fn stats(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let counts = facet("counters of levels", dispatcher.scheduler_counts())?;
    let levels: Vec<Level> = counts.levels.into_iter().rev().map(Level::from).collect();
    if parsed.common.json {
        ctx.json(&Stats { levels, sums: counts.sums.into_iter().collect() });
        return Ok(Exit::DONE);
    }
    ctx.out
        .line("LEVEL    RAN_MS    BEGUN  AVG_WAIT_US  MAX_WAIT_US  EXPIRED  BOOSTED  SURRENDERED  RESCUED");
    for row in levels {
        let Level { level, ran_ns, begun, waited_ns, waited_max_ns, expired, boosted, surrendered, rescued } =
            row;
        let (ran, wait) = (ran_ns / 1_000_000, waited_ns / begun.max(1) / 1000);
        let longest = waited_max_ns / 1000;
        ctx.out.line(format_args!(
            "{level:>5} {ran:>9} {begun:>8} {wait:>12} {longest:>12} {expired:>8} {boosted:>8} {surrendered:>12} {rescued:>8}"
        ));
    }
    let sums: Vec<String> = counts.sums.iter().map(|(name, sum)| format!("{name} {sum}")).collect();
    ctx.out.line(format_args!("\nCPUs: {}", sums.join(", ")));
    Ok(Exit::DONE)
}

fn rows(class: Class, tables: &DispatchTables) -> Option<Rows> {
    Some(match tables.of(class)? {
        ClassTable::Ts(table) => Rows::Ts(table),
        ClassTable::Rt(table) | ClassTable::Fx(table) => Rows::Slices(table),
        ClassTable::Fss(quantum) => Rows::Fss([quantum]),
    })
}

fn replace(class: Class, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let file = parsed.value('s').unwrap_or_default();
    let text = read_text(Path::new(&file)).map_err(|why| {
        let text = match class {
            Class::Fss => format!("cannot read settings from {file}"),
            _ => format!("Can't open {file} for input"),
        };
        Failure::Said(text, Some(format!("{file}: {why}")))
    })?;
    // The table is parsed before any message about a change of the machine.
    let hz = {
        let session = ctx.held(&parsed.common)?;
        facet("scheduling classes", session.machine().dispatcher())?.ticks_per_second()
    };
    let table = match parse_table(class, &text, hz) {
        Ok(table) => table,
        Err(error) => {
            // Some of these messages have two lines on Solaris. The file name is escaped, so that it cannot begin a
            // line.
            let message = error.message(&printable(&file));
            let (first, second) = message.split_once('\n').map_or((&*message, None), |(a, b)| (a, Some(b)));
            ctx.warn(first);
            if let Some(second) = second {
                ctx.err.line(format_args!("{}", printable(second)));
            }
            ctx.hint(&error.hint(&file));
            return Ok(Exit::REFUSED);
        }
    };
    let session = ctx.changing(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let main = format!("replace the dispatch table of {class}");
    let made = changer.attempt(ctx, &main, |_| None, dispatcher.prepare_set_table(table));
    if made.is_some() {
        changer.report(ctx, None, Done::Table { class, table: file });
    }
    Ok(changer.finish(ctx))
}

fn default_class(dispatcher: &dyn Dispatcher) -> Result<Option<Class>, Failure> {
    read("the default class", dispatcher.default_class())
}

fn show_default(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let class = default_class(dispatcher)?;
    if parsed.common.json {
        ctx.json(&DefaultClass { default: class });
        return Ok(Exit::DONE);
    }
    let Some(class) = class else {
        let hint = "everything starts in TS, or in the class of its parent; dispadmin -d CLASS sets another";
        return Err(Failure::Said("Default scheduling class is not set".into(), Some(hint.into())));
    };
    ctx.out.line(described(class));
    Ok(Exit::DONE)
}

fn set_default(class: Class, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if class == Class::Sys {
        let hint = "SYS is for the kernel's own threads";
        return Err(Failure::Said(format!("Invalid or unconfigured class {class}"), Some(hint.into())));
    }
    let session = ctx.changing(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let main = format!("make {class} the default class");
    let made = changer.attempt(ctx, &main, |_| None, dispatcher.prepare_default_class(class));
    if let Some(from) = made {
        changer.report(ctx, None, Done::Default { default: class, from });
    }
    Ok(changer.finish(ctx))
}
