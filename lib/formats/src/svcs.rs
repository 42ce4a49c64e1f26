//! Lines of `svcs` and of `uptime`.

use crate::time::timestamp;
use jiff::tz::TimeZone;
use millpond_model::WallTime;

/// A day, in seconds: older state changes are shown by date.
const DAY: i64 = 86_400;

/// The heading of the table of services.
#[must_use]
pub fn header() -> String {
    row("STATE", "STIME", "FMRI")
}

/// A service: its state, the time of the last change (the date if it is older than a day), and its name.
#[must_use]
pub fn line(state: &str, since: WallTime, now: WallTime, zone: &TimeZone, fmri: &str) -> String {
    let form = if now.0.saturating_sub(since.0) < DAY { "%H:%M:%S" } else { "%b_%d" };
    row(state, &timestamp(since).to_zoned(zone.clone()).strftime(form).to_string(), fmri)
}

fn row(state: &str, since: &str, fmri: &str) -> String {
    format!("{state:<14} {since:<8} {fmri}")
}

/// The details of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail<'s> {
    /// Its FMRI.
    pub fmri: &'s str,
    /// Its description.
    pub name: &'s str,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its state.
    pub state: &'s str,
    /// The time of the last state change.
    pub since: WallTime,
    /// The service that it depends on, with its state.
    pub needs: Option<(&'s str, &'s str)>,
}

/// A time in the format of `svcs -l` and `svcs -x`: `Wed Nov 20 08:14:02 2024`.
#[must_use]
pub fn moment(at: WallTime, zone: &TimeZone) -> String {
    timestamp(at).to_zoned(zone.clone()).strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// The lines of `svcs -l`, with newlines.
#[must_use]
pub fn detail(service: &Detail<'_>, zone: &TimeZone) -> String {
    let Detail { fmri, name, enabled, state, since, needs } = service;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text += &format!("{name:<12} {value}\n");
    line("fmri", fmri);
    line("name", name);
    line("enabled", if *enabled { "true" } else { "false" });
    line("state", state);
    line("next_state", "none");
    line("state_time", &moment(*since, zone));
    line("restarter", "svc:/system/svc/restarter:default");
    if let Some((needed, is)) = needs {
        line("dependency", &format!("require_all/none {needed} ({is})"));
    }
    text
}

/// The line of `uptime`: the time of day, the uptime, the number of users (one), and load averages in hundredths.
#[must_use]
pub fn uptime(now: WallTime, booted: WallTime, load: [u64; 3], zone: &TimeZone) -> String {
    let zoned = timestamp(now).to_zoned(zone.clone());
    let minutes = now.0.saturating_sub(booted.0).max(0) / 60;
    let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
    let mut up = String::new();
    if days > 0 {
        up += &format!(" {days} day(s),");
    }
    up += &match (days, hours) {
        (0, 0) => format!(" {minutes} min(s),"),
        _ => format!(" {hours:2}:{minutes:02},"),
    };
    let [one, five, fifteen] = load.map(|load| format!("{}.{:02}", load / 100, load % 100));
    let (hour, half) = (zoned.hour(), if zoned.hour() < 12 { "am" } else { "pm" });
    let hour = if hour % 12 == 0 { 12 } else { hour % 12 };
    let minute = zoned.minute();
    format!(" {hour:2}:{minute:02}{half}  up{up}  1 user,  load average: {one}, {five}, {fifteen}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-11-20 08:14:02 UTC.
    const BOOTED: WallTime = WallTime(1_732_090_442);

    #[test]
    fn a_service_at_length_has_its_dependency_with_that_ones_state() {
        let dynamic = Detail {
            fmri: "svc:/system/pools/dynamic:default",
            name: "dynamic resource pools",
            enabled: true,
            state: "offline",
            since: BOOTED,
            needs: Some(("svc:/system/pools:default", "disabled")),
        };
        let expected = "\
fmri         svc:/system/pools/dynamic:default
name         dynamic resource pools
enabled      true
state        offline
next_state   none
state_time   Wed Nov 20 08:14:02 2024
restarter    svc:/system/svc/restarter:default
dependency   require_all/none svc:/system/pools:default (disabled)
";
        assert_eq!(detail(&dynamic, &TimeZone::UTC), expected);
    }

    #[test]
    fn services_have_a_time_and_after_a_day_a_date() {
        assert_eq!(header(), "STATE          STIME    FMRI");
        let name = "svc:/system/pools:default";
        let at = |seconds| line("online", BOOTED, WallTime(BOOTED.0 + seconds), &TimeZone::UTC, name);
        assert_eq!(at(0), "online         08:14:02 svc:/system/pools:default");
        assert_eq!(at(DAY), "online         Nov_20   svc:/system/pools:default");
    }

    #[test]
    fn a_system_is_up_for_minutes_hours_and_days() {
        let up = |seconds, load| uptime(WallTime(BOOTED.0 + seconds), BOOTED, load, &TimeZone::UTC);
        assert_eq!(up(60, [0, 5, 1234]), "  8:15am  up 1 min(s),  1 user,  load average: 0.00, 0.05, 12.34");
        assert_eq!(up(4 * 3_600, [0; 3]), " 12:14pm  up  4:00,  1 user,  load average: 0.00, 0.00, 0.00");
        assert_eq!(
            up(3 * DAY + 300, [100; 3]),
            "  8:19am  up 3 day(s),  0:05,  1 user,  load average: 1.00, 1.00, 1.00"
        );
        assert_eq!(up(16 * 3_600, [0; 3]), " 12:14am  up 16:00,  1 user,  load average: 0.00, 0.00, 0.00");
    }
}
