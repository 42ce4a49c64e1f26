//! The pools services: enabled, disabled and shown.

use super::shell::{Shell, Trouble};
use super::svcs;
use crate::ctx::Ctx;
use millpond_formats::svcs::{header, line};
use millpond_model::{NoSuchService, SERVICES, Service};
use millpond_session::Simulation;

pub(super) fn svcadm(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let verb = words.first().map(String::as_str);
    let on = match verb {
        Some("enable") => true,
        Some("disable" | "refresh" | "restart") => false,
        Some(word) => return Err(Trouble::misuse(1, format!("svcadm does not know `{word}`"))),
        None => return Err(Trouble::misuse(1, "svcadm needs to be told what to do")),
    };
    let (mut recursive, mut services) = (false, Vec::new());
    for (word, at) in words.iter().zip(1..).skip(1) {
        match word.as_str() {
            "-r" if on => recursive = true,
            // -s: commands are synchronous anyway. -t: temporary changes are not distinguished from permanent ones.
            "-s" | "-t" => {}
            word if word.starts_with('-') => {
                return Err(Trouble::misuse(at, format!("there is no option {word}")));
            }
            word => services.push(named(word, at)?),
        }
    }
    if services.is_empty() {
        return Err(Trouble::misuse(words.len() + 1, "svcadm needs a service"));
    }
    for service in services {
        if let Some(verb @ ("refresh" | "restart")) = verb {
            again(shell, service, verb == "restart", ctx)?;
            continue;
        }
        if let Some(needed) = service.needs().filter(|_| on && recursive) {
            switch(shell, needed, true, ctx)?;
        }
        switch(shell, service, on, ctx)?;
        let simulation = shell.simulated()?;
        if let Some(needed) = service.needs().filter(|needed| on && !simulation.is_enabled(*needed)) {
            ctx.prog = "svcadm".into();
            ctx.warn(format_args!("{service} waits for {needed}"));
            ctx.hint(&format!("svcadm enable {needed}"));
        }
    }
    Ok(())
}

/// Starts or stops a service. The start of the pools service is `pooladm -e`, then `pooladm -c` with the machine's
/// file. Its stop is `pooladm -d`.
pub(super) fn switch(shell: &Shell, service: Service, on: bool, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    if service != Service::Pools || on == simulation.is_enabled(service) {
        simulation.enable(service, on);
        return Ok(());
    }
    let mut pooladm = |option: &str| shell.command(&["pooladm".to_owned(), option.to_owned()], ctx);
    if !on {
        return if pooladm("-d")? {
            Ok(())
        } else {
            Err(Trouble::new(0, format!("{service} does not stop")))
        };
    }
    let failed = |why: &str| Err(Trouble::new(0, format!("{service} does not start: {why}")));
    if !pooladm("-e")? {
        return failed("pools cannot be enabled");
    }
    let Err(why) = configure(shell, ctx) else { return Ok(()) };
    shell.command(&["pooladm".to_owned(), "-d".to_owned()], ctx)?;
    failed(&why.what)
}

/// `refresh` applies the configuration again; `restart` stops and starts the service.
fn again(shell: &mut Shell, service: Service, restart: bool, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    if !simulation.is_enabled(service) {
        return Err(Trouble::new(
            0,
            format!("cannot {} {service}: it is disabled", if restart { "restart" } else { "refresh" }),
        )
        .remedy(format!("svcadm enable {service}")));
    }
    if service != Service::Pools {
        simulation.changed_now(service);
        if restart {
            shell.dismiss();
        }
        shell.attend();
        return Ok(());
    }
    if restart {
        switch(shell, service, false, ctx)?;
        return switch(shell, service, true, ctx);
    }
    configure(shell, ctx)
}

/// Applies the machine's configuration file, if there is one.
fn configure(shell: &Shell, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let file = shell.session.pools_file(None);
    // The file of a simulated machine is a part of it: reading it neither waits nor fails.
    if matches!(file.read(), Ok(None)) || shell.command(&["pooladm".to_owned(), "-c".to_owned()], ctx)? {
        return Ok(());
    }
    Err(Trouble::new(0, "the configuration of its file cannot be had"))
}

/// Without words, lists the services and their states; with `-a` or names, prints the listing of Solaris.
pub(super) fn svcs(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    match words.first().map(String::as_str) {
        Some("-l") => return svcs::long(shell, words, ctx),
        Some("-x") => return svcs::explain(shell, words, ctx),
        _ => {}
    }
    let simulation = shell.simulated()?;
    let state = |service: Service| state(&simulation, service);
    if words.is_empty() {
        ctx.out.line(format_args!("{:<14} FMRI", "STATE"));
        for service in SERVICES {
            ctx.out.line(format_args!("{:<14} {service}", state(service)));
        }
        return Ok(());
    }
    let mut chosen = Vec::new();
    for (word, at) in words.iter().zip(1..) {
        match word.as_str() {
            "-a" => chosen.extend(SERVICES),
            word if word.starts_with('-') => {
                return Err(Trouble::misuse(at, format!("there is no option {word}")));
            }
            word => chosen.push(named(word, at)?),
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    let clock = shell.session.machine().clock();
    ctx.out.line(header());
    for service in chosen {
        let since = simulation.since(service);
        let fmri = service.to_string();
        ctx.out.line(line(state(service), since, clock.wall(), shell.session.zone(), &fmri));
    }
    Ok(())
}

/// The state of a service, in the terms of Solaris.
pub(super) fn state(simulation: &Simulation<'_>, service: Service) -> &'static str {
    let waits = service.needs().is_some_and(|needed| !simulation.is_enabled(needed));
    match simulation.is_enabled(service) {
        false => "disabled",
        true if waits => "offline",
        true => "online",
    }
}

pub(super) fn named(word: &str, at: usize) -> Result<Service, Trouble> {
    let all: Vec<String> = SERVICES.iter().map(ToString::to_string).collect();
    let remedy = format!("there are {}", all.join(" and "));
    word.parse().map_err(|e: NoSuchService| Trouble::new(at, e.to_string()).remedy(remedy))
}
