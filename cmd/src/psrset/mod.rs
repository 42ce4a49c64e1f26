//! Creates, changes and shows processor sets, and binds processes and threads to them.
//!
//! A CPU belongs to exactly one set. CPUs that were never assigned are in the default set, set 0, which always keeps
//! one. CPUs that another program has reserved (a cgroup partition, an exclusive cpuset) are in no set, and can be taken
//! with `-F` only. A new set is exclusive: its processes run on its CPUs only, and no other thread runs there. With
//! `--keep-others` a set confines its processes, and other threads may run on its CPUs as well.
//!
//! Creating a set is one operation, and so is each assignment or removal: if one CPU cannot be moved, nothing changes.
//!
//! # Operands
//!
//! CPUs are numbers, ranges and lists: `3`, `1-3`, `1-3,8`. A range skips numbers that do not exist. A process is a
//! process number. A slash and numbers select threads: `204/3`, `204/1-4`, `204/-4` (up to 4), `204/4-` (from 4 on), or
//! a list. On Linux a thread has its kernel thread number. On a simulated machine a command is a workload (`millpond
//! sim`).
//!
//! # Modes
//!
//! Machines differ in how strictly they can keep other threads out. `psrset -i -v` prints the mode of each set.
//!
//! ```text
//! own        exclusive: the kernel keeps all other threads out
//! in-place   exclusive, around a cgroup that stays where it is
//! steered    other threads were moved away; new ones may run there until the next check
//! shared     no thread was pushed out (--keep-others)
//! affinity   without rights to cgroups: only the bound threads are confined
//! ```
//!
//! # Cores
//!
//! Strands (hardware threads) of one core share its execution units and caches. If a set gets only some strands of a
//! core, `-c`, `-a` and `-r` print a hint. `--whole-cores` takes all on-line strands of the cores.
//!
//! # Memory
//!
//! The memory of a bound process comes from any node, the nearest first. `--mems local` confines it to the lgroups
//! (`lgrpinfo`) of the set's CPUs, also after these change. `--mems 1,2` confines it to these lgroups, and `--mems all`
//! ends that. Pages elsewhere are moved, which takes time, and are not moved back. If the lgroups are full, allocations
//! fail or processes are killed, although other nodes have memory. `lgrpinfo --pages --set SET` counts pages.
//!
//! # Output
//!
//! ```text
//! $ psrset -c 1-3
//! created processor set 1
//! processor 1: was not assigned, now 1
//! processor 2: was not assigned, now 1
//! processor 3: was not assigned, now 1
//! $ psrset -b 1 204
//! process id 204: was not bound, now 1
//! ```
//!
//! # JSON
//!
//! ```text
//! -i: {"default":{"processors":[0]},
//!      "sets":[{"active":[1,2,3],"breaches":[],"id":1,"mode":"own","processors":[1,2,3]}]}
//! -p: {"processors":[{"id":1,"set":1},{"id":0,"set":null}]}
//! -q, -Q: {"bindings":[{"lwp":null,"pid":204,"set":1}]}
//!     with a set's memory confined, "memory":{"lgroups":[1],"wanted":"local"} in it
//! changes: {"changes":[{"created":1},{"removed":1},{"from":"all","memory":"local","set":1},{"from":null,"processor":1,"to":1},
//!                      {"bound":"set","from":null,"lwp":null,"pid":204,"to":1},{"set":1,"zone":"web"},
//!                      {"from":"on-line","processor":1,"to":"no-intr"}],
//!           "notes":[],"refused":[{"hint":null,"reason":"…","what":"assign processor 7"}]}
//! --dry-run: {"dry_run":true,"notes":[],"operations":[{"steps":[…],"what":"…"}],"refused":[]}
//! ```

mod memory;
mod sets;
mod show;

use self::sets::Done;
use crate::bindings::{self, Bindings, SetBinding};
use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet};
use crate::json::{self, Describe};
use crate::operands;
use crate::start::Start;
use millpond_cli::{Example, Flag, Group, Operands, Parsed, Spec, ValueKind};
use millpond_formats::psrset as listing;
use millpond_machine::Subject;
use millpond_model::PsetId;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[
    json::of::<show::Sets<'_>>(),
    json::of::<show::Assignments>(),
    json::of::<Bindings<SetBinding>>(),
    json::of::<Changes<'_, Done>>(),
    json::of::<DryRun<'_>>(),
];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "psrset",
        applet: true,
        summary: "create processor sets, and bind processes to them",
        section: 8,
        group: Group::Isolate,
        forms: &[
            "-c [-F] [--keep-others] [--whole-cores] [processor ...]",
            "-d [-F] processor_set ...",
            "-a [-F] [--whole-cores] processor_set processor ...",
            "-r [-F] [--whole-cores] processor ...",
            "-p [processor ...]",
            "[-i] [-v] [processor_set ...]",
            "-b processor_set pid[/lwps] ...",
            "-b -z zone processor_set",
            "-u pid[/lwps] ...",
            "-U [processor_set ...]",
            "-q [pid[/lwps] ...]",
            "-Q [processor_set ...]",
            "-e processor_set command [argument ...]",
            "-f processor_set",
            "-n processor_set",
            "--mems local|all|lgroups processor_set ...",
        ],
        flags: &[
            Flag::letter('c', "create a set of these CPUs; without CPUs, an empty one")
                .operands("[cpu ...]", &[ValueKind::Cpus])
                .under("Sets"),
            Flag::letter('a', "assign CPUs to a set, from whatever set they are in")
                .operands("set cpu ...", &[ValueKind::Pset, ValueKind::Cpus]),
            Flag::letter('r', "remove CPUs from their sets").operands("cpu ...", &[ValueKind::Cpus]),
            Flag::letter('d', "destroy sets: CPUs and processes return to where they were")
                .operands("set ...", &[ValueKind::Pset]),
            Flag::letter('i', "list sets with their active CPUs in order of arrival (the default)")
                .operands("[set ...]", &[ValueKind::Pset]),
            Flag::letter('v', "with -i: modes as well, and what breaks them"),
            Flag::letter('p', "show the set of each CPU; without CPUs, of all that are in one")
                .operands("[cpu ...]", &[ValueKind::Cpus]),
            Flag::letter('f', "make the set's CPUs no-intr: devices do not interrupt them")
                .operands("set", &[ValueKind::Pset]),
            Flag::letter('n', "let devices interrupt the set's CPUs again")
                .operands("set", &[ValueKind::Pset]),
            Flag::letter('F', "with -c, -a, -r, -d: unbind threads that are bound to the CPUs (pbind)"),
            Flag::long("keep-others", "with -c: push no other thread out"),
            Flag::long("whole-cores", "with -c, -a, -r: take the other strands of each core as well"),
            Flag::long(
                "mems",
                "where memory of what is bound to the sets comes from: local, all, or lgroups",
            )
            .value("lgroups", ValueKind::Word(&["local", "all"]))
            .operands("set ...", &[ValueKind::Pset]),
            Flag::letter('b', "bind processes and threads; children and new threads inherit it")
                .operands("set pid[/lwps] ...", &[ValueKind::Pset, ValueKind::Process])
                .under("Bindings"),
            Flag::letter('z', "with -b: bind all processes of this zone").value("zone", ValueKind::Zone),
            Flag::letter('u', "unbind: back to where they were")
                .operands("pid[/lwps] ...", &[ValueKind::Process]),
            Flag::letter('U', "unbind all threads that are bound, or those of these sets")
                .operands("[set ...]", &[ValueKind::Pset]),
            Flag::letter('q', "show the binding of each; without operands, of all that are bound")
                .operands("[pid[/lwps] ...]", &[ValueKind::Process]),
            Flag::letter('Q', "show all threads that are bound, or those of these sets")
                .operands("[set ...]", &[ValueKind::Pset]),
            Flag::letter('e', "run a command in the set; set 0 is the default set")
                .operands("set command [arg ...]", &[ValueKind::Pset, ValueKind::Program]),
        ],
        operands: Operands { shown: "set ...", kinds: &[ValueKind::Pset] },
        examples: &[
            Example { words: "-c 2-5", what: "create an exclusive set of CPUs 2 to 5" },
            Example { words: "-e 1 ./trader", what: "run a program in set 1" },
            Example { words: "-f 1", what: "keep interrupts of devices off the CPUs of set 1" },
            Example {
                words: "-i -v",
                what: "list all sets, how firmly they are enforced, and what breaks them",
            },
            Example { words: "-d 1", what: "destroy set 1, and put everything back" },
        ],
        status: &[
            ("0", "everything was done"),
            ("1", "something was refused; what could be done was done"),
            ("2", "the command line is wrong, or with -e the command did not start; nothing was done"),
            ("other", "with -e: the exit status of the command"),
        ],
        see_also: &["psradm(8)", "pbind(8)", "poolbind(8)", "lgrpinfo(1)", "millpond-quiet(1)"],
        in_shell: true,
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let letter = operation(parsed)?;
    let words = parsed.words();
    match letter {
        'c' | 'a' | 'r' => sets::move_processors(letter, &words, parsed, ctx),
        'd' => {
            let sets = some(operands::sets(&words)?, "must specify at least one processor set")?;
            sets::destroy(&sets, parsed, ctx)
        }
        'f' | 'n' => {
            let [set] = words.as_slice() else {
                return Err(Failure::Usage("must specify exactly one processor set".into()));
            };
            sets::interrupts(operands::set(set)?, letter == 'n', parsed, ctx)
        }
        MEMORY => {
            let sets = some(operands::sets(&words)?, "must specify at least one processor set")?;
            memory::confine(&sets, parsed, ctx)
        }
        'p' => show::processors(&operands::cpus(&words)?, parsed, ctx),
        'q' => {
            let targets = operands::targets(&words)?;
            let session = ctx.reading(&parsed.common)?;
            bindings::query::<PsetId>(session.machine(), &targets, parsed.common.json, ctx)
        }
        'Q' => show::bound(&operands::sets(&words)?, parsed, ctx),
        'b' => match parsed.value('z') {
            Some(zone) => bind_zone(&zone, &words, parsed, ctx),
            None => {
                let (set, pids) = first(&words)?;
                bind(pids, Some(operands::set(set)?), parsed, ctx)
            }
        },
        'u' => bind(&words, None, parsed, ctx),
        'U' => unbind_all(&operands::sets(&words)?, parsed, ctx),
        'e' => Ok(execute(parsed, ctx)),
        _ => show::sets(&operands::sets(&words)?, parsed, ctx),
    }
}

/// The letter that stands for `--mems`.
const MEMORY: char = 'M';

/// The letter of the operation; `i` by default.
fn operation(parsed: &Parsed) -> Result<char, Failure> {
    let usage = |why: &str| Err(Failure::Usage(why.to_owned()));
    let mut operation = None;
    let mut zones = 0;
    for letter in parsed.letters() {
        match letter {
            'z' if operation != Some('b') => return usage("-z can only be used after -b"),
            'z' if zones > 0 => return usage("-z can only be specified once"),
            'z' => zones += 1,
            'F' | 'v' => {}
            _ if operation.is_some_and(|o| o != letter) => return usage("options are mutually exclusive"),
            _ => operation = Some(letter),
        }
    }
    if parsed.long("mems") {
        operation = match operation {
            None => Some(MEMORY),
            Some(_) => return usage("options are mutually exclusive"),
        };
    }
    let operation = operation.unwrap_or('i');
    if parsed.has('F') && !"card".contains(operation) {
        return usage("-F can only be used with -c, -a, -r or -d");
    }
    if parsed.has('v') && operation != 'i' {
        return usage("-v can only be used with -i");
    }
    if parsed.long("keep-others") && operation != 'c' {
        return usage("--keep-others can only be used with -c");
    }
    if parsed.long("whole-cores") && !"car".contains(operation) {
        return usage("--whole-cores can only be used with -c, -a or -r");
    }
    Ok(operation)
}

fn some<T>(list: Vec<T>, otherwise: &str) -> Result<Vec<T>, Failure> {
    if list.is_empty() { Err(Failure::Usage(otherwise.to_owned())) } else { Ok(list) }
}

fn first(words: &[String]) -> Result<(&String, &[String]), Failure> {
    words.split_first().ok_or_else(|| Failure::Usage("must specify processor set".into()))
}

/// Executes `-b` and `-u`.
fn bind(words: &[String], to: Option<PsetId>, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let targets = some(operands::targets(words)?, "must specify at least one pid")?;
    let session = ctx.changing(&parsed.common)?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    bindings::bind(session.machine(), &targets, to.as_ref(), &mut changer, ctx)?;
    Ok(changer.finish(ctx))
}

/// Executes `-b -z`.
fn bind_zone(zone: &str, words: &[String], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let (set, more) = first(words)?;
    if !more.is_empty() {
        return Err(Failure::Usage("cannot specify extra pids with -z".into()));
    }
    let set = operands::set(set)?;
    let session = ctx.changing(&parsed.common)?;
    let zones = facet("zones", session.machine().zones())?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let to = Some(set).filter(|set| !set.is_default());
    let main = format!("bind zone {zone} to set {set}");
    let names = |subject: &Subject| {
        let ours = *subject == Subject::Zone(zone.to_owned()) || *subject == Subject::Pset(set);
        ours.then(|| main.clone())
    };
    if changer.attempt(ctx, &main, names, zones.prepare_bind(zone, to)).is_some() {
        changer.report(ctx, Some(listing::zone_bound(zone, set)), Done::Zone { zone: zone.to_owned(), set });
    }
    Ok(changer.finish(ctx))
}

/// Executes `-U`.
fn unbind_all(sets: &[PsetId], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let (known, unknown) = show::existing(sets, session.machine(), "unbind from")?;
    unknown.into_iter().for_each(|complaint| changer.refuse(ctx, complaint));
    let from = if sets.is_empty() { None } else { Some(known.as_slice()) };
    bindings::unbind_all::<PsetId>(session.machine(), from, &mut changer, ctx)?;
    Ok(changer.finish(ctx))
}

/// Executes `-e`. Every failure ends with status 2, so that it differs from the status of the command.
fn execute(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Exit {
    let mut begin = || {
        let words = parsed.words();
        let (set, _) = first(&words)?;
        let set = operands::set(set)?;
        let command = &parsed.operands[1..];
        if command.is_empty() {
            return Err(Failure::Usage("must specify command".into()));
        }
        let (session, start) = ctx.changing_once(&parsed.common, |session| Start::of(session, command))?;
        let changer = Changer::open(session.machine(), &parsed.common, ctx)?;
        let to = Some(set).filter(|set| !set.is_default());
        bindings::execute(&session, &start, to.as_ref(), changer, ctx)
    };
    match begin() {
        Ok(Exit::DONE) => Exit::DONE,
        Ok(_) => Exit::USAGE,
        Err(failure) => {
            crate::command::tell(&failure, &COMMAND.spec, &["-e".into()], ctx);
            Exit::USAGE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Result<char, String> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        let parsed = millpond_cli::parse(&COMMAND.spec, &words).unwrap();
        operation(&parsed).map_err(|f| match f {
            Failure::Usage(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_default_is_to_list() {
        assert_eq!(letters(""), Ok('i'));
        assert_eq!(letters("-v"), Ok('i'));
        assert_eq!(letters("1 2"), Ok('i'));
    }

    #[test]
    fn one_letter_says_what_is_done_and_others_modify_it() {
        assert_eq!(letters("-cF 1"), Ok('c'));
        assert_eq!(letters("-Fa 1 2"), Ok('a'));
        assert_eq!(letters("-dF 1"), Ok('d'));
        assert_eq!(letters("-c --keep-others"), Ok('c'));
        assert_eq!(letters("-b -z web 1"), Ok('b'));
        assert_eq!(letters("--mems local 1"), Ok(MEMORY));
    }

    #[test]
    fn letters_that_do_not_go_together_are_refused() {
        let refused = |text, why: &str| assert_eq!(letters(text), Err(why.to_owned()), "{text}");
        refused("-c --mems local 1", "options are mutually exclusive");
        refused("-cd 1", "options are mutually exclusive");
        refused("-qQ", "options are mutually exclusive");
        refused("-z web -b 1", "-z can only be used after -b");
        refused("-u -z web", "-z can only be used after -b");
        refused("-b -z web -z db 1", "-z can only be specified once");
        refused("-bF 1 204", "-F can only be used with -c, -a, -r or -d");
        refused("-F", "-F can only be used with -c, -a, -r or -d");
        refused("-cv 1", "-v can only be used with -i");
        refused("-a --keep-others 1 2", "--keep-others can only be used with -c");
    }
}
