//! Enables and disables resource pools, applies a configuration file, and saves the running configuration.
//!
//! A *pool* is a named processor set with a minimum and a maximum size, an importance, and objectives. Processes are bound
//! to pools (`poolbind`). A pool can get another set, and a set other CPUs, while they run. Unbound processes are in the
//! default pool, whose set has every CPU that is in no other set. CPUs that another program has reserved (a cgroup
//! partition, an exclusive cpuset) are in no set.
//!
//! The running machine has the *dynamic* configuration. A file holds a *static* one: /etc/pooladm.conf by default.
//! `poolcfg` edits both. Without options the dynamic configuration is printed.
//!
//! While pools are enabled, `psrset` shows sets and does not change them. Pools cannot be enabled while sets of `psrset` exist.
//!
//! # How a file is applied
//!
//! Pools and sets are matched by name. Those that only the file has are created, those that only the machine has are
//! removed, and common ones get the properties of the file. Then CPUs are assigned. Each set starts with its minimum or its
//! pinned CPUs, whichever is more. The rest is dealt one by one to sets below their maximum, the most important first
//! (pool.importance). The remainder is in the default set. With system.allocate-method "surplus to default" everything above
//! the minima is. The whole file is one change: it is applied completely or not at all.
//!
//! Bindings of units, containers and other zones are in the file as well (property millpond.zones of their pools). `-s`
//! writes them. `-c` binds existing zones, and later ones as soon as poold (within a second) or a command sees them. Bindings
//! that the file does not name stay. Bindings of single processes are not saved.
//!
//! ```text
//! # pooladm -e
//! # poolcfg -c discover
//! # poolcfg -c 'create pset web ( uint pset.min = 1 ; uint pset.max = 4 ) create pool web associate pool web ( pset web )'
//! # pooladm -c
//! # poolbind -p web 204
//! ```
//!
//! # JSON
//!
//! Properties are those of the listing, with values of their types. The schema is docs/reference/json/pooladm.json.

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use crate::pools::{self, Done, Shown};
use millpond_cli::{Example, Flag, Group, MISUSED, Misused, Operands, Parsed, Spec, ValueKind};
use millpond_formats::pools::info;
use millpond_machine::{Machine, Reason, Refusal};
use millpond_model::pools::{PoolsConf, PoolsState, PsetNode};
use millpond_pools::script::Said;
use millpond_pools::{Code, PoolError, dynamic, errno, instantiate, validate, zones};
use millpond_session::LockedPools;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Shown<'_>>(), json::of::<Changes<'_, Done<'_>>>(), json::of::<DryRun<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "pooladm",
        applet: true,
        summary: "enable pools, apply a configuration file, and save the running configuration",
        section: 8,
        group: Group::Divide,
        forms: &["", "[-n] [-s] [-c] [filename]", "[-n] -x", "-d | -e [--keep-others]"],
        flags: &[
            Flag::letter(
                'e',
                "enable pools: all CPUs are in the default set, all processes in the default pool",
            ),
            Flag::letter('d', "disable pools: pools and sets end, and everything is put back"),
            Flag::letter('c', "apply the configuration of the file").operands("[file]", &[ValueKind::File]),
            Flag::letter(
                's',
                "save the dynamic configuration to the file; with -c, numbers and all CPUs too",
            )
            .operands("[file]", &[ValueKind::File]),
            Flag::letter('x', "remove every pool and set but the default ones"),
            Flag::letter(
                'n',
                "with -c: only check whether the file can be applied; with -s and -x: do nothing",
            ),
            Flag::long(
                "keep-others",
                "with -e: confine members of pools to their sets, and push no other thread out",
            ),
        ],
        misused: Misused::Solaris,
        in_shell: true,
        operands: Operands { shown: "[file]", kinds: &[ValueKind::File] },
        examples: &[
            Example { words: "-e", what: "enable pools" },
            Example { words: "-c", what: "apply /etc/pooladm.conf" },
            Example { words: "-n -c pools.conf", what: "check a file, and change nothing" },
            Example { words: "-d", what: "disable pools, and put everything back" },
        ],
        status: &[("0", "done"), ("1", "something was refused; nothing was done"), MISUSED],
        see_also: &["poolcfg(8)", "poolbind(8)", "poolstat(1)", "poold(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let words = parsed.words();
    let has = |letter| parsed.has(letter);
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    let asked = "cdesx".chars().filter(|letter| has(*letter)).collect::<String>();
    let file = match words.as_slice() {
        [] => None,
        [_] if !has('c') && !has('s') => return misuse("a file goes with -c or -s"),
        [file] => Some(file.as_str()),
        _ => return misuse("one file at a time"),
    };
    if parsed.long("keep-others") && asked != "e" {
        return misuse("--keep-others goes with -e");
    }
    match asked.as_str() {
        "d" | "e" if has('n') => misuse("-n goes with -c, -s or -x"),
        "e" => enable(parsed, ctx),
        "d" => disable(parsed, ctx),
        "x" | "s" if has('n') => Ok(Changer::of_files(&parsed.common).finish(ctx)),
        "x" => remove(parsed, ctx),
        "c" | "cs" if has('n') => validate_only(file, parsed, ctx),
        "c" | "cs" => commit(file, has('s'), parsed, ctx),
        "s" => save(file, parsed, ctx),
        "" => show(parsed, ctx),
        _ => misuse("-d, -e, -x, and -c with -s, exclude each other"),
    }
}

fn show(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let state = pools::state_to_show(session.machine())?;
    if parsed.common.json {
        ctx.json(&Shown::all(&state.conf));
    } else {
        ctx.out.text(&info::system(&state.conf));
    }
    Ok(Exit::DONE)
}

fn enable(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    const MAIN: &str = "cannot enable pools";
    let keep_others = parsed.long("keep-others");
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    check_rights(machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    match pools::state_if_any(machine)? {
        Some(state) if keep_others && !state.keep_others => {
            let hint =
                "they are enabled already, and push others out of their sets; disable them first: pooladm -d";
            return Err(failed(MAIN, PoolError::hinted(Code::System(errno::BUSY), hint)));
        }
        Some(_) => return Ok(changer.finish(ctx)),
        None => {}
    }
    let fresh = dynamic::fresh(machine, keep_others).map_err(|error| failed(MAIN, error))?;
    let refused = |refusal: Refusal| match &refusal.reason {
        Reason::PsetsExist(_) => {
            let hint = format!("{}; {}", refusal.reason, refusal.hint.unwrap_or_default());
            pools::said(MAIN, Said { text: "System has active processor sets".into(), hint: Some(hint) })
        }
        _ => failed(MAIN, dynamic::refused(refusal)),
    };
    let facet = machine.pools().map_err(|absent| failed(MAIN, Refusal::from(absent).into()))?;
    let change = facet.prepare_commit(Some(fresh)).map_err(refused)?;
    if changer.make(ctx, change).map_err(refused)?.is_some() {
        changer.report(ctx, None, Done::Pools("enabled"));
    }
    Ok(changer.finish(ctx))
}

fn disable(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    const MAIN: &str = "cannot disable pools";
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    check_rights(machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    if pools::state_if_any(machine)?.is_some() && replace(machine, None, MAIN, &mut changer, ctx)?.is_some() {
        changer.report(ctx, None, Done::Pools("disabled"));
    }
    Ok(changer.finish(ctx))
}

fn remove(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    check_rights(machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let to = dynamic::emptied(pools::state(machine)?);
    let main = "couldn't remove dynamic configuration";
    if replace(machine, Some(to), main, &mut changer, ctx)?.is_some() {
        changer.report(ctx, None, Done::Removed("all"));
    }
    Ok(changer.finish(ctx))
}

fn commit(file: Option<&str>, saves: bool, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    check_rights(machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let file = session.pools_file(file);
    let name = file.name();
    let opening = || format!("couldn't open configuration at '{name}'");
    // A command that writes the file back holds its lock meanwhile.
    let (text, mut locked) = {
        let waits = &mut pools::waiting(name, ctx);
        let broken = |error| pools::said(&opening(), pools::bad_file(error));
        if saves {
            let locked = file.lock(waits).map_err(broken)?;
            (locked.text().map(str::to_owned), Some(locked))
        } else {
            (file.read().map_err(broken)?, None)
        }
    };
    let text = text.ok_or_else(|| pools::said(&opening(), pools::no_file(name)))?;
    let conf = pools::parsed(name, &text).map_err(|why| pools::said(&opening(), why))?;
    let state = pools::state(machine)?;
    check_possible(name, &conf, &state)?;
    let main = format!("couldn't commit configuration changes at '{name}'");
    let to = instantiate(&conf, &state).map_err(|error| failed(&main, error))?;
    let made = replace(machine, Some(to.clone()), &main, &mut changer, ctx)?;
    if made.is_some() {
        changer.report(ctx, None, Done::Committed(name));
    }
    if let Some(locked) = &mut locked {
        let now = made.flatten().unwrap_or(to);
        export(zones::described(now), name, locked, &mut changer, ctx)?;
    }
    Ok(changer.finish(ctx))
}

fn validate_only(file: Option<&str>, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let file = session.pools_file(file);
    let name = file.name();
    let opening = format!("couldn't open configuration at '{name}'");
    let text = file.read();
    let text = text.map_err(|error| pools::said(&opening, pools::bad_file(error)))?;
    let text = text.ok_or_else(|| pools::said(&opening, pools::no_file(name)))?;
    let conf = pools::parsed(name, &text).map_err(|why| pools::said(&opening, why))?;
    let state = match pools::state_if_any(machine)? {
        Some(state) => state,
        // Reads the configuration that the machine has when pools are enabled.
        None => dynamic::fresh(machine, false).map_err(|error| failed("cannot read CPUs", error))?,
    };
    check_possible(name, &conf, &state)?;
    Ok(Changer::of_files(&parsed.common).finish(ctx))
}

fn save(file: Option<&str>, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let inside = ctx.held(&parsed.common)?.pools_file(file).is_inside();
    let session = if inside { ctx.changing(&parsed.common) } else { ctx.reading(&parsed.common) }?;
    let state = pools::state(session.machine())?;
    let file = session.pools_file(file);
    let name = file.name();
    let locked = file.lock(&mut pools::waiting(name, ctx));
    let mut locked = locked.map_err(|error| pools::said(&exporting(name), pools::bad_file(error)))?;
    let mut changer = Changer::of_files(&parsed.common);
    export(zones::described(state), name, &mut locked, &mut changer, ctx)?;
    Ok(changer.finish(ctx))
}

fn exporting(name: &str) -> String {
    format!("couldn't export pools state file to '{name}'")
}

/// Writes the machine's configuration to a file.
fn export(
    conf: PoolsConf,
    name: &str,
    locked: &mut LockedPools<'_>,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    let conf = dynamic::exported(conf);
    let text = pools::printed(&conf).map_err(|why| pools::said(&exporting(name), why))?;
    let before = locked.text().map(str::to_owned);
    let step = || pools::file_step(name, before.as_deref(), Some(&conf));
    if !changer.shows(ctx, format!("write {name}"), step) {
        locked.write(&text).map_err(|error| pools::said(&exporting(name), pools::bad_file(error)))?;
        changer.report(ctx, None, Done::Saved(name));
    }
    Ok(())
}

/// Replaces the configuration of the machine in one change. `None` in a dry run.
fn replace(
    machine: &dyn Machine,
    to: Option<PoolsState>,
    main: &str,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<Option<Option<PoolsState>>, Failure> {
    let change = dynamic::prepare(machine, to).map_err(|error| failed(main, error))?;
    changer.make(ctx, change).map_err(|refusal| failed(main, dynamic::refused(refusal)))
}

/// Checks that the machine has enough CPUs for the configuration.
fn check_possible(name: &str, conf: &PoolsConf, state: &PoolsState) -> Result<(), Failure> {
    let total: u64 = state.conf.psets.iter().map(PsetNode::online).sum();
    validate::possible(conf, total).map_err(|error| {
        let text = format!("configuration at '{name}' cannot be instantiated on current system");
        Failure::Said(text, error.hint)
    })
}

/// A refusal by the machine. Missing rights have a special text.
fn failed(main: &str, error: PoolError) -> Failure {
    if error.code == Code::System(errno::PERM) {
        return Failure::Said("insufficient privileges".into(), error.hint);
    }
    pools::said(main, error)
}

/// Checks that the configuration may be changed at all. As on Solaris, this check comes first.
fn check_rights(machine: &dyn Machine) -> Result<(), Failure> {
    let Ok(facet) = machine.pools() else { return Ok(()) };
    facet.may_change().map_err(|refusal| failed("", refusal.into()))
}
