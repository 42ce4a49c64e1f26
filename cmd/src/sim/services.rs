//! The services of the pools: switched on and off, and shown.

use super::own::{misuse, none, simulation};
use super::shell::{Shell, Trouble};
use crate::ctx::Ctx;
use millpond_session::{NoSuchService, SERVICES, Service};

pub(super) fn svcadm(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let on = match words.first().map(String::as_str) {
        Some("enable") => true,
        Some("disable") => false,
        Some(word) => return Err(misuse(1, format!("svcadm does not know `{word}`"), "svcadm")),
        None => return Err(misuse(1, "svcadm needs to be told what to do", "svcadm")),
    };
    let (mut recursive, mut services) = (false, Vec::new());
    for (word, at) in words.iter().zip(1..).skip(1) {
        match word.as_str() {
            "-r" if on => recursive = true,
            // It is done when the command ends, and there is one boot.
            "-s" | "-t" => {}
            word if word.starts_with('-') => {
                return Err(misuse(at, format!("there is no option {word}"), "svcadm"));
            }
            word => {
                let all: Vec<String> = SERVICES.iter().map(ToString::to_string).collect();
                let remedy = format!("there are {}", all.join(" and "));
                let service: Service = word
                    .parse()
                    .map_err(|e: NoSuchService| Trouble::new(at, e.to_string()).remedy(remedy))?;
                services.push(service);
            }
        }
    }
    if services.is_empty() {
        return Err(misuse(words.len() + 1, "svcadm needs a service", "svcadm"));
    }
    let simulation = simulation(shell)?;
    for service in services {
        if let Some(needed) = service.needs().filter(|_| on && recursive) {
            switch(shell, needed, true, ctx)?;
        }
        switch(shell, service, on, ctx)?;
        if let Some(needed) = service.needs().filter(|needed| on && !simulation.is_enabled(*needed)) {
            ctx.prog = "svcadm".into();
            ctx.warn(format_args!("{service} waits for {needed}"));
            ctx.hint(&format!("svcadm enable {needed}"));
        }
    }
    Ok(())
}

/// What the start and the stop of a service do (reference §10).
fn switch(shell: &Shell, service: Service, on: bool, ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = simulation(shell)?;
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
    let file = shell.session.pools_file(None);
    // That of a simulated machine is a part of it: reading it neither waits nor fails.
    if matches!(file.read(&mut |_| ()), Ok(None)) || pooladm("-c")? {
        return Ok(());
    }
    pooladm("-d")?;
    failed("the configuration of its file cannot be had")
}

pub(super) fn svcs(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    none("svcs", words)?;
    let simulation = simulation(shell)?;
    ctx.out.line(format_args!("{:<14} FMRI", "STATE"));
    for service in SERVICES {
        let waits = service.needs().is_some_and(|needed| !simulation.is_enabled(needed));
        let state = match simulation.is_enabled(service) {
            false => "disabled",
            true if waits => "offline",
            true => "online",
        };
        ctx.out.line(format_args!("{state:<14} {service}"));
    }
    Ok(())
}
