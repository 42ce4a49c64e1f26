//! Booting: the tunables file, reboot, and uptime.

use super::services::switch;
use super::shell::{Shell, Trouble, none};
use crate::ctx::Ctx;
use millpond_formats::svcs;
use millpond_formats::system_file::{TUNABLES, within_bounds};
use millpond_model::Service;
use millpond_session::{SYSTEM_FILE, read_text};
use std::path::Path;

/// Warns about lines of a text for the file of tunables that have no effect.
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

/// Prints its words; the line may redirect them.
pub fn echo(_: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    ctx.out.line(words.join(" "));
    Ok(())
}

/// Prints files: absolute names are files of the simulated machine, others are files of the host.
pub fn cat(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    if words.is_empty() {
        return Err(Trouble::misuse(1, "cat needs a file"));
    }
    for (word, at) in words.iter().zip(1..) {
        if !word.starts_with('/') {
            let text = read_text(Path::new(word));
            let refused = |why| Trouble::new(at, format!("cannot show {}: {why}", word.escape_debug()));
            ctx.out.text(&text.map_err(refused)?);
            continue;
        }
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

/// Boots the machine again.
pub fn reboot(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    none("reboot", words)?;
    shell.dismiss();
    let simulation = shell.simulated()?;
    // As on Solaris, enabled services stay enabled.
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

/// Applies the configuration of a zone.
pub(super) fn configure(shell: &Shell, zone: &str, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let Some(commands) = shell.simulated()?.zone_configuration(zone) else { return Ok(()) };
    let words = ["zonecfg", "-z", zone, &commands].map(str::to_owned);
    if shell.command(&words, ctx)? {
        return Ok(());
    }
    Err(Trouble::new(0, format!("zone {zone} does not get what it is configured with")))
}

/// Prints the time since boot and the load averages.
pub fn uptime(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    none("uptime", words)?;
    let (clock, zone) = (shell.session.machine().clock(), shell.session.zone());
    let load = shell.simulated()?.load_averages();
    ctx.out.line(svcs::uptime(clock.wall(), clock.booted(), load, zone));
    Ok(())
}
