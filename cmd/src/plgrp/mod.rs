//! Shows and sets the home lgroup (preferred NUMA node) of threads, and their lgroup affinities.
//!
//! ```text
//! $ plgrp -a all 204
//!      PID/LWPID    HOME  AFFINITY
//!      204/1        1     0-2/none
//! $ plgrp -H 2 204
//!      PID/LWPID    HOME
//!      204/1        1 => 2
//! ```
//!
//! The home of a thread is the lgroup (`lgrpinfo`) where it preferably runs and allocates memory. An affinity for an
//! lgroup is `strong` (runs there whenever possible), `weak` (runs there unless something prevents it) or `none`.
//!
//! A process is a process number; a slash and numbers select threads, as in `psrset`. A list of lgroups has numbers,
//! ranges, `root`, `leaves` and `all`, separated by commas. An lgroup with children means its leaves.
//!
//! # Linux
//!
//! The kernel has no home lgroups. Sources of the shown one, in this order: affinity mask, NUMA balancing, most memory,
//! last CPU. The first source that yields a single lgroup where the thread may run is used.
//!
//! A strong affinity is an affinity mask that excludes other lgroups of the thread's set. `none` for all lgroups
//! restores the mask of the set. `weak` does not exist. `-H` with one lgroup for a whole process also moves its memory.
//! The allocation policy of another process cannot be set on Linux; use `psrset --mems`.
//!
//! # JSON
//!
//! The keys of `affinities` are numbers of lgroups. The schema is `docs/reference/json/plgrp.json`.

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use crate::{bindings, lgroups, operands};
use millpond_cli::{Example, Flag, Group, Operands, Parsed, Spec, ValueKind, help};
use millpond_formats::plgrp::{self as listing, AffinityRequest, parse_affinities};
use millpond_formats::{GroupOperand, Target};
use millpond_machine::facets::Homed;
use millpond_machine::{Change, Lgroups, Machine, Refusal, Subject};
use millpond_model::{Affinity, GroupId, LgroupTree, LgrpId, Lwp, LwpId, Pid};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Threads>(), json::of::<Changes<'_, Moved>>(), json::of::<DryRun<'_>>()];

/// The selected threads.
#[derive(Serialize, JsonSchema)]
struct Threads {
    threads: Vec<Thread>,
}

#[derive(Serialize, JsonSchema)]
struct Thread {
    pid: Pid,
    lwp: LwpId,
    #[serde(flatten)]
    place: Place,
}

/// A thread's home and affinities.
#[derive(Serialize, JsonSchema)]
struct Place {
    home: GroupId,
    /// By named lgroup; one with children has the weakest affinity of its leaves.
    affinities: BTreeMap<GroupId, Affinity>,
}

/// A thread whose home or affinities changed.
#[derive(Serialize, JsonSchema)]
struct Moved {
    #[serde(flatten)]
    now: Thread,
    from: Place,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "plgrp",
        applet: true,
        summary: "show and set home lgroups (NUMA nodes) of threads, and their affinities",
        section: 8,
        group: Group::Machine,
        forms: &[
            "pid[/lwps] ...",
            "[-F] -a lgroup_list pid[/lwps] ...",
            "[-F] -A lgroup_list/none|weak|strong[,...] pid[/lwps] ...",
            "[-F] -H lgroup_list pid[/lwps] ...",
            "-h",
        ],
        flags: &[
            Flag::letter('a', "also show affinities for these lgroups").value("lgroups", ValueKind::Text),
            Flag::letter('A', "set affinities: 0-2/none,3/strong")
                .value("lgroups/affinity[,...]", ValueKind::Text),
            Flag::letter('H', "set homes: each thread gets the next of these, with a strong affinity")
                .value("lgroups", ValueKind::Lgroup),
            Flag::letter('F', "force; has no effect, because no process is stopped"),
            Flag::letter('h', "print the usage"),
        ],
        in_shell: true,
        operands: Operands { shown: "pid[/lwps] ...", kinds: &[ValueKind::Process] },
        examples: &[
            Example { words: "204", what: "show the home lgroup of each thread of process 204" },
            Example { words: "-H 1 204", what: "make lgroup 1 the home of its threads" },
        ],
        see_also: &["lgrpinfo(1)", "pbind(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The requested action.
enum Wish {
    Show(Vec<GroupOperand>),
    Prefer(AffinityRequest),
    Move(Vec<GroupOperand>),
}

/// The action with the lgroups of one machine.
enum Task {
    Prefer(BTreeMap<LgrpId, Affinity>, Vec<GroupId>),
    Move(Vec<LgrpId>),
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.has('h') {
        ctx.out.text(&help::usage(&COMMAND.spec));
        return Ok(Exit::DONE);
    }
    let wish = Wish::of(parsed)?;
    let targets = operands::targets(&parsed.words())?;
    if targets.is_empty() {
        return Err(Failure::Usage("must specify at least one pid".into()));
    }
    match wish {
        Wish::Show(groups) => {
            let session = ctx.reading(&parsed.common)?;
            show(session.machine(), &targets, &groups, parsed.common.json, ctx)
        }
        wish => {
            let session = ctx.changing(&parsed.common)?;
            let tree = lgroups::tree(lgroups::lgroups(session.machine())?)?;
            let task = Task::of(wish, &tree)?;
            let changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            change(session.machine(), &targets, &task, changer, parsed.common.json, ctx)
        }
    }
}

impl Wish {
    fn of(parsed: &Parsed) -> Result<Wish, Failure> {
        let asked: BTreeSet<char> = parsed.letters().filter(|letter| *letter != 'F').collect();
        if asked.len() > 1 {
            return Err(Failure::Usage("options -a, -A and -H are mutually exclusive".into()));
        }
        if let Some(word) = parsed.value('A') {
            let request = parse_affinities(&word);
            let wrong = |error| Failure::Operand(format!("cannot read `{word}` as affinities: {error}"));
            return request.map(Wish::Prefer).map_err(wrong);
        }
        if let Some(word) = parsed.value('H') {
            return lgroups::operands(&word).map(Wish::Move);
        }
        parsed.value('a').map_or(Ok(Vec::new()), |word| lgroups::operands(&word)).map(Wish::Show)
    }
}

impl Task {
    fn of(wish: Wish, tree: &LgroupTree) -> Result<Task, Complaint> {
        match wish {
            Wish::Prefer(request) => {
                let (mut wanted, mut named) = (BTreeMap::new(), Vec::new());
                for (groups, affinity) in request {
                    named.extend(expanded(&groups, tree, "prefer")?);
                    let nodes = lgroups::nodes(&groups, tree, "prefer")?;
                    wanted.extend(nodes.into_iter().map(|node| (node, affinity)));
                }
                Ok(Task::Prefer(wanted, named))
            }
            Wish::Move(groups) | Wish::Show(groups) => {
                Ok(Task::Move(lgroups::nodes(&groups, tree, "move to")?.into_iter().collect()))
            }
        }
    }

    fn prepare(
        &self,
        facet: &dyn Lgroups,
        target: &Target,
        lwps: Option<&[LwpId]>,
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        match self {
            Task::Prefer(wanted, _) => facet.prepare_affinities(target.pid, lwps, wanted),
            Task::Move(homes) => facet.prepare_homes(target.pid, lwps, homes),
        }
    }
}

fn expanded(groups: &[GroupOperand], tree: &LgroupTree, verb: &str) -> Result<Vec<GroupId>, Complaint> {
    let mut ids = Vec::new();
    for group in groups {
        ids.extend(lgroups::expand(*group, tree, verb)?);
    }
    Ok(ids)
}

impl Thread {
    fn of(homed: &Homed, named: &[GroupId], tree: &LgroupTree) -> Thread {
        let of = |node: &LgrpId| homed.affinities.get(node).copied().unwrap_or_default();
        let one = |id: &GroupId| (*id, tree.nodes_of(*id).iter().map(of).min().unwrap_or_default());
        let home = tree.leaf_of(homed.home).unwrap_or_default();
        let place = Place { home, affinities: named.iter().map(one).collect() };
        Thread { pid: homed.lwp.pid, lwp: homed.lwp.lwp, place }
    }
}

fn show(
    machine: &dyn Machine,
    targets: &[Target],
    groups: &[GroupOperand],
    json: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let facet = lgroups::lgroups(machine)?;
    let tree = lgroups::tree(facet)?;
    let named = expanded(groups, &tree, "show")?;
    let mut exit = Exit::DONE;
    let mut found = Vec::new();
    for target in targets {
        match threads(facet, target) {
            Ok(threads) => found.extend(threads),
            Err(complaint) => {
                ctx.complain(&complaint);
                exit = Exit::REFUSED;
            }
        }
    }
    let threads: Vec<Thread> = found.iter().map(|homed| Thread::of(homed, &named, &tree)).collect();
    if json {
        ctx.json(&Threads { threads });
    } else if !threads.is_empty() {
        ctx.out.line(listing::header(!named.is_empty(), false));
        for Thread { pid, lwp, place } in threads {
            let preferred = listing::affinities(&place.affinities);
            let preferred = (!named.is_empty()).then_some(preferred.as_str());
            ctx.out.line(listing::row(Lwp { pid, lwp }, place.home, preferred));
        }
    }
    Ok(exit)
}

/// The threads of a target, with their homes.
fn threads(facet: &dyn Lgroups, target: &Target) -> Result<Vec<Homed>, Complaint> {
    let main = format!("query {}", bindings::noun(target));
    let names = |subject: &Subject| (*subject == Subject::Process(target.pid)).then(|| main.clone());
    let mut all = facet.homes(target.pid).map_err(|refusal| Complaint::refused(&main, names, &refusal))?;
    if let Some(selection) = &target.lwps {
        all.retain(|thread| selection.contains(thread.lwp.lwp));
        if all.is_empty() {
            return Err(Complaint::new(main, "no thread of the process has such a number"));
        }
    }
    Ok(all)
}

fn change(
    machine: &dyn Machine,
    targets: &[Target],
    task: &Task,
    mut changer: Changer<'_>,
    json: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let facet = lgroups::lgroups(machine)?;
    let tree = lgroups::tree(facet)?;
    let (phrase, named): (fn(String) -> String, &[GroupId]) = match task {
        Task::Prefer(_, named) => (|noun| format!("set affinities of {noun}"), named),
        Task::Move(_) => (|noun| format!("move {noun} home"), &[]),
    };
    let mut has_header = json;
    for target in targets {
        let main = phrase(bindings::noun(target));
        let chosen = match threads(facet, target) {
            Ok(threads) => threads.iter().map(|thread| thread.lwp.lwp).collect::<Vec<_>>(),
            Err(complaint) => {
                changer.refuse(ctx, Complaint { what: main, ..complaint });
                continue;
            }
        };
        let names = |subject: &Subject| match subject {
            Subject::Process(pid) if *pid == target.pid => Some(main.clone()),
            Subject::Thread(lwp) if lwp.pid == target.pid => Some(phrase(format!("thread {lwp}"))),
            _ => None,
        };
        let lwps = target.lwps.as_ref().map(|_| chosen.as_slice());
        let prepared = task.prepare(facet, target, lwps);
        let Some(before) = changer.attempt(ctx, &main, names, prepared) else { continue };
        // Threads that have ended meanwhile are not reported.
        let now = facet.homes(target.pid).unwrap_or_default();
        for (from, to) in before.iter().filter_map(|b| Some((b, now.iter().find(|t| t.lwp == b.lwp)?))) {
            if !std::mem::replace(&mut has_header, true) {
                ctx.out.line(listing::header(!named.is_empty(), true));
            }
            let lwp = from.lwp;
            let from = Thread::of(from, named, &tree).place;
            let now = Thread::of(to, named, &tree);
            let [was, is] = [&from, &now.place].map(|place| listing::affinities(&place.affinities));
            let preferred = (!named.is_empty()).then_some((was.as_str(), is.as_str()));
            let line = listing::change(lwp, (from.home, now.place.home), preferred);
            changer.report(ctx, Some(line), Moved { now, from });
        }
    }
    Ok(changer.finish(ctx))
}
