//! Real-time readiness: kernel settings that make real-time threads late, with a verdict and remedies. `doctor` and
//! `posix` show it.

use crate::ctx::Ctx;
use millpond_machine::{Absent, Machine};
use millpond_model::{Effect, RealTimeSetting};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

#[derive(Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// Whether no setting makes threads late; null if unknown.
    ready: Option<bool>,
    settings: Vec<RealTimeSetting>,
}

impl Readiness {
    /// Reads the settings of a machine.
    pub fn of(machine: &dyn Machine) -> Result<Readiness, Absent> {
        let settings = machine.disturbances()?.real_time_settings()?;
        Ok(Readiness { ready: ready(&settings), settings })
    }
}

/// Serializes to null if the settings are unknown.
pub(crate) fn serialize<S: Serializer>(
    readiness: &Result<Readiness, Absent>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    readiness.as_ref().ok().serialize(serializer)
}

/// Prints the verdict, and a line for each setting.
pub(crate) fn print(readiness: &Result<Readiness, Absent>, ctx: &mut Ctx<'_>) {
    let settings = match readiness {
        Ok(readiness) => &readiness.settings,
        Err(absent) => {
            return ctx.out.line(format_args!("real-time readiness: not told: {}", absent.why));
        }
    };
    ctx.out.line(format_args!("real-time readiness: {}", verdict(settings)));
    for RealTimeSetting { name, is, remedy, effect } in settings {
        let mark = match effect {
            Effect::Good => "good",
            Effect::Delays => "delays",
            Effect::Unknown => "not told",
        };
        ctx.out.line(format_args!("  {name:<19}  {mark:<8}  {is}"));
        if let Some(remedy) = remedy {
            ctx.out.line(format_args!("  {:<19}  {:<8}  hint: {remedy}", "", ""));
        }
    }
}

fn count(settings: &[RealTimeSetting], effect: Effect) -> usize {
    settings.iter().filter(|setting| setting.effect == effect).count()
}

/// Whether no setting delays threads. `None` if that is unknown.
fn ready(settings: &[RealTimeSetting]) -> Option<bool> {
    match (count(settings, Effect::Delays), count(settings, Effect::Unknown)) {
        (0, 0) => Some(true),
        (0, _) => None,
        _ => Some(false),
    }
}

fn verdict(settings: &[RealTimeSetting]) -> String {
    let (all, delays, unknown) =
        (settings.len(), count(settings, Effect::Delays), count(settings, Effect::Unknown));
    let rest = if unknown > 0 { format!(", {unknown} not told") } else { String::new() };
    match ready(settings) {
        Some(true) => format!("ready: none of {all} settings makes threads late"),
        Some(false) => format!("not ready: {delays} of {all} settings may make threads late{rest}"),
        None => format!("cannot tell: none of {all} settings is known to make threads late{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_praises_nothing_that_is_not_told() {
        let (good, bad) = (RealTimeSetting::good("a", "x"), RealTimeSetting::delays("b", "y", "z"));
        let unknown = RealTimeSetting::unknown("c", "w");
        assert_eq!(ready(std::slice::from_ref(&good)), Some(true));
        assert_eq!(ready(&[good.clone(), unknown.clone()]), None);
        assert_eq!(ready(&[good.clone(), unknown.clone(), bad.clone()]), Some(false));
        let told = verdict(&[good, unknown, bad]);
        assert_eq!(told, "not ready: 1 of 3 settings may make threads late, 1 not told");
    }
}
