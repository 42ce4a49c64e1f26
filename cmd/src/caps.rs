//! CPU time that caps took away during an interval: the `--caps` table of `prstat` and `poolstat`, and its JSON.

use crate::failure::{Failure, facet, read};
use millpond_machine::Machine;
use millpond_machine::facets::{Controlled, Throttled, throttled_between};
use millpond_model::{ControlHolder, Nanos};
use millpond_observe::digits::thousandths;
use schemars::JsonSchema;
use serde::Serialize;

/// Why the use is a dash although the lost time is known.
const UNCOUNTED: &str = "USED% is a dash where cgroup version 1 counts CPU time in another hierarchy (cpuacct), which has no such group\n";

/// The counters at the last report.
#[derive(Default)]
pub struct Caps {
    before: Option<(Nanos, Vec<Controlled>)>,
}

/// A report. The first one has no interval, so its used and lost times are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CapsReport {
    #[serde(serialize_with = "thousandths")]
    interval_s: Option<f64>,
    holders: Vec<CapRow>,
}

/// A holder of shares or a cap, during an interval.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct CapRow {
    holder: String,
    shares: Option<u32>,
    /// In percent of one CPU.
    cap_pct: Option<u32>,
    /// CPU time used, in percent of one CPU; null if unknown.
    #[serde(serialize_with = "thousandths")]
    used_pct: Option<f64>,
    /// Time in which the cap kept it from CPUs, in percent of one CPU; null if unknown.
    #[serde(serialize_with = "thousandths")]
    lost_pct: Option<f64>,
    /// Periods in which the cap kept it from CPUs.
    periods_lost: Option<u64>,
    /// Periods in which it wanted a CPU.
    periods: Option<u64>,
}

impl Caps {
    /// A report about every holder with shares or a cap, or that lost time because of a cap.
    ///
    /// # Errors
    /// [`Failure`] if the machine has no shares and caps, or cannot be read.
    pub fn next(&mut self, machine: &dyn Machine) -> Result<CapsReport, Failure> {
        let controls = facet("shares and caps", machine.controls())?;
        let now = read("shares and caps", controls.list())?;
        let at = machine.clock().now();
        let before = self.before.replace((at, now.clone()));
        let elapsed = before.as_ref().map(|(then, _)| Nanos(at.0.saturating_sub(then.0)));
        let old = before.map(|(_, list)| list).unwrap_or_default();
        let row = |one: &Controlled| {
            let before = old.iter().find(|old| old.holder == one.holder);
            row(one, before, elapsed)
        };
        let is_shown = |row: &CapRow| {
            row.shares.is_some() || row.cap_pct.is_some() || row.lost_pct.is_some_and(|lost| lost > 0.0)
        };
        let holders = now.iter().map(row).filter(is_shown).collect();
        Ok(CapsReport { interval_s: elapsed.map(Nanos::as_secs_f64), holders })
    }
}

impl Caps {
    /// The holders that often exhausted their caps since the last call, each with a sentence. Empty at the first
    /// call, and without caps.
    pub fn throttled(&mut self, machine: &dyn Machine) -> Vec<(ControlHolder, String)> {
        let Some(now) = machine.controls().ok().and_then(|controls| controls.list().ok()) else {
            return Vec::new();
        };
        let before = self.before.replace((machine.clock().now(), now.clone()));
        before.map(|(_, before)| throttled_between(&before, &now)).unwrap_or_default()
    }
}

/// The holders that have often exhausted their caps, a sentence each.
pub fn used_up(machine: &dyn Machine) -> Vec<String> {
    let now = machine.controls().ok().and_then(|controls| controls.list().ok()).unwrap_or_default();
    let unused = |one: &Controlled| Controlled { throttled: Some(Throttled::default()), ..one.clone() };
    let before: Vec<Controlled> = now.iter().map(unused).collect();
    throttled_between(&before, &now).into_iter().map(|(_, sentence)| sentence).collect()
}

fn row(now: &Controlled, before: Option<&Controlled>, elapsed: Option<Nanos>) -> CapRow {
    let elapsed = elapsed.filter(|elapsed| elapsed.0 > 0);
    // A holder that was created again counts from zero. A smaller earlier count belongs to another holder.
    let percent = |now: Option<Nanos>, then: Option<Nanos>| {
        let grown = now?.0.checked_sub(then?.0)?;
        Some(100.0 * Nanos(grown).as_secs_f64() / elapsed?.as_secs_f64())
    };
    let old = before.and_then(|before| before.throttled);
    let periods =
        now.throttled.zip(old).filter(|_| elapsed.is_some()).and_then(|(now, old)| {
            Some((now.periods.checked_sub(old.periods)?, now.of.checked_sub(old.of)?))
        });
    let (periods_lost, periods) = periods.unzip();
    CapRow {
        holder: now.holder.to_string().escape_debug().to_string(),
        shares: now.shares.map(millpond_model::Shares::get),
        cap_pct: now.cap.map(millpond_model::CpuCap::get),
        used_pct: percent(now.used, before.and_then(|before| before.used)),
        lost_pct: percent(now.throttled.map(|it| it.time), old.map(|it| it.time)),
        periods_lost,
        periods,
    }
}

impl CapsReport {
    /// The table as text: the head has the interval, and unknown values are dashes.
    #[must_use]
    pub fn table(&self) -> String {
        let over =
            self.interval_s.map_or_else(|| "no interval yet".to_owned(), |it| format!("over {it:.3} s"));
        let mut text = format!(
            "{:<32} {:>6} {:>6} {:>7} {:>7} {:>9}\n",
            format!("CAPS, {over}"),
            "SHARES",
            "CAP%",
            "USED%",
            "LOST%",
            "PERIODS"
        );
        let dash = || "-".to_owned();
        let number = |value: Option<u32>| value.map_or_else(dash, |value| value.to_string());
        let figure = |value: Option<f64>| value.map_or_else(dash, |value| format!("{value:.1}"));
        for row in &self.holders {
            let periods = row.periods_lost.zip(row.periods);
            let periods = periods.map_or_else(dash, |(lost, of)| format!("{lost}/{of}"));
            text += &format!(
                "{:<32} {:>6} {:>6} {:>7} {:>7} {periods:>9}\n",
                row.holder,
                number(row.shares),
                number(row.cap_pct),
                figure(row.used_pct),
                figure(row.lost_pct),
            );
        }
        let is_uncounted = |row: &CapRow| row.used_pct.is_none() && row.lost_pct.is_some();
        if self.holders.iter().any(is_uncounted) {
            text += UNCOUNTED;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_machine::facets::Throttled;
    use millpond_model::{ControlHolder, CpuCap};

    fn holder(used_ms: u64, lost_ms: u64, periods: u64, of: u64) -> Controlled {
        Controlled {
            holder: ControlHolder::Zone("a\u{1b}b".into()),
            shares: None,
            cap: CpuCap::new(50).ok(),
            used: Some(Nanos::from_millis(used_ms)),
            throttled: Some(Throttled {
                time: Nanos::from_millis(lost_ms),
                periods,
                of,
                period: Nanos::from_millis(100),
            }),
        }
    }

    #[test]
    fn what_a_cap_took_away_is_told_with_its_interval() {
        let (before, now) = (holder(1_000, 400, 5, 7), holder(2_000, 1_400, 24, 27));
        let row = row(&now, Some(&before), Some(Nanos::from_secs(2)));
        let report = CapsReport { interval_s: Some(2.0), holders: vec![row] };
        assert_eq!(
            report.table(),
            "CAPS, over 2.000 s               SHARES   CAP%   USED%   LOST%   PERIODS\n\
             zone a\\u{1b}b                         -     50    50.0    50.0     19/20\n"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["holders"][0]["lost_pct"], &json["interval_s"]), (&50.0.into(), &2.0.into()));
    }

    #[test]
    fn use_that_the_kernel_does_not_count_is_a_dash_with_a_reason() {
        let uncounted = |lost_ms, periods| Controlled { used: None, ..holder(0, lost_ms, periods, periods) };
        let row = row(&uncounted(800, 10), Some(&uncounted(0, 0)), Some(Nanos::from_secs(1)));
        let report = CapsReport { interval_s: Some(1.0), holders: vec![row] };
        assert_eq!(
            report.table(),
            "CAPS, over 1.000 s               SHARES   CAP%   USED%   LOST%   PERIODS\n\
             zone a\\u{1b}b                         -     50       -    80.0     10/10\n\
             USED% is a dash where cgroup version 1 counts CPU time in another hierarchy (cpuacct), which has no such group\n"
        );
    }

    #[test]
    fn a_first_report_and_a_holder_made_anew_have_dashes() {
        let first = row(&holder(1_000, 400, 5, 7), None, None);
        let report = CapsReport { interval_s: None, holders: vec![first] };
        assert!(report.table().ends_with("50       -       -         -\n"));
        let anew = row(&holder(10, 0, 0, 1), Some(&holder(1_000, 400, 5, 7)), Some(Nanos::from_secs(2)));
        assert_eq!((anew.used_pct, anew.lost_pct, anew.periods), (None, None, None));
    }
}
