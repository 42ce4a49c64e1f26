//! What belongs to a boot: the file of tunables, booting again, zones that boot, and how long the machine is up.

use super::services::switch;
use super::shell::{Shell, Trouble, none, workload};
use crate::ctx::Ctx;
use crate::failure::Failure;
use crate::pools;
use crate::start::started;
use millpond_formats::svcs;
use millpond_formats::system_file::{TUNABLES, within_bounds};
use millpond_machine::facets::Zone;
use millpond_model::Service;
use millpond_pools::dedicated;
use millpond_session::{SYSTEM_FILE, Simulation};

/// Tells which lines of a text for the file of tunables will have no effect.
pub fn tell_settings(text: &str, ctx: &mut Ctx<'_>) {
    let (_, without) = within_bounds(text);
    for fault in &without {
        ctx.warn(format_args!(
            "{SYSTEM_FILE}:{}:{}: {}: the line has no effect",
            fault.line, fault.column, fault.what
        ));
    }
    if !without.is_empty() {
        let names: Vec<&str> = TUNABLES.iter().map(|(name, ..)| *name).collect();
        ctx.hint(&format!("tunables are {}", names.join(", ")));
    }
}

/// Its words, and what is written goes where the line says.
pub fn echo(_: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    ctx.out.line(words.join(" "));
    Ok(())
}

/// Shows files of the simulated machine.
pub fn cat(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    if words.is_empty() {
        return Err(Trouble::misuse(1, "cat needs a file"));
    }
    for (word, at) in words.iter().zip(1..) {
        match shell.simulated()?.file(word) {
            Some(text) => ctx.out.text(&text),
            None => {
                let trouble =
                    Trouble::new(at, format!("cannot show {word}: the simulated machine has no such file"));
                return Err(trouble
                    .remedy(format!("it has {SYSTEM_FILE} and /etc/pooladm.conf, once they were written")));
            }
        }
    }
    Ok(())
}

/// The machine boots again.
pub fn reboot(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    none("reboot", words)?;
    shell.dismiss();
    let simulation = shell.simulated()?;
    // Solaris keeps which services are enabled.
    let had_pools = simulation.is_enabled(Service::Pools);
    simulation.reboot();
    "reboot".clone_into(&mut ctx.prog);
    tell_settings(&simulation.file(SYSTEM_FILE).unwrap_or_default(), ctx);
    let started = if had_pools { switch(shell, Service::Pools, true, ctx) } else { Ok(()) };
    for zone in simulation.configured_zones() {
        configure(shell, &zone, ctx)?;
    }
    started
}

/// A zone gets what it is configured with.
fn configure(shell: &Shell, zone: &str, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let Some(commands) = shell.simulated()?.zone_configuration(zone) else { return Ok(()) };
    let words = ["zonecfg", "-z", zone, &commands].map(str::to_owned);
    if shell.command(&words, ctx)? {
        return Ok(());
    }
    Err(Trouble::new(0, format!("zone {zone} does not get what it is configured with")))
}

/// A zone's processes end, and with them its temporary pool.
fn halt(shell: &Shell, zone: &str) -> Result<(), Trouble> {
    let halted = shell.simulated()?.halt_zone(zone);
    halted.map_err(|why| {
        Trouble::new(2, format!("cannot halt zone {}: {why}", zone.escape_debug()))
            .remedy("zoneadm list -cv lists them")
    })?;
    let machine = shell.session.machine();
    let swept = pools::state_if_any(machine)?.map(|state| dedicated::sweep(machine, state)).transpose();
    swept.map(drop).map_err(|error| Trouble::new(2, format!("cannot end the pool of zone {zone}: {error}")))
}

/// How long it is up, and the averages of load.
pub fn uptime(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    none("uptime", words)?;
    let (clock, zone) = (shell.session.machine().clock(), shell.session.zone());
    let load = shell.simulated()?.load_averages();
    ctx.out.line(svcs::uptime(clock.wall(), clock.booted(), load, zone));
    Ok(())
}

fn zones(shell: &Shell) -> Result<Vec<Zone>, Trouble> {
    let zones = shell.session.machine().zones().map_err(|absent| Trouble::new(0, absent.why))?;
    zones.list().map_err(|refusal| Trouble::new(0, refusal.to_string()))
}

/// `zoneadm list [-cv]`, `zoneadm -z ZONE boot`, `zoneadm -z ZONE halt`.
pub fn zoneadm(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    match texts[..] {
        ["list"] => list(shell, false, false, ctx),
        ["list", option] => {
            let letters =
                option.strip_prefix('-').filter(|l| !l.is_empty() && l.chars().all(|c| "civ".contains(c)));
            let letters =
                letters.ok_or_else(|| Trouble::misuse(2, format!("list does not take `{option}`")))?;
            list(shell, letters.contains(['c', 'i']), letters.contains('v'), ctx)
        }
        ["-z", zone, "boot"] => {
            let was_halted = shell.simulated()?.halted_zones().iter().any(|one| one == zone);
            let booted = shell.simulated()?.boot_zone(zone);
            let booted = booted.map_err(|why| {
                Trouble::new(2, format!("cannot boot zone {zone}: {why}"))
                    .remedy("zoneadm list -cv lists them")
            })?;
            booted.iter().for_each(|(name, pid)| ctx.out.line(started(name, *pid)));
            if was_halted { configure(shell, zone, ctx) } else { Ok(()) }
        }
        ["-z", zone, "halt"] => halt(shell, zone),
        ["-z", _, other] => Err(Trouble::misuse(3, format!("zoneadm does not know `{other}`"))),
        _ => Err(Trouble::misuse(1, "zoneadm needs to be told what to do")),
    }
}

fn list(shell: &Shell, all: bool, long: bool, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    let row = |id: &str, name: &str, status: &str, path: &str, brand: &str, ip: &str| {
        format!("{id:>4} {name:<16} {status:<10} {path:<30} {brand:<8} {ip}")
    };
    if long {
        ctx.out.line(row("ID", "NAME", "STATUS", "PATH", "BRAND", "IP"));
    }
    let halted = simulation.halted_zones();
    for zone in zones(shell)? {
        let runs = simulation.zone_runs(&zone.name);
        if !runs && !all {
            continue;
        }
        let path = if zone.name == "global" { "/".to_owned() } else { format!("/zones/{}", zone.name) };
        let status = if runs { "running" } else { "ready" };
        match long {
            true => ctx.out.line(row(&zone.id.to_string(), &zone.name, status, &path, "native", "shared")),
            false => ctx.out.line(&zone.name),
        }
    }
    for name in halted.iter().filter(|_| all) {
        match long {
            true => ctx.out.line(row("-", name, "installed", &format!("/zones/{name}"), "native", "shared")),
            false => ctx.out.line(name),
        }
    }
    Ok(())
}

/// A zone by its name or its number.
fn zone_named(simulation: &Simulation<'_>, zones: &[Zone], word: &str) -> Option<String> {
    let by_name = zones.iter().find(|zone| zone.name == word);
    let zone = by_name.or_else(|| zones.iter().find(|zone| zone.id.to_string() == word))?;
    simulation.zone_runs(&zone.name).then(|| zone.name.clone())
}

/// `zlogin ZONE COMMAND ...`: starts a workload there.
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
    let load = workload("zlogin", command, 2, ctx)?;
    let refused = |why: String| Trouble::from(Failure::Said(why, None));
    let pid = simulation.log_in(&zone, &load).map_err(|why| refused(why.to_string()))?;
    ctx.out.line(started(&load.name, pid));
    Ok(())
}
