//! Lists zones: systemd units, slices, containers and other cgroups that can be bound to a pool or set as a whole.
//!
//! ```text
//! $ millpond zones
//! NAME                             KIND       POOL                 SET
//! nginx.service                    unit       web                  1
//! session-3.scope                  unit       pool_default         -
//! ```
//!
//! A binding covers all present and future processes of the zone. Use `poolbind` while pools are enabled, otherwise
//! `psrset -b -z`.
//!
//! ```text
//! unit        a service or scope of systemd: nginx.service, session-3.scope
//! slice       a slice of systemd, with all units below it: user-1000.slice
//! container   a container of Docker, Podman, LXC, containerd or CRI-O: its name, or the first 12 digits of its id
//! group       any other cgroup, by its path: /batch
//! ```
//!
//! Cgroups of user managers of systemd are listed, but cannot be bound: their manager rewrites their CPU lists. Those
//! of Kubernetes can be bound where `millpond node` runs, which calls containers of pods `namespace/pod/container`.
//!
//! POOL is a dash while pools are disabled. SET is the set of its pool or of `psrset -b -z`; a dash is the default set.
//! The number of a zone (`poolbind -i zoneid`) is its line, from 0. On a simulated machine zones are those of Solaris,
//! the first is global, and a zone has the number that `zoneadm list -cv` shows.
//!
//! # JSON
//!
//! The schema is docs/reference/json/zones.json.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet, read};
use crate::json::{self, Describe};
use crate::pools;
use millpond_cli::{Example, Group, MISUSED, Parsed, Spec};
use millpond_machine::Machine;
use millpond_machine::facets::Zone;
use millpond_model::PsetId;
use millpond_model::pools::{DEFAULT_POOL, PoolsState};
use schemars::JsonSchema;
use serde::Serialize;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Listing<'_>>()];

#[derive(Serialize, JsonSchema)]
struct Listing<'z> {
    zones: Vec<Row<'z>>,
}

#[derive(Serialize, JsonSchema)]
struct Row<'z> {
    id: u32,
    name: &'z str,
    /// Its kind, in a word, such as `unit` or `container`.
    kind: &'z str,
    /// Null while pools are disabled.
    pool: Option<String>,
    /// Null for the default set.
    set: Option<PsetId>,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "zones",
        summary: "list systemd units, containers and cgroups that can be bound",
        group: Group::Divide,
        forms: &[""],
        in_shell: true,
        examples: &[Example {
            words: "",
            what: "list zones, units and containers with their pools and sets",
        }],
        status: &[("0", "done"), ("1", "the machine cannot be read"), MISUSED],
        see_also: &["poolbind(8)", "psrset(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if !parsed.operands.is_empty() {
        return Err(Failure::Usage("it takes no operands".into()));
    }
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let zones = read("zones", facet("zones", machine.zones())?.list())?;
    let state = if machine.pools().is_ok() { pools::state_if_any(machine)? } else { None };
    let rows = zones.iter().map(|zone| Row {
        id: zone.id,
        name: &zone.name,
        kind: &zone.kind,
        pool: state.as_ref().map(|state| pool_of(zone, state, machine)),
        set: Some(zone.set).filter(|set| !set.is_default()),
    });
    let rows: Vec<Row<'_>> = rows.collect();
    if parsed.common.json {
        ctx.json(&Listing { zones: rows });
        return Ok(Exit::DONE);
    }
    ctx.out.line(format_args!("{:<32} {:<10} {:<20} SET", "NAME", "KIND", "POOL"));
    for Row { name, kind, pool, set, .. } in rows {
        let (pool, set) = (pool.as_deref().unwrap_or("-"), set.map_or("-".to_owned(), |set| set.to_string()));
        ctx.out.line(format_args!("{name:<32} {kind:<10} {pool:<20} {set}"));
    }
    Ok(Exit::DONE)
}

/// The pool of a zone. A machine stores zones by name or by path; a container that has a name is also found by that
/// name.
fn pool_of(zone: &Zone, state: &PoolsState, machine: &dyn Machine) -> String {
    let is = |key: &str| {
        let last = key.rsplit('/').next().unwrap_or(key);
        key == zone.name || last == zone.name || (zone.kind == "container" && last.contains(&zone.name))
    };
    let by_name = || state.zones.get(&machine.pools().ok()?.zone_key(&zone.name).ok()?);
    let may_have_name = zone.kind == "container" && !state.zones.is_empty();
    let bound = state.zones.iter().find(|(key, _)| is(key)).map(|(_, pool)| pool);
    let id = bound.or_else(|| may_have_name.then(by_name).flatten()).copied();
    let named = id.and_then(|id| state.conf.pools.iter().find(|pool| pool.id == Some(id)));
    let pool = named.or_else(|| state.conf.default_pool());
    pool.map_or_else(|| DEFAULT_POOL.to_owned(), |pool| pool.name.clone())
}
