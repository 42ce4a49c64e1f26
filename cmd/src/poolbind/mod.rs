//! Binds processes and zones to pools, shows where they are bound, and starts programs in a pool.
//!
//! What is bound to a pool runs on the processors of the pool's set, also when the pool gets another set or the set other processors. Children
//! inherit the pool. If the pool has a class (pool.scheduler), processes get it when they are bound; where the machine refuses that, it is told
//! and the binding stays.
//!
//! ```text
//! -p POOL [-i TYPE] ID ...       bind each of these; POOL pool_default takes them back
//! -p POOL -e COMMAND [ARG ...]   bind this process, then become COMMAND
//! -q PID ...                     show the pool of each process
//! -Q PID ...                     show the resource of each process: its set
//! ```
//!
//! On a simulated machine COMMAND is a workload (`millpond sim` lists them), which becomes a process there.
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
//! All but processes are zones, which are bound as they stand: whatever is born in one is bound as well. The options with names may be given more
//! than once, and take no IDs behind them.
//!
//! ```text
//! # poolbind -p web 1207
//! # poolbind -q 1207
//! 1207    web
//! # poolbind -Q 1207
//! 1207    pset    webset
//! # poolbind -p web --unit nginx.service
//! ```
//!
//! # JSON
//!
//! ```text
//! -q, -Q: {"bindings":[{"pid":1207,"pool":"web","pset":"webset"}]}
//! changes: {"changes":[{"pid":1207,"pool":"web"},{"pool":"web","zone":"nginx.service"},{"class":"RT","pid":1207}],
//!           "notes":[],"refused":[{"hint":"…","reason":"No such process","what":"binding pid 9 to pool 'web'"}]}
//! ```
//!
//! # Status
//!
//! 0, or 1 when something was refused (what could be done was done), or 2 for what makes no sense.

mod class;
mod ids;

use crate::args::Parsed;
use crate::change::Changer;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::pools;
use crate::start::Start;
use class::PoolClass;
use ids::{Chosen, Kind};
use millpond_machine::Machine;
use millpond_machine::facets::Member;
use millpond_model::pools::{PoolNode, PoolsState, PsetNode};
use millpond_model::{Pid, PoolId};
use millpond_pools::{Code, Editor, Place, PoolError, dynamic};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const COMMAND: Command = Command {
    name: "poolbind",
    applet: true,
    summary: "bind processes and zones to pools",
    usage: &[
        "-p pool_name -e command [arguments...]",
        "-p pool_name [-i pid | -i taskid | -i projid | -i zoneid] id ...",
        "-p pool_name --unit name | --container name | --cgroup path ...",
        "-q pid ...",
        "-Q pid ...",
    ],
    letters: "Qei:p:q",
    longs: &["unit:", "container:", "cgroup:"],
    source: include_str!("mod.rs"),
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    let has = |letter| parsed.has(letter);
    let words = parsed.words();
    let named = Kind::named(parsed);
    match (has('q'), has('Q'), parsed.value('p')) {
        (true, true, _) => misuse("-q and -Q exclude each other"),
        (true, ..) | (_, true, _) if has('p') || has('e') || has('i') || !named.is_empty() => {
            misuse("-q and -Q take processes, and nothing else")
        }
        (false, false, None) => misuse("one of -p, -q and -Q is needed"),
        (_, _, Some(_)) if has('e') && (has('i') || !named.is_empty()) => misuse("-e starts one process"),
        (_, _, Some(_)) if has('e') && words.is_empty() => misuse("-e needs a command"),
        (_, _, Some(_)) if !named.is_empty() && (has('i') || !words.is_empty()) => {
            misuse("--unit, --container and --cgroup name what is bound; no ids stand behind them")
        }
        _ if words.is_empty() && named.is_empty() => misuse("there is no id"),
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
        let class = state.conf.pool(name).and_then(|p| p.props.string("pool.scheduler"));
        Pool { id, class: class.map(PoolClass::of) }
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
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let state = pools::state(machine)?;
    let pool = Pool::of(name, &state);
    for one in chosen {
        let member = match one.member(machine, session.kind()) {
            Ok(member) => member,
            Err(complaint) => {
                tell(complaint, &mut changer, ctx);
                continue;
            }
        };
        let main = format!("binding {one} to pool '{name}'");
        match join(machine, &member, &pool, &mut changer, ctx) {
            Ok(false) => {}
            Ok(true) => {
                let value = match &member {
                    Member::Process(pid) => json!({ "pid": pid, "pool": name }),
                    Member::Zone(zone) => json!({ "zone": zone, "pool": name }),
                };
                changer.report(ctx, None, value);
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
    Ok(changer.finish(ctx))
}

/// Binds one; `false` when that is only shown.
fn join(
    machine: &dyn Machine,
    member: &Member,
    pool: &Pool,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<bool, PoolError> {
    let change = dynamic::prepare_bind(machine, member, pool.usable(machine)?)?;
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
    let understood = |session: &_| Start::of(session, &parsed.operands).map_err(not_executed);
    let (session, start) = ctx.changing_once(&parsed.common, understood)?;
    let machine = session.machine();
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let state = pools::state(machine)?;
    let pool = Pool::of(name, &state);
    let begun = start.begin(&session);
    let member = Member::Process(begun.pid);
    let bound = match join(machine, &member, &pool, &mut changer, ctx) {
        Ok(bound) => bound,
        Err(error) => {
            tell(refused(format!("binding to pool '{name}'"), error), &mut changer, ctx);
            false
        }
    };
    if let Some(class) = pool.class.as_ref().filter(|_| bound) {
        class.apply(machine, &member, &mut changer, ctx);
    }
    start.end(begun, bound, changer, ctx).map_err(not_executed)
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
    let pool = state.conf.pools.iter().find(|pool| pool.id() == Some(id));
    let set = pool.and_then(|pool| state.conf.pset_of(pool)).map(PsetNode::name);
    Ok((pool.map_or("", PoolNode::name).to_owned(), set.unwrap_or_default().to_owned()))
}
