//! Creates, changes and shows processor sets, and binds processes and threads to them.
//!
//! A processor belongs to exactly one set. Those that were never assigned are in the default set, which has no
//! number here and is not listed; it always keeps a processor. A set that you make is exclusive: what is bound
//! to it runs on its processors only, and nothing else runs there. With `--keep-others` a set confines what is
//! bound to it and pushes nobody out.
//!
//! How firmly others are kept out depends on the machine and on what is bound; each set says it itself:
//! `psrset -i -v` shows its mode.
//!
//! ```text
//! own        exclusive: the machine keeps everybody else out
//! in-place   exclusive, around a group of processes that stays where it stands
//! steered    others were moved aside; newcomers may intrude until the next check
//! shared     nobody was pushed out (--keep-others)
//! affinity   there are no rights to do more: only what is bound knows about it
//! ```
//!
//! Processors are numbers, ranges (`1-3`, in which numbers that do not exist are ignored) and lists (`1-3,8`).
//! A process is named by its number; some of its threads by their numbers after a slash: `204/3`, `204/1-4`,
//! `204/-4` (up to 4), `204/4-` (from 4 on), and lists of these separated by commas. On a Linux machine the
//! number of a thread is its kernel thread number.
//!
//! # Sets
//!
//! ```text
//! -c [PROCESSOR ...]         create a set; without processors, an empty one
//! -a SET PROCESSOR ...       assign processors to a set, from wherever they are
//! -r PROCESSOR ...           remove processors from their sets
//! -d SET ...                 destroy sets: processors and processes go back to where they were
//! -i [-v] [SET ...]          list sets with their active processors in order of arrival (the default);
//!                            with -v, their modes, and what breaks them
//! -p [PROCESSOR ...]         show the set of each processor; without operands, of all that are in one
//! -f SET, -n SET             keep device interrupts away from the set's processors; let them come back
//! -F                         with -c, -a, -r, -d: unbind threads that are bound to the processors (pbind)
//! --keep-others              with -c: push nobody out
//! --whole-cores              with -c, -a, -r: take the other strands of each processor's core, too
//! --mems MEMORY SET ...      where the memory of what is bound to sets comes from: see below
//! ```
//!
//! Strands of one core share its execution units and caches. Where a set gets some strands of a core and others stay outside, `-c`, `-a` and `-r`
//! say so in a hint; `--whole-cores` takes all on-line strands of the cores, from whatever set they are in.
//!
//! Creating a set, and each assignment or removal, is one operation: when one processor cannot come, nothing
//! is changed and nothing is announced.
//!
//! # Memory
//!
//! What is bound to a set takes memory from anywhere, the nearest first. `--mems local` confines it to the lgroups (`lgrpinfo`) of
//! the set's processors, whichever these are later; a list of lgroups (`--mems 1,2`) to these; `--mems all` lets it take memory
//! from anywhere again. It ends with the set. Memory that is elsewhere already is moved, which takes its time, and is not moved
//! back; `lgrpinfo --pages --set SET` shows how much is near, before and after. Where the lgroups have no memory left, programs are
//! refused more, or killed, although there is memory elsewhere.
//!
//! # Bindings
//!
//! ```text
//! -b SET PID[/LWPS] ...      bind; children and new threads inherit it, and it survives exec
//! -b -z ZONE SET             bind all processes of a zone
//! -u PID[/LWPS] ...          unbind: back to where it was
//! -U [SET ...]               unbind all threads that are bound (to one of these)
//! -q [PID[/LWPS] ...]        show the binding of each; without operands, of all that are bound
//! -Q [SET ...]               show all threads that are bound (to one of these)
//! -e SET COMMAND [ARG ...]   bind this process, then become COMMAND; SET 0 is the default set
//! ```
//!
//! On a simulated machine COMMAND is a workload (`millpond sim` lists them), which becomes a process there.
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
//!
//! # Status
//!
//! 0, or 1 when something was refused (what could be done was done), or 2 for what makes no sense (nothing was
//! done). With `-e` it is that of COMMAND, or 2 when COMMAND could not be started in the set.

mod cores;
mod memory;
mod sets;
mod show;

use crate::bindings;
use crate::change::Changer;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet};
use crate::operands;
use crate::start::Start;
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_formats::psrset as listing;
use millpond_machine::Subject;
use millpond_model::PsetId;
use serde_json::json;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "psrset",
        applet: true,
        summary: "create processor sets, and bind processes to them",
        section: 8,
        group: Group::Sets,
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
            Flag::letter('c', "create a set; without processors, an empty one"),
            Flag::letter('d', "destroy sets: processors and processes go back to where they were"),
            Flag::letter('F', "with -c, -a, -r, -d: unbind threads that are bound to the processors (pbind)"),
            Flag::letter('a', "assign processors to a set, from wherever they are"),
            Flag::letter('r', "remove processors from their sets"),
            Flag::letter('p', "show the set of each processor; without operands, of all that are in one"),
            Flag::letter(
                'i',
                "list sets with their active processors in order of arrival (the default); with -v, their modes, and what breaks them",
            ),
            Flag::letter('b', "bind; children and new threads inherit it, and it survives exec"),
            Flag::letter('q', "show the binding of each; without operands, of all that are bound"),
            Flag::letter('Q', "show all threads that are bound (to one of these)"),
            Flag::letter('u', "unbind: back to where it was"),
            Flag::letter('U', "unbind all threads that are bound (to one of these)"),
            Flag::letter('n', "keep device interrupts away from the set's processors; let them come back"),
            Flag::letter('f', "keep device interrupts away from the set's processors; let them come back"),
            Flag::letter('e', "bind this process, then become COMMAND; SET 0 is the default set"),
            Flag::letter('z', "with -b: bind all processes of this zone").value("value", ValueKind::Text),
            Flag::letter('v', "with -i: show modes as well, and what breaks them"),
            Flag::long("keep-others", "with -c: push no other thread out"),
            Flag::long(
                "whole-cores",
                "with -c, -a, -r: take the other strands of each processor's core, too",
            ),
            Flag::long("mems", "where the memory of what is bound to sets comes from: see below")
                .value("memory", ValueKind::Text),
        ],
        in_shell: true,
        prose: include_str!("mod.rs"),
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

/// What stands for `--mems` among the letters.
const MEMORY: char = 'M';

/// The letter that says what is to be done; `i` when there is none.
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

/// `-b` and `-u`.
fn bind(words: &[String], to: Option<PsetId>, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let targets = some(operands::targets(words)?, "must specify at least one pid")?;
    let session = ctx.changing(&parsed.common)?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    bindings::bind(session.machine(), &targets, to.as_ref(), &mut changer, ctx)?;
    Ok(changer.finish(ctx))
}

/// `-b -z`.
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
        changer.report(ctx, Some(listing::zone_bound(zone, set)), json!({ "zone": zone, "set": set }));
    }
    Ok(changer.finish(ctx))
}

/// `-U`.
fn unbind_all(sets: &[PsetId], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let (known, unknown) = show::existing(sets, session.machine(), "unbind from")?;
    unknown.into_iter().for_each(|complaint| changer.refuse(ctx, complaint));
    let from = if sets.is_empty() { None } else { Some(known.as_slice()) };
    bindings::unbind_all::<PsetId>(session.machine(), from, &mut changer, ctx)?;
    Ok(changer.finish(ctx))
}

/// `-e`. Every failure ends with status 2, so that it cannot be mistaken for the status of the command.
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
