//! Details of a service: `svcs -l` and `svcs -x`.

use super::services::{named, state};
use super::shell::{Shell, Trouble};
use crate::ctx::Ctx;
use millpond_formats::svcs::{Detail, detail};
use millpond_model::{SERVICES, Service};

/// The description of a service.
fn title(service: Service) -> &'static str {
    match service {
        Service::Pools => "resource pools framework",
        Service::DynamicPools => "dynamic resource pools",
    }
}

/// The services that the words after the option name.
fn chosen(words: &[String]) -> Result<Vec<Service>, Trouble> {
    words.iter().zip(1..).skip(1).map(|(word, at)| named(word, at)).collect()
}

/// `svcs -l SERVICE ...`: the details of each service.
pub(super) fn long(shell: &Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    let services = chosen(words)?;
    if services.is_empty() {
        return Err(Trouble::misuse(words.len() + 1, "svcs -l needs a service"));
    }
    for (at, service) in services.into_iter().enumerate() {
        if at > 0 {
            ctx.out.line("");
        }
        let needs = service.needs().map(|needed| (needed.to_string(), state(&simulation, needed)));
        let shown = Detail {
            fmri: &service.to_string(),
            name: title(service),
            enabled: simulation.is_enabled(service),
            state: state(&simulation, service),
            since: simulation.since(service),
            needs: needs.as_ref().map(|(fmri, state)| (fmri.as_str(), *state)),
        };
        ctx.out.text(&detail(&shown, shell.session.zone()));
    }
    Ok(())
}

/// `svcs -x [SERVICE ...]`: why enabled or named services do not run.
pub(super) fn explain(shell: &Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    let named = chosen(words)?;
    let is_named = !named.is_empty();
    let services = if is_named { named } else { SERVICES.to_vec() };
    for service in services {
        let is = state(&simulation, service);
        if !is_named && (is == "online" || !simulation.is_enabled(service)) {
            continue;
        }
        let since = millpond_formats::svcs::moment(simulation.since(service), shell.session.zone());
        ctx.out.line(format_args!("{service} ({})", title(service)));
        ctx.out.line(format_args!(" State: {is} since {since}"));
        let (reason, impact) = match (is, service.needs()) {
            ("disabled", _) => {
                (format!("it is disabled: svcadm enable {service}"), "This service is not running.")
            }
            ("offline", Some(needed)) => (
                format!("service {needed} is {}: svcadm enable {needed}", state(&simulation, needed)),
                "This service is not running.",
            ),
            _ => ("none: it runs".to_owned(), "None."),
        };
        ctx.out.line(format_args!("Reason: {reason}"));
        ctx.out.line(format_args!("Impact: {impact}"));
    }
    Ok(())
}
