//! Binds processes, systemd units and containers to resource pools, and starts programs in pools.
//!
//! ```text
//! # poolbind -p web 1207
//! # poolbind -q 1207
//! 1207    web
//! # poolbind -Q 1207
//! 1207    pset    webset
//! # poolbind -p web --unit nginx.service --persist
//! # poolbind -p web -e --view getconf _NPROCESSORS_ONLN
//! 2
//! ```
//!
//! A bound process runs on the CPUs of the pool's set, also when the set changes. Children inherit the pool. If the
//! pool has a scheduling class (pool.scheduler), processes get it when they are bound. If the machine refuses the
//! class, a message says so and the binding stays. On Linux IA and FX need `millpond schedd`, and processes of units
//! and containers get a class only while it runs.
//!
//! Binding to the pool pool_default ends a binding. On a simulated machine the command of `-e` is a workload (`millpond
//! sim`). Otherwise its environment has the pool's name in MILLPOND_POOL, and a non-default state directory in
//! MILLPOND_STATE.
//!
//! # Types of ids
//!
//! ```text
//! -i pid               a process (the default)
//! -i zoneid            a zone by name, or by number: its line in the listing of millpond zones, from 0
//! -i taskid            on Linux: a scope of systemd; 3 is session-3.scope
//! -i projid, project   on Linux: a slice of systemd; 1000 is user-1000.slice. Simulated machines: its processes
//! --unit NAME          a unit of systemd
//! --container NAME     a container, by name or id
//! --cgroup PATH        any other cgroup
//! ```
//!
//! All ids except processes are zones. A zone is bound as a whole, including every process that starts in it later.
//! `--unit`, `--container` and `--cgroup` may be repeated, and exclude ids.
//!
//! # Resize commands
//!
//! ```text
//! -p POOL -e --on-resize COMMAND PROGRAM [ARG ...]   stay its parent, forward signals, exit with its status
//! -p POOL --on-resize COMMAND [ID ...]               bind these, and stay until stopped or the pool ends
//! # poolbind -p web -e --on-resize 'kill -USR1 $(cat server.pid)' ./server
//! ```
//!
//! When CPUs join or leave the pool, `/bin/sh -c COMMAND` runs. MILLPOND_POOL is the pool's name, MILLPOND_POOL_SIZE
//! the number of CPUs, MILLPOND_POOL_CPUS their list. One command runs at a time. After several changes meanwhile it
//! runs once, for the latest. Simulated machines do not have this.
//!
//! # CPUs that a program sees
//!
//! `sched_getaffinity` and `nproc` show the CPUs of the pool. `/proc/cpuinfo`, `/proc/stat`, `/sys/devices/system/cpu`
//! and `getconf _NPROCESSORS_ONLN` show all CPUs. With `--view` these, too, show the CPUs of the pool, for COMMAND and
//! its children only.
//!
//! They follow changes of the pool at once. After a move to another pool, or when a CPU goes off-line, that takes up to
//! a second. Times in `/proc/stat` are up to a second old. CPUs keep their numbers; the others look unplugged.
//!
//! `poolbind` waits for COMMAND, forwards signals, and exits with its status, or with 128 and the number of the signal
//! that ended it. It needs CAP_SYS_ADMIN. docs/explanation/pools-view.md lists what well-known programs read.
//!
//! # Persistent bindings
//!
//! A binding ends with the process or zone, or at the next boot. With `--persist` a unit is in the pool from its next
//! start on. The drop-in file `50-millpond-pool.conf` names the slice, and systemd reloads it at once. Either both are
//! done, or neither.
//!
//! With pool_default, `--persist` removes this file only. A message lists other files that name a slice for the unit.
//! The drop-in names the set by number, which a saved configuration (`pooladm -s`) keeps. A unit that was started in
//! the set stays there until its next start.
//!
//! For a container, `--persist` binds it now, and prints the options with which another program starts it in the pool.
//! A cgroup named by path has no persistent binding.
//!
//! ```text
//! # poolbind -p web --container shop --persist
//! docker run, podman run, with the systemd driver: --cgroup-parent=mpset1.slice
//! docker run, podman run, with the cgroupfs driver: --cpuset-cpus=2-3 (as the set is now)
//! containerd, CRI-O (linux of a sandbox): "cgroup_parent": "mpset1.slice"
//! systemd-nspawn: --slice=mpset1.slice
//! LXC (its configuration): lxc.cgroup2.cpuset.cpus = 2-3 (as the set is now)
//! ```
//!
//! # JSON
//!
//! The schema is docs/reference/json/poolbind.json.

mod class;
mod ids;
mod on_resize;
mod persist;
mod stay;
mod view;

use crate::bindings::Bindings;
use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use crate::pools;
use crate::start::{Start, Started};
use class::PoolClass;
use ids::{Chosen, Kind};
use millpond_cli::{Example, Flag, Group, MISUSED, Misused, Operands, Parsed, Spec, ValueKind};
use millpond_machine::Machine;
use millpond_machine::facets::Member;
use millpond_model::pools::PoolsState;
use millpond_model::{Class, Pid, PoolId};
use millpond_pools::{Code, Editor, Place, PoolError};
use millpond_session::{Program, Session, pool_environment};
use persist::Persist;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Bindings<Binding>>(), json::of::<Changes<'_, Done<'_>>>(), json::of::<DryRun<'_>>()];

/// A process with the names of its pool and set.
#[derive(Serialize, JsonSchema)]
struct Binding {
    pid: Pid,
    pool: String,
    pset: String,
}

/// A change.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Done<'p> {
    Process {
        pid: Pid,
        pool: &'p str,
    },
    Zone {
        zone: &'p str,
        pool: &'p str,
    },
    Class {
        pid: Pid,
        class: Class,
    },
    /// With `--persist`: an option with which another program starts the container in the pool.
    Option {
        pool: &'p str,
        /// The program, or the location of the option.
        r#for: String,
        option: String,
        /// Whether the option lists the set's present CPUs, and does not follow the set.
        fixed: bool,
    },
    /// No option is needed.
    NoOption {
        pool: &'p str,
        options: [&'p str; 0],
    },
    #[expect(dead_code, reason = "for the schema: -e reports the struct itself")]
    Started(Started),
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "poolbind",
        applet: true,
        summary: "bind processes, units and containers to pools",
        section: 8,
        group: Group::Divide,
        forms: &[
            "-p pool_name -e [--view] command [arguments...]",
            "-p pool_name [-i pid | -i taskid | -i projid | -i zoneid] id ...",
            "-p pool_name [--persist] --unit name | --container name | --cgroup path ...",
            "-p pool_name --on-resize command [-e [--view] command [arguments...] | id ...]",
            "-q pid ...",
            "-Q pid ...",
        ],
        flags: &[
            Flag::letter('Q', "show the resource of each process: its set"),
            Flag::letter('e', "start a command in the pool").operands("", &[ValueKind::Program]),
            Flag::letter('i', "type of the ids: pid (the default), taskid, projid, zoneid")
                .value("pid", ValueKind::Process),
            Flag::letter('p', "bind to this pool; pool_default ends a binding")
                .value("pool", ValueKind::Pool),
            Flag::letter('q', "show the pool of each process"),
            Flag::long("unit", "a unit of systemd").value("unit", ValueKind::Unit),
            Flag::long("container", "a container, by its name or its id")
                .value("container", ValueKind::Container),
            Flag::long("cgroup", "any other cgroup, by its path").value("path", ValueKind::Directory),
            Flag::long("on-resize", "with -e: run this command at each change of the pool's size")
                .value("value", ValueKind::Text),
            Flag::long("view", "with -e: /proc and /sys show the program only the CPUs of its pool"),
            Flag::long("persist", "with --unit, --container: keep the binding over restarts and reboots"),
        ],
        misused: Misused::Solaris,
        in_shell: true,
        operands: Operands { shown: "pid ...", kinds: &[ValueKind::Process] },
        examples: &[
            Example { words: "-p web 204", what: "bind process 204 to pool web" },
            Example { words: "-p web --unit nginx.service", what: "bind a running unit" },
            Example { words: "-p web -e ./server", what: "run a program in the pool" },
            Example { words: "-q 204", what: "show the pool of process 204" },
        ],
        status: &[
            ("0", "done"),
            ("1", "something was refused; the rest was done"),
            MISUSED,
            ("128+N", "with --view or --on-resize: signal N ended the command"),
            ("other", "with -e: the exit status of the command"),
        ],
        see_also: &["poolcfg(8)", "poolstat(1)", "psrset(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    let has = |letter| parsed.has(letter);
    let words = parsed.words();
    let named = Kind::named(parsed);
    let stays = parsed.long(on_resize::OPTION);
    match (has('q'), has('Q'), parsed.value('p')) {
        (true, true, _) => misuse("-q and -Q exclude each other"),
        (true, ..) | (_, true, _) if has('p') || has('e') || has('i') || stays || !named.is_empty() => {
            misuse("-q and -Q take processes, and nothing else")
        }
        (false, false, None) => misuse("one of -p, -q and -Q is needed"),
        (_, _, Some(_)) if has('e') && (has('i') || !named.is_empty()) => misuse("-e starts one process"),
        (_, _, Some(_)) if has('e') && words.is_empty() => misuse("-e needs a command"),
        _ if parsed.long("persist") && named.is_empty() => {
            misuse("--persist is for what is named by --unit or --container")
        }
        _ if parsed.long("view") && !has('e') => misuse("--view is for a program that is started: -e"),
        (_, _, Some(_)) if !named.is_empty() && (has('i') || !words.is_empty()) => {
            misuse("--unit, --container and --cgroup name what is bound; no ids stand behind them")
        }
        _ if words.is_empty() && named.is_empty() && !stays => misuse("there is no id"),
        (_, _, Some(pool)) if has('e') => execute(&pool, parsed, ctx),
        (_, _, Some(pool)) => {
            let chosen = if named.is_empty() { ids::read(parsed.value('i'), &words)? } else { named };
            bind(&pool, &chosen, parsed, ctx)
        }
        _ => query(has('Q'), &words, parsed, ctx),
    }
}

/// A pool of the machine.
struct Pool {
    id: Result<PoolId, PoolError>,
    class: Option<PoolClass>,
}

impl Pool {
    fn of(name: &str, state: &PoolsState) -> Pool {
        let id = Editor::new(state.conf.clone(), Place::Machine).pool_id(name);
        let class = state.conf.pool(name).and_then(|pool| pool.scheduler.clone());
        Pool { id, class: class.map(PoolClass) }
    }

    /// The number of the pool, if processes can be bound to it.
    fn usable(&self, machine: &dyn Machine) -> Result<PoolId, PoolError> {
        if let Some(class) = &self.class {
            class.check(machine)?;
        }
        self.id.clone()
    }
}

fn bind(name: &str, chosen: &[Chosen], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let (session, ()) =
        ctx.changing_once(&parsed.common, |session| on_resize::check(name, parsed, session))?;
    let machine = session.machine();
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let state = pools::state(machine)?;
    let follower = on_resize::begin(name, parsed, &session)?;
    let pool = Pool::of(name, &state);
    let mut all = Vec::new();
    for one in chosen {
        match one.spread(&session) {
            Ok(several) => all.extend(several),
            Err(complaint) => tell(complaint, &mut changer, ctx),
        }
    }
    for one in &all {
        let persist = match Persist::of(parsed.long("persist"), one, name) {
            Ok(persist) => persist,
            Err(complaint) => {
                changer.refuse(ctx, complaint);
                continue;
            }
        };
        let member = match one.member(machine, session.kind()) {
            Ok(member) => member,
            Err(complaint) => {
                tell(complaint, &mut changer, ctx);
                continue;
            }
        };
        let main = format!("binding {one} to pool '{name}'");
        match join(machine, &member, &pool, persist, &mut changer, ctx) {
            Ok(false) => {}
            Ok(true) => {
                let done = match &member {
                    Member::Process(pid) => Done::Process { pid: *pid, pool: name },
                    Member::Zone(zone) => Done::Zone { zone, pool: name },
                };
                changer.report(ctx, None, done);
                if let Ok(id) = pool.id {
                    persist.tell(&session, (name, id), &state, &mut changer, ctx);
                }
            }
            // The pool exists, so the zone is the unknown one.
            Err(error) if error.code == Code::InvalidSearch && pool.id.is_ok() => {
                tell(one.unknown(), &mut changer, ctx);
                continue;
            }
            Err(error) => {
                tell(refused(main, error), &mut changer, ctx);
                continue;
            }
        }
        if let Some(class) = &pool.class {
            class.apply(machine, &member, &mut changer, ctx);
        }
    }
    let exit = changer.finish(ctx);
    match follower {
        Some(follower) if exit == Exit::DONE => stay::stay(None, Some(follower), ctx),
        _ => Ok(exit),
    }
}

/// Binds one member. `false` in a dry run.
fn join(
    machine: &dyn Machine,
    member: &Member,
    pool: &Pool,
    persist: Persist,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<bool, PoolError> {
    let to = pool.usable(machine)?;
    let change = persist.prepare(machine, member, to)?;
    Ok(changer.make(ctx, change)?.is_some())
}

fn refused(main: String, error: PoolError) -> Complaint {
    Complaint { what: main, reason: error.to_string(), hint: error.hint }
}

/// Reports a failure with the text of Solaris, which does not begin with `cannot`.
fn tell(complaint: Complaint, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
    let Complaint { what, reason, .. } = &complaint;
    match reason.as_str() {
        "" => ctx.warn(what),
        reason => ctx.warn(format_args!("{what}: {reason}")),
    }
    complaint.hint.iter().for_each(|hint| ctx.hint(hint));
    changer.remember_refusal(complaint);
}

fn execute(name: &str, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let command = parsed.words().first().cloned().unwrap_or_default();
    let not_executed = |failure: Failure| match failure {
        Failure::Refused(Complaint { what, reason, hint }) if what.ends_with(&format!(" {command}")) => {
            Failure::Said(format!("exec of {command} failed: {reason}"), hint)
        }
        other => other,
    };
    let understood = |session: &Session| {
        on_resize::check(name, parsed, session)?;
        Start::of(session, &parsed.operands).map_err(not_executed)
    };
    let (session, start) = ctx.changing_once(&parsed.common, understood)?;
    let machine = session.machine();
    let shows = parsed.long("view") && !parsed.common.dry_run;
    let view = if shows { Some(view::lay(&session, &command)?) } else { None };
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let state = pools::state(machine)?;
    let follower = on_resize::begin(name, parsed, &session)?;
    let start = start.with_environment(pool_environment(session.state_dir(), name));
    let pool = Pool::of(name, &state);
    let begun = start.begin(&session);
    let member = Member::Process(begun.pid);
    let bound = match join(machine, &member, &pool, Persist::No, &mut changer, ctx) {
        Ok(bound) => bound,
        Err(error) => {
            tell(refused(format!("binding to pool '{name}'"), error), &mut changer, ctx);
            false
        }
    };
    if let Some(class) = pool.class.as_ref().filter(|_| bound) {
        class.apply(machine, &member, &mut changer, ctx);
    }
    if view.is_none() && follower.is_none() {
        return start.end(begun, bound, changer, ctx).map_err(not_executed);
    }
    match start.report(begun, bound, changer, ctx) {
        Some(exit) => Ok(exit),
        None => {
            let environment = start.environment().to_vec();
            let view = view.map(|view| (view, name));
            stay::stay(Some(Program { words: start.words(), environment, view }), follower, ctx)
        }
    }
}

/// Executes `-q` and `-Q`.
fn query(resources: bool, words: &[String], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let chosen = ids::read(None, words)?;
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let state = pools::state(machine)?;
    let members = machine.pools().map_err(Into::into).and_then(|facet| facet.members());
    let members =
        members.map_err(|refusal| pools::said("couldn't read bindings", PoolError::from(refusal)))?;
    let mut exit = Exit::DONE;
    let mut bindings: Vec<Binding> = Vec::new();
    for one in &chosen {
        let pid = match one.pid() {
            Ok(pid) => pid,
            Err(complaint) => {
                ctx.warn(&complaint.what);
                complaint.hint.iter().for_each(|hint| ctx.hint(hint));
                exit = Exit::REFUSED;
                continue;
            }
        };
        match pool_of(machine, pid, &state, &members) {
            Ok((pool, pset)) => {
                if parsed.common.json {
                    bindings.push(Binding { pid, pool, pset });
                } else if resources {
                    ctx.out.line(format_args!("{pid}\tpset\t{pset}"));
                } else {
                    ctx.out.line(format_args!("{pid}\t{pool}"));
                }
            }
            Err(error) => {
                match resources {
                    true => ctx.warn(format_args!("getting 'pset' binding for {pid}: {error}")),
                    false => ctx.warn(format_args!("couldn't determine binding for pid {pid}: {error}")),
                }
                error.hint.iter().for_each(|hint| ctx.hint(hint));
                exit = Exit::REFUSED;
            }
        }
    }
    if parsed.common.json {
        ctx.json(&Bindings { bindings });
    }
    Ok(exit)
}

/// The names of a process's pool and of its set. If its zone is bound, the process is in the zone's pool.
fn pool_of(
    machine: &dyn Machine,
    pid: Pid,
    state: &PoolsState,
    members: &BTreeMap<Pid, PoolId>,
) -> Result<(String, String), PoolError> {
    let threads =
        machine.threads().map_err(|absent| PoolError::from(millpond_machine::Refusal::from(absent)))?;
    let lwps = threads.lwps(pid)?;
    let by_zone = || {
        let set = lwps.first().map(|lwp| lwp.set).filter(|set| !set.is_default())?;
        let sets = state.sets();
        state.zones.values().find(|pool| sets.get(pool) == Some(&set)).copied()
    };
    let id = members.get(&pid).copied().or_else(by_zone).unwrap_or(PoolId::DEFAULT);
    let pool = state.conf.pools.iter().find(|pool| pool.id == Some(id));
    let set = pool.and_then(|pool| state.conf.pset_of(pool)).map(|set| set.name.clone());
    Ok((pool.map(|pool| pool.name.clone()).unwrap_or_default(), set.unwrap_or_default()))
}
