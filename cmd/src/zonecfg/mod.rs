//! Caps the CPU time of a zone (systemd unit, slice, container, cgroup), or dedicates CPUs to it while it runs.
//!
//! ```text
//! $ zonecfg -z nginx.service "add capped-cpu; set ncpus=1.5; end"
//! $ zonecfg -z db.service "add dedicated-cpu; set ncpus=2-4; set importance=10; end"
//! $ zonecfg -z nginx.service info capped-cpu
//! capped-cpu:
//!         [ncpus: 1.50]
//! $ zonecfg -z nginx.service remove capped-cpu
//! ```
//!
//! `millpond zones` lists zones. On a simulated machine they are those of Solaris.
//!
//! # Commands
//!
//! Commands are separated by semicolons or line ends. All are parsed before the first is executed; then each is one
//! change.
//!
//! ```text
//! add RESOURCE, select RESOURCE   begin to set a resource, or to change an existing one
//!   set ncpus=N                   capped-cpu: a number with at most two decimals; dedicated-cpu: a number or a range
//!   set importance=N              dedicated-cpu: the importance of its pool (1)
//!   end, cancel                   apply the resource, or drop it
//! remove RESOURCE                 remove it
//! set cpu-shares=N, clear cpu-shares   CPU shares, as with prctl
//! set pool=NAME, clear pool       simulated machines: the pool that the zone is in
//! info [RESOURCE | cpu-shares | pool]  show the configuration of the zone
//! export                          show it as commands
//! verify, commit, exit            no effect: each value is applied at once
//! ```
//!
//! capped-cpu excludes dedicated-cpu, which also excludes cpu-shares and pool, and is refused for the global zone.
//! Other commands and resources of Solaris are refused.
//!
//! # Effect
//!
//! capped-cpu is `zone.cpu-cap` of `prctl`. dedicated-cpu creates a temporary pool and set, both named `SUNWtmp_` and
//! the zone's name, and binds the zone to the pool. It enables pools if necessary. `pooladm -c` keeps both;
//! `pooladm -s` saves neither.
//!
//! `set pool` is `poolbind -i zoneid` for a running zone; for a halted zone it takes effect at its boot. On Linux the
//! pool has the names of its zones: `poolbind -p POOL --unit UNIT`, or the property `millpond.zones` of the pool.
//!
//! A simulated machine keeps the configuration over a reboot. On Linux it belongs to the running zone: a container
//! loses its cap when it ends, and a systemd unit at the next boot. The temporary pool of an ended zone is removed by
//! the next cycle of `poold`, or by the next `zonecfg`.
//!
//! # JSON
//!
//! If a command changes the configuration, info prints nothing. The schema is docs/reference/json/zonecfg.json.

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command as Entry;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use crate::json::{self, Describe};
use crate::pools;
use millpond_cli::{Example, Flag, Group, Parsed, Spec, ValueKind};
use millpond_formats::zonecfg::{Command, Resource, ZoneContents, info, parse};
use millpond_machine::facets::{Controlled, Member};
use millpond_machine::{Machine, Refusal, Subject};
use millpond_model::pools::PoolsState;
use millpond_model::{Control, ControlHolder, ControlSetting, CpuCap, Shares};
use millpond_pools::dedicated::{self, Dedicated};
use millpond_pools::{PoolError, dynamic};
use millpond_session::Session;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Configured<'_>>(), json::of::<Changes<'_, Done<'_>>>(), json::of::<DryRun<'_>>()];

/// The configuration of a zone (`info`).
#[derive(Serialize, JsonSchema)]
struct Configured<'z> {
    zone: &'z str,
    /// In percent of one CPU.
    cap_pct: Option<u32>,
    cpu_shares: Option<u32>,
    pool: Option<&'z str>,
    dedicated_cpu: Option<DedicatedCpu>,
}

#[derive(Serialize, JsonSchema)]
struct DedicatedCpu {
    /// The minimum number of CPUs.
    min: u64,
    /// The maximum number of CPUs.
    max: u64,
    importance: i64,
}

/// A change of a zone; null: the value was removed.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "resource", rename_all = "kebab-case")]
enum Done<'z> {
    CappedCpu {
        zone: &'z str,
        ncpus: Option<f64>,
    },
    CpuShares {
        zone: &'z str,
        shares: Option<u32>,
    },
    Pool {
        zone: &'z str,
        pool: Option<String>,
    },
    DedicatedCpu {
        zone: &'z str,
        /// The minimum and the maximum.
        ncpus: Option<(u64, u64)>,
        #[serde(skip_serializing_if = "Option::is_none")]
        importance: Option<i64>,
    },
}

pub(crate) const COMMAND: Entry = Entry {
    spec: Spec {
        name: "zonecfg",
        applet: true,
        summary: "cap the CPU time of a zone, or dedicate CPUs to it",
        section: 8,
        group: Group::Divide,
        forms: &["[--keep-others] -z zonename subcommand", "[--keep-others] -z zonename -f command_file"],
        flags: &[
            Flag::letter('z', "the zone").value("zone", ValueKind::Zone),
            Flag::letter('f', "read commands from a file").value("file", ValueKind::File),
            Flag::long(
                "keep-others",
                "dedicated-cpu: if this enables pools, other threads may stay on their CPUs",
            ),
        ],
        in_shell: true,
        examples: &[Example {
            words: "-z nginx.service \"add capped-cpu; set ncpus=1.5; end\"",
            what: "limit a unit to one CPU and a half",
        }],
        status: &[
            ("0", "done"),
            ("1", "a command was refused; those before it were executed"),
            ("2", "a command cannot be parsed"),
        ],
        see_also: &["prctl(8)", "poolbind(8)", "millpond-zones(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The zone that contains all others.
const GLOBAL: &str = "global";

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some(zone) = parsed.value('z') else { return Err(Failure::Usage("-z names the zone".into())) };
    let words = parsed.words();
    let script = match (parsed.value('f'), words.is_empty()) {
        (Some(file), true) => millpond_session::read_text(Path::new(&file))
            .map_err(|error| Complaint::new(format!("read {}", file.escape_debug()), error.to_string()))?,
        (None, false) => words.join(" "),
        (Some(_), false) => return Err(Failure::Usage("commands come from -f, or stand behind -z".into())),
        (None, true) => return Err(Failure::Usage("which command? there is no dialogue here".into())),
    };
    let commands = parse(&script).map_err(|error| Failure::Operand(format!("cannot read {error}")))?;
    if commands.iter().all(|command| matches!(command, Command::Info(_) | Command::Nothing)) {
        let session = ctx.reading(&parsed.common)?;
        return show(&session, &zone, &commands, parsed.common.json, ctx);
    }
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    if is_halted(&session, &zone) {
        // A halted zone cannot be changed. It gets the configuration when it boots.
        if !parsed.common.dry_run {
            configure(&session, &zone, &commands);
        }
        return Ok(Exit::DONE);
    }
    if !parsed.common.dry_run
        && let Some(state) = pools::state_if_any(machine)?
    {
        let (_, notes) = dedicated::sweep(machine, state)
            .map_err(|error| pools::said("cannot end pools of zones that ended", error))?;
        notes.iter().for_each(|note| ctx.warn(note));
    }
    let mut work = Work {
        machine,
        zone: &zone,
        pool: session.simulation().map(|_| configured(&session, &zone).pool),
        keep_others: parsed.long("keep-others"),
        common: parsed,
    };
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let mut done = Vec::new();
    for command in &commands {
        if let Err(complaint) = work.carry_out(command, &mut changer, ctx) {
            changer.refuse(ctx, complaint);
            break;
        }
        done.push(command.clone());
    }
    let exit = changer.finish(ctx);
    if !parsed.common.dry_run {
        configure(&session, &zone, &done);
    }
    Ok(exit)
}

/// Whether a zone of a simulated machine is halted.
fn is_halted(session: &Session, zone: &str) -> bool {
    session.simulation().is_some_and(|simulation| simulation.halted_zones().iter().any(|one| one == zone))
}

/// The configuration of a zone of a simulated machine.
fn configured(session: &Session, zone: &str) -> ZoneContents {
    let text = session.simulation().and_then(|simulation| simulation.zone_configuration(zone));
    let commands = text.and_then(|text| parse(&text).ok()).unwrap_or_default();
    commands.iter().fold(ZoneContents::default(), ZoneContents::after)
}

/// Stores the configuration of a zone on a simulated machine, which keeps it over a boot.
fn configure(session: &Session, zone: &str, done: &[Command]) {
    let Some(simulation) = session.simulation() else { return };
    let has = done.iter().fold(configured(session, zone), ZoneContents::after);
    simulation.configure_zone(zone, &has.commands());
}

fn show(
    session: &Session,
    zone: &str,
    commands: &[Command],
    in_json: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let machine = session.machine();
    facet("shares and caps", machine.controls())?;
    let mut has =
        if is_halted(session, zone) { configured(session, zone) } else { what_it_has(machine, zone)? };
    if session.simulation().is_some() {
        has.pool = configured(session, zone).pool;
    }
    if in_json {
        let dedicated_cpu =
            has.dedicated.map(|((min, max), importance)| DedicatedCpu { min, max, importance });
        let pool = has.pool.as_deref();
        ctx.json(&Configured { zone, cap_pct: has.cap, cpu_shares: has.shares, pool, dedicated_cpu });
        return Ok(Exit::DONE);
    }
    for command in commands {
        if let Command::Info(which) = command {
            ctx.out.text(&info(&zone.escape_debug().to_string(), &has, *which));
        }
    }
    Ok(Exit::DONE)
}

fn controlled(machine: &dyn Machine, zone: &str) -> Result<Controlled, Refusal> {
    machine.controls()?.controlled(&ControlHolder::Zone(zone.to_owned()))
}

/// The key of a zone in the pool configuration. A zone that cannot be bound has none, and so no dedicated CPUs.
fn key_of(machine: &dyn Machine, zone: &str) -> String {
    let key = machine.pools().ok().and_then(|pools| pools.zone_key(zone).ok());
    key.unwrap_or_else(|| zone.to_owned())
}

fn what_it_has(machine: &dyn Machine, zone: &str) -> Result<ZoneContents, Failure> {
    let what = format!("read zone {}", zone.escape_debug());
    let is = controlled(machine, zone)
        .map_err(|refusal| Complaint::refused(&what, |_| Some(what.clone()), &refusal))?;
    let state = if machine.pools().is_ok() { pools::state_if_any(machine)? } else { None };
    let key = key_of(machine, zone);
    let dedicated = state.as_ref().and_then(|state| dedicated::of(state, &key));
    let bound = state.as_ref().and_then(|state| {
        let id = state.zones.get(&key)?;
        let pool = state.conf.pools.iter().find(|pool| pool.id == Some(*id))?;
        (!pool.is_default && !pool.is_temporary()).then(|| pool.name.clone())
    });
    Ok(ZoneContents {
        pool: bound,
        cap: is.cap.map(CpuCap::get),
        shares: is.shares.map(Shares::get),
        dedicated: dedicated.map(|it| (it.ncpus, it.importance)),
    })
}

/// The context of the commands.
struct Work<'a> {
    machine: &'a dyn Machine,
    zone: &'a str,
    /// The configured pool of a zone on a simulated machine.
    pool: Option<Option<String>>,
    keep_others: bool,
    common: &'a Parsed,
}

impl Work<'_> {
    fn complaint(&self, verb: &str, what: &str, why: impl Into<String>) -> Complaint {
        Complaint::new(format!("{verb} {what} of zone {}", self.zone.escape_debug()), why)
    }

    fn has(&self) -> Result<ZoneContents, Complaint> {
        what_it_has(self.machine, self.zone).map_err(|failure| match failure {
            Failure::Refused(complaint) => complaint,
            Failure::Said(text, hint) => Complaint { hint, ..self.complaint("read", "CPUs", text) },
            _ => self.complaint("read", "CPUs", "the machine cannot be read"),
        })
    }

    fn carry_out(
        &mut self,
        command: &Command,
        changer: &mut Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Complaint> {
        match *command {
            Command::Nothing => Ok(()),
            Command::Info(which) => {
                let text = info(&self.zone.escape_debug().to_string(), &self.has()?, which);
                if !self.common.common.json {
                    ctx.out.text(&text);
                }
                Ok(())
            }
            Command::Cap { percent, selected } => {
                self.exists("capped-cpu", self.has()?.cap.is_some(), selected)?;
                self.excludes("capped-cpu", "dedicated-cpu", self.has()?.dedicated.is_some())?;
                self.control(Control::CpuCap, Some(percent), "capped-cpu", changer, ctx)
            }
            Command::Shares(shares) => {
                let is_dedicated = shares.is_some() && self.has()?.dedicated.is_some();
                self.excludes("cpu-shares", "dedicated-cpu", is_dedicated)?;
                self.control(Control::CpuShares, shares, "cpu-shares", changer, ctx)
            }
            Command::Pool(ref name) => self.bind(name.as_deref(), changer, ctx),
            Command::Remove(Resource::CappedCpu) => {
                self.removable("capped-cpu", self.has()?.cap.is_some())?;
                self.control(Control::CpuCap, None, "capped-cpu", changer, ctx)
            }
            Command::Dedicate { ncpus, importance, selected } => {
                let has = self.has()?;
                if self.zone == GLOBAL {
                    return Err(self
                        .complaint(
                            "set",
                            "dedicated-cpu",
                            "CPUs are dedicated to other zones than the global one",
                        )
                        .hint("poolcfg makes a pool, and poolbind -i zoneid 0 puts the global zone there"));
                }
                self.exists("dedicated-cpu", has.dedicated.is_some(), selected)?;
                self.excludes("dedicated-cpu", "capped-cpu", has.cap.is_some())?;
                self.excludes("dedicated-cpu", "cpu-shares", has.shares.is_some())?;
                self.excludes("dedicated-cpu", "pool", self.pool.as_ref().is_some_and(Option::is_some))?;
                let before = has.dedicated.unwrap_or(((1, 1), 1));
                let to = Dedicated {
                    ncpus: ncpus.unwrap_or(before.0),
                    importance: importance.unwrap_or(before.1),
                };
                self.dedicate(to, changer, ctx)
            }
            Command::Remove(Resource::DedicatedCpu) => {
                self.removable("dedicated-cpu", self.has()?.dedicated.is_some())?;
                let state = self
                    .state()?
                    .ok_or_else(|| self.complaint("remove", "dedicated-cpu", "pools are disabled"))?;
                let to = dedicated::without(state, &[key_of(self.machine, self.zone)]);
                self.commit(to, "remove", changer, ctx)?;
                let done = Done::DedicatedCpu { zone: self.zone, ncpus: None, importance: None };
                changer.report(ctx, None, done);
                Ok(())
            }
        }
    }

    /// Binds the zone to a pool, or to the default one.
    fn bind(
        &mut self,
        name: Option<&str>,
        changer: &mut Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Complaint> {
        let of_pool = |error: PoolError| Complaint {
            hint: error.hint.clone(),
            ..self.complaint("set", "pool", error.to_string())
        };
        if self.pool.is_none() {
            let why = "a pool has the names of its zones here";
            let pool = name.unwrap_or("pool_default").escape_debug().to_string();
            return Err(self.complaint("set", "pool", why).hint(format!(
                "poolbind -p {pool} --unit UNIT binds it; the property millpond.zones of the pool keeps that"
            )));
        }
        self.excludes("pool", "dedicated-cpu", name.is_some() && self.has()?.dedicated.is_some())?;
        let Some(state) = self.state()? else {
            if name.is_none() {
                self.pool = Some(None);
                return Ok(());
            }
            return Err(self.complaint("set", "pool", "pools are disabled").hint("pooladm -e enables them"));
        };
        let pool = match name {
            Some(name) => state.conf.pool(name),
            None => state.conf.pools.iter().find(|pool| pool.is_default),
        };
        let Some(id) = pool.and_then(|pool| pool.id) else {
            let name = name.unwrap_or_default().escape_debug();
            return Err(self
                .complaint("set", "pool", format!("there is no pool {name}"))
                .hint(format!("poolcfg -dc 'create pool {name}' makes it")));
        };
        let member = Member::Zone(self.zone.to_owned());
        let change = dynamic::prepare_bind(self.machine, &member, id).map_err(of_pool)?;
        changer.make(ctx, change).map_err(|refusal| of_pool(refusal.into()))?;
        let zone = self.zone;
        changer.report(ctx, None, Done::Pool { zone, pool: name.map(str::to_owned) });
        self.pool = Some(name.map(str::to_owned));
        Ok(())
    }

    /// Refuses a command if the resource exists and must not, or the reverse.
    fn exists(&self, resource: &str, is: bool, wanted: bool) -> Result<(), Complaint> {
        match (is, wanted) {
            (true, false) => Err(self
                .complaint("add", resource, "it has one already")
                .hint(format!("select {resource} changes it"))),
            (false, true) => Err(self
                .complaint("change", resource, "it has none")
                .hint(format!("add {resource} makes one"))),
            _ => Ok(()),
        }
    }

    fn removable(&self, resource: &str, is: bool) -> Result<(), Complaint> {
        if is { Ok(()) } else { Err(self.complaint("remove", resource, "it has none")) }
    }

    fn excludes(&self, this: &str, other: &str, has_other: bool) -> Result<(), Complaint> {
        if !has_other {
            return Ok(());
        }
        let remedy = if ["cpu-shares", "pool"].contains(&other) { "clear" } else { "remove" };
        Err(self
            .complaint("set", this, format!("it has {other}, and the two exclude each other"))
            .hint(format!("{remedy} {other} first")))
    }

    fn control(
        &self,
        control: Control,
        value: Option<u32>,
        resource: &str,
        changer: &mut Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Complaint> {
        let verb = if value.is_some() { "set" } else { "remove" };
        let to = match value {
            Some(value) => ControlSetting::of(control, value)
                .map_err(|error| self.complaint(verb, resource, error.to_string()))?,
            None => ControlSetting::unset(control),
        };
        let what = format!("{verb} {resource} of zone {}", self.zone.escape_debug());
        let holder = ControlHolder::Zone(self.zone.to_owned());
        let prepared =
            self.machine.controls().map_err(Refusal::from).and_then(|c| c.prepare_set(&holder, to));
        let made = prepared.and_then(|change| changer.make(ctx, change));
        let names = |subject: &Subject| (*subject == Subject::from(&holder)).then(|| what.clone());
        made.map_err(|refusal| Complaint::refused(&what, names, &refusal))?;
        let zone = self.zone;
        let done = match control {
            Control::CpuCap => Done::CappedCpu { zone, ncpus: value.map(|pct| f64::from(pct) / 100.0) },
            Control::CpuShares => Done::CpuShares { zone, shares: value },
        };
        changer.report(ctx, None, done);
        Ok(())
    }

    fn state(&self) -> Result<Option<PoolsState>, Complaint> {
        dynamic::state(self.machine).map_err(|error| self.of_pools("read", error))
    }

    fn of_pools(&self, verb: &str, error: PoolError) -> Complaint {
        Complaint { hint: error.hint.clone(), ..self.complaint(verb, "dedicated-cpu", error.to_string()) }
    }

    fn commit(
        &self,
        to: PoolsState,
        verb: &str,
        changer: &mut Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Complaint> {
        let prepared =
            dynamic::prepare(self.machine, Some(to)).map_err(|error| self.of_pools(verb, error))?;
        changer
            .make(ctx, prepared)
            .map(drop)
            .map_err(|refusal| self.of_pools(verb, dynamic::refused(refusal)))
    }

    /// Makes a pool with its set and binds the zone to it, in one change.
    fn dedicate(&self, to: Dedicated, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) -> Result<(), Complaint> {
        let key = self.machine.pools().map_err(Refusal::from).and_then(|pools| pools.zone_key(self.zone));
        let key = key.map_err(|refusal| self.of_pools("set", refusal.into()))?;
        let (state, was_enabled) = match self.state()? {
            Some(state) => (state, true),
            None => {
                let fresh = dynamic::fresh(self.machine, self.keep_others);
                (fresh.map_err(|error| self.of_pools("set", error))?, false)
            }
        };
        let to = dedicated::with(state, (self.zone, &key), to);
        self.commit(to.map_err(|error| self.of_pools("set", error))?, "set", changer, ctx)?;
        if self.common.common.dry_run {
            return Ok(());
        }
        if !was_enabled {
            changer.note(ctx, "pools are enabled now".into(), Some("pooladm -d disables them"));
        }
        let (ncpus, importance) = self.has()?.dedicated.unzip();
        changer.report(ctx, None, Done::DedicatedCpu { zone: self.zone, ncpus, importance });
        Ok(())
    }
}
