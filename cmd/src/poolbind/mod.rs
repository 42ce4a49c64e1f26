//! Binds processes, units and containers to resource pools, and starts programs in them.
//!
//! What is bound to a pool runs on the CPUs of the pool's set, also when the set changes. Children inherit the pool. If
//! the pool has a scheduling class (pool.scheduler), processes get it when they are bound. Where the machine refuses
//! that, a message says so and the binding stays.
//!
//! ```text
//! -p POOL [-i TYPE] ID ...       bind each of these; POOL pool_default unbinds them
//! -p POOL -e COMMAND [ARG ...]   run COMMAND in the pool
//! -p POOL -e --view COMMAND ...  the same, and COMMAND sees only the CPUs of its pool
//! -q PID ...                     show the pool of each process
//! -Q PID ...                     show the resource of each process: its set
//! ```
//!
//! On a simulated machine COMMAND is a workload (`millpond sim` lists them). Otherwise it finds the name of the pool in
//! MILLPOND_POOL, and the state directory in MILLPOND_STATE if that is not the usual one.
//!
//! # A command at each change of the size
//!
//! ```text
//! -p POOL -e --on-resize COMMAND PROGRAM [ARG ...]   stay its parent, forward signals, exit with its status
//! -p POOL --on-resize COMMAND [ID ...]               bind these, and stay until stopped or the pool ends
//! ```
//!
//! Each time that CPUs join or leave the pool, `/bin/sh -c COMMAND` runs with the name of the pool in MILLPOND_POOL, their
//! number in MILLPOND_POOL_SIZE and their list in MILLPOND_POOL_CPUS. One runs at a time; several changes meanwhile run
//! it once more, for the latest. Simulated machines do not have this. With `--view` PROGRAM sees its pool as well (below).
//!
//! ```text
//! # poolbind -p web -e --on-resize 'kill -USR1 $(cat server.pid)' ./server
//! ```
//!
//! # What a program sees
//!
//! A program in a pool sees by `sched_getaffinity` (and `nproc`) on which CPUs it may run. Many programs count others:
//! those of `/proc/cpuinfo`, `/proc/stat`, `/sys/devices/system/cpu` and `getconf _NPROCESSORS_ONLN`. With `--view` these
//! show the CPUs of the pool and follow its changes at once; within a second when COMMAND is bound to another pool, or a CPU
//! goes off-line. Times in `/proc/stat` are up to a second old. CPUs keep their numbers; the others look as if they
//! were not plugged in. Only COMMAND and its children see that, and nothing of it is left when they have ended. This command
//! waits for COMMAND, forwards signals, and exits with its status, or with 128 and the number of the signal that ended it. It
//! needs CAP_SYS_ADMIN. docs/explanation/pools-view.md lists what well-known programs read.
//!
//! # What an ID is
//!
//! ```text
//! -i pid               a process, as without -i
//! -i zoneid            a zone by its name, or by its number: its line in the listing of millpond zones, from 0
//! -i taskid            on Linux: a scope of systemd; 3 is session-3.scope
//! -i projid, project   on Linux: a slice of systemd; 1000 is user-1000.slice
//! --unit NAME          a unit of systemd
//! --container NAME     a container, by its name or its id
//! --cgroup PATH        any standing group of processes
//! ```
//!
//! All but processes are zones. A zone is bound as a whole, with every process that starts in it later. `--unit`,
//! `--container` and `--cgroup` may be given more than once, and take no IDs.
//!
//! # What lasts
//!
//! A binding ends with what is bound, or at the next boot. With `--persist` a unit starts in the pool from its next start
//! on: the drop-in file `50-millpond-pool.conf` names the slice, and systemd reads it at once. Both are done, or neither.
//! POOL pool_default with `--persist` removes that file, and no other. If other files name a slice for the unit, a message
//! says so. The drop-in names the set by its number, which a saved configuration (pooladm -s) keeps. A unit that was started
//! in the set stays there until its next start.
//!
//! Containers are started by other programs: `--persist` binds one now, and prints the options that start it in the pool.
//! A cgroup that is named by its path has no persistent binding.
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
//! ```text
//! -q, -Q: {"bindings":[{"pid":1207,"pool":"web","pset":"webset"}]}
//! changes: {"changes":[{"pid":1207,"pool":"web"},{"pool":"web","zone":"nginx.service"},{"class":"RT","pid":1207},
//!                       {"fixed":false,"for":"systemd-nspawn","option":"--slice=mpset1.slice","pool":"web"}],
//!           "notes":[],"refused":[{"hint":"…","reason":"No such process","what":"binding pid 9 to pool 'web'"}]}
//! ```

mod class;
mod ids;
mod on_resize;
mod persist;
mod stay;
mod view;

use crate::change::Changer;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::pools;
use crate::start::Start;
use class::PoolClass;
use ids::{Chosen, Kind};
use millpond_cli::{Example, Flag, Group, MISUSED, Misused, Operands, Parsed, Spec, ValueKind};
use millpond_machine::Machine;
use millpond_machine::facets::Member;
use millpond_model::pools::PoolsState;
use millpond_model::{Pid, PoolId};
use millpond_pools::{Code, Editor, Place, PoolError};
use millpond_session::{Program, Session, pool_environment};
use persist::Persist;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "poolbind",
        applet: true,
        summary: "bind processes and zones to pools",
        section: 8,
        group: Group::Pools,
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
            Flag::letter('e', "start a command in the pool"),
            Flag::letter('i', "a process, as without -i").value("pid", ValueKind::Process),
            Flag::letter('p', "bind each of these; POOL pool_default takes them back")
                .value("pool", ValueKind::Pool),
            Flag::letter('q', "show the pool of each process"),
            Flag::long("unit", "a unit of systemd").value("unit", ValueKind::Unit),
            Flag::long("container", "a container, by its name or its id")
                .value("container", ValueKind::Container),
            Flag::long("cgroup", "any standing group of processes").value("path", ValueKind::Directory),
            Flag::long("on-resize", "with -e: run this command at each change of the pool's size")
                .value("value", ValueKind::Text),
            Flag::long(
                "view",
                "with -e: give the program files of /proc and /sys that show the pool's CPUs alone",
            ),
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
            ("0", "everything was done"),
            ("1", "something was refused; what could be done was done"),
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

    /// Its number, if something can be bound to it.
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
    for one in chosen {
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
                let value = match &member {
                    Member::Process(pid) => json!({ "pid": pid, "pool": name }),
                    Member::Zone(zone) => json!({ "zone": zone, "pool": name }),
                };
                changer.report(ctx, None, value);
                if let Ok(id) = pool.id {
                    persist.tell(&session, (name, id), &state, &mut changer, ctx);
                }
            }
            // The pool is there, so that it is the zone that is not.
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

/// Binds one; `false` when that is only shown.
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

/// Tells what was not done in the words of Solaris, which have no `cannot` in front.
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

/// `-q` and `-Q`.
fn query(resources: bool, words: &[String], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let chosen = ids::read(None, words)?;
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let state = pools::state(machine)?;
    let members = machine.pools().map_err(Into::into).and_then(|facet| facet.members());
    let members =
        members.map_err(|refusal| pools::said("couldn't read bindings", PoolError::from(refusal)))?;
    let mut exit = Exit::DONE;
    let mut answers: Vec<Value> = Vec::new();
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
            Ok((pool, set)) => {
                if parsed.common.json {
                    answers.push(json!({ "pid": pid, "pool": pool, "pset": set }));
                } else if resources {
                    ctx.out.line(format_args!("{pid}\tpset\t{set}"));
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
        ctx.json(&json!({ "bindings": answers }));
    }
    Ok(exit)
}

/// The names of a process's pool and of that one's set. A process of a zone that is bound as it stands is in the zone's pool.
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
