//! Zones of a simulated machine: listed, booted and halted, and programs in them.

use super::boot::configure;
use super::facts;
use super::programs::tell_ended;
use super::shell::{Shell, Trouble, workload};
use crate::ctx::Ctx;
use crate::failure::Failure;
use crate::pools;
use crate::start::started;
use millpond_machine::facets::Zone;
use millpond_pools::dedicated;
use millpond_session::Simulation;

/// Halts a zone: ends its processes, and removes its temporary pool.
fn halt(shell: &Shell, zone: &str, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let halted = shell.simulated()?.halt_zone(zone);
    tell_ended(shell.simulated()?, ctx);
    halted.map_err(|why| {
        Trouble::new(2, format!("cannot halt zone {}: {why}", zone.escape_debug()))
            .remedy("zoneadm list -cv lists them")
    })?;
    let machine = shell.session.machine();
    let swept = pools::state_if_any(machine)?.map(|state| dedicated::sweep(machine, state)).transpose();
    swept.map(drop).map_err(|error| Trouble::new(2, format!("cannot end the pool of zone {zone}: {error}")))
}

fn zones(shell: &Shell) -> Result<Vec<Zone>, Trouble> {
    let zones = shell.session.machine().zones().map_err(|absent| Trouble::new(0, absent.why))?;
    zones.list().map_err(|refusal| Trouble::new(0, refusal.to_string()))
}

/// `zoneadm list [-cvp]`, `zoneadm -z ZONE boot | halt | shutdown [-r] | reboot`.
pub fn zoneadm(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    match texts[..] {
        ["list", ref options @ ..] => {
            let (mut all, mut form) = (false, Form::Names);
            for (option, at) in options.iter().zip(2..) {
                let known = |l: &&str| !l.is_empty() && l.chars().all(|c| "civp".contains(c));
                let letters = option.strip_prefix('-').filter(known);
                let letters =
                    letters.ok_or_else(|| Trouble::misuse(at, format!("list does not take `{option}`")))?;
                all |= letters.contains(['c', 'i']);
                form = match (letters.contains('p'), letters.contains('v')) {
                    (true, _) => Form::Fields,
                    (false, true) => Form::Long,
                    (false, false) => form,
                };
            }
            list(shell, all, form, ctx)
        }
        ["-z", zone, "boot"] => boot(shell, zone, ctx),
        ["-z", zone, "halt" | "shutdown"] => halt(shell, zone, ctx),
        ["-z", zone, "reboot"] | ["-z", zone, "shutdown", "-r"] => {
            halt(shell, zone, ctx)?;
            boot(shell, zone, ctx)
        }
        [
            "-z",
            _,
            verb @ ("install" | "uninstall" | "attach" | "detach" | "clone" | "move" | "ready" | "verify"),
        ] => Err(Trouble::new(3, format!("zoneadm cannot {verb} a zone here: a machine file has the zones"))
            .remedy("docs/reference/simulator.md describes it; boot, halt, shutdown and reboot work")),
        ["-z", _, other] => Err(Trouble::misuse(3, format!("zoneadm does not know `{other}`"))),
        _ => Err(Trouble::misuse(1, "zoneadm needs to be told what to do")),
    }
}

/// The format of the list of zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Names,
    /// `-v`
    Long,
    /// `-p`: fields for programs.
    Fields,
}

/// Boots a zone: starts its programs. The configuration is applied if the zone was halted.
fn boot(shell: &Shell, zone: &str, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let was_halted = shell.simulated()?.halted_zones().iter().any(|one| one == zone);
    let booted = shell.simulated()?.boot_zone(zone).map_err(|why| {
        Trouble::new(2, format!("cannot boot zone {}: {why}", zone.escape_debug()))
            .remedy("zoneadm list -cv lists them")
    })?;
    booted.iter().for_each(|(name, pid)| ctx.out.line(started(name, *pid)));
    if was_halted { configure(shell, zone, ctx) } else { Ok(()) }
}

fn list(shell: &Shell, all: bool, form: Form, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    let row = |id: &str, name: &str, status: &str| {
        let path = if name == "global" { "/".to_owned() } else { format!("/zones/{name}") };
        match form {
            Form::Names => name.to_owned(),
            Form::Long => long_row(id, name, status, &path, "native", "shared"),
            Form::Fields => format!("{id}:{name}:{status}:{path}::native:shared"),
        }
    };
    if form == Form::Long {
        ctx.out.line(long_row("ID", "NAME", "STATUS", "PATH", "BRAND", "IP"));
    }
    for zone in zones(shell)? {
        let runs = simulation.zone_runs(&zone.name);
        if runs || all {
            let status = if runs { "running" } else { "ready" };
            ctx.out.line(row(&zone.id.to_string(), &zone.name, status));
        }
    }
    for name in simulation.halted_zones().iter().filter(|_| all) {
        ctx.out.line(row("-", name, "installed"));
    }
    Ok(())
}

fn long_row(id: &str, name: &str, status: &str, path: &str, brand: &str, ip: &str) -> String {
    format!("{id:>4} {name:<16} {status:<10} {path:<30} {brand:<8} {ip}")
}

/// Finds a zone by its name or number.
fn zone_named(simulation: &Simulation<'_>, zones: &[Zone], word: &str) -> Option<String> {
    let by_name = zones.iter().find(|zone| zone.name == word);
    let zone = by_name.or_else(|| zones.iter().find(|zone| zone.id.to_string() == word))?;
    simulation.zone_runs(&zone.name).then(|| zone.name.clone())
}

/// `zlogin ZONE COMMAND ...`: starts a workload in the zone.
pub fn zlogin(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let [word, command @ ..] = words else { return Err(Trouble::misuse(1, "zlogin needs a zone")) };
    if command.is_empty() {
        return Err(Trouble::misuse(2, "zlogin needs a command"));
    }
    let zones = zones(shell)?;
    let simulation = shell.simulated()?;
    let Some(zone) = zone_named(&simulation, &zones, word) else {
        let trouble =
            Trouble::new(1, format!("cannot log in to zone {word}: there is none of that name that runs"));
        return Err(trouble.remedy("zoneadm list -cv lists them, zoneadm -z ZONE boot boots one"));
    };
    if command[0] == "getconf" {
        return facts::getconf_in(shell, &zone, &command[1..], 3, ctx);
    }
    let load = workload("zlogin", command, 2, ctx)?;
    let refused = |why: String| Trouble::from(Failure::Said(why, None));
    let pid = simulation.log_in(&zone, &load).map_err(|why| refused(why.to_string()))?;
    ctx.out.line(started(&load.name, pid));
    Ok(())
}
