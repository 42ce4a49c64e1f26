//! What caps took away over an interval: the table of `--caps` below those of `prstat` and `poolstat`, and its JSON.

use crate::failure::{Failure, facet, read};
use millpond_machine::Machine;
use millpond_machine::facets::Controlled;
use millpond_model::Nanos;
use serde_json::{Value, json};

/// What was counted at the last report.
#[derive(Default)]
pub struct Caps {
    before: Option<(Nanos, Vec<Controlled>)>,
}

/// A holder with shares or a cap, over an interval. What is not known, as in a first report, is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct CapRow {
    holder: String,
    shares: Option<u32>,
    cap: Option<u32>,
    /// CPU time used, and time in which its cap kept it from CPUs: in percent of one CPU over the interval.
    used: Option<f64>,
    lost: Option<f64>,
    /// Periods of the cap in which that happened, and in how many it wanted a CPU.
    periods: Option<(u64, u64)>,
}

impl Caps {
    /// The rows of a report: every holder with shares or a cap, or that lost time to one. Gives how long the interval was, too; none for the first report.
    ///
    /// # Errors
    /// [`Failure`] when the machine has no shares and caps, or cannot be read.
    pub fn next(&mut self, machine: &dyn Machine) -> Result<(Option<Nanos>, Vec<CapRow>), Failure> {
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
            row.shares.is_some() || row.cap.is_some() || row.lost.is_some_and(|lost| lost > 0.0)
        };
        Ok((elapsed, now.iter().map(row).filter(is_shown).collect()))
    }
}

fn row(now: &Controlled, before: Option<&Controlled>, elapsed: Option<Nanos>) -> CapRow {
    let elapsed = elapsed.filter(|elapsed| elapsed.0 > 0);
    // A holder that was made anew counts from its beginning: what was less before is another one's.
    let percent = |now: Option<Nanos>, then: Option<Nanos>| {
        let grown = now?.0.checked_sub(then?.0)?;
        Some(100.0 * Nanos(grown).as_secs_f64() / elapsed?.as_secs_f64())
    };
    let old = before.and_then(|before| before.throttled);
    let periods = now.throttled.zip(old).filter(|_| elapsed.is_some());
    CapRow {
        holder: now.holder.to_string().escape_debug().to_string(),
        shares: now.shares.map(millpond_model::Shares::get),
        cap: now.cap.map(millpond_model::CpuCap::get),
        used: percent(now.used, before.and_then(|before| before.used)),
        lost: percent(now.throttled.map(|it| it.time), old.map(|it| it.time)),
        periods: periods.and_then(|(now, old)| {
            Some((now.periods.checked_sub(old.periods)?, now.of.checked_sub(old.of)?))
        }),
    }
}

/// The table, each line with its end: an interval in the head, and dashes for what is not known.
#[must_use]
pub fn table(elapsed: Option<Nanos>, rows: &[CapRow]) -> String {
    let over =
        elapsed.map_or_else(|| "no interval yet".to_owned(), |it| format!("over {:.3} s", it.as_secs_f64()));
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
    for row in rows {
        let periods = row.periods.map_or_else(dash, |(lost, of)| format!("{lost}/{of}"));
        text += &format!(
            "{:<32} {:>6} {:>6} {:>7} {:>7} {periods:>9}\n",
            row.holder,
            number(row.shares),
            number(row.cap),
            figure(row.used),
            figure(row.lost),
        );
    }
    text
}

/// The same as JSON.
#[must_use]
pub fn to_json(elapsed: Option<Nanos>, rows: &[CapRow]) -> Value {
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    let row = |row: &CapRow| {
        json!({
            "holder": row.holder, "shares": row.shares, "cap_pct": row.cap,
            "used_pct": row.used.map(rounded), "lost_pct": row.lost.map(rounded),
            "periods_lost": row.periods.map(|(lost, _)| lost), "periods": row.periods.map(|(_, of)| of),
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    json!({ "interval_s": elapsed.map(|it| rounded(it.as_secs_f64())), "holders": rows })
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
        let elapsed = Some(Nanos::from_secs(2));
        let row = row(&now, Some(&before), elapsed);
        assert_eq!(
            table(elapsed, std::slice::from_ref(&row)),
            "CAPS, over 2.000 s               SHARES   CAP%   USED%   LOST%   PERIODS\n\
             zone a\\u{1b}b                         -     50    50.0    50.0     19/20\n"
        );
        let json = to_json(elapsed, &[row]);
        assert_eq!(
            (json["holders"][0]["lost_pct"].clone(), json["interval_s"].clone()),
            (json!(50.0), json!(2.0))
        );
    }

    #[test]
    fn a_first_report_and_a_holder_made_anew_have_dashes() {
        let first = row(&holder(1_000, 400, 5, 7), None, None);
        assert!(table(None, &[first]).ends_with("50       -       -         -\n"));
        let anew = row(&holder(10, 0, 0, 1), Some(&holder(1_000, 400, 5, 7)), Some(Nanos::from_secs(2)));
        assert_eq!((anew.used, anew.lost, anew.periods), (None, None, None));
    }
}
